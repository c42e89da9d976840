"""Callers that are cancelled at any moment: nothing hangs or is left, and each call is answered once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import partial
from secrets import randbits
from typing import Final, Literal, TypeAlias

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail import SessionSpec, aio
from agentrail.bridge.trio_thread import TrioThread
from agentrail.errors import AgentrailError, BridgeClosed
from agentrail.testing import ScriptedModel, call, say
from tests.bridge.loops import Run, bare_thread, on_each_loop, plain
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

USERS: Final = 5000 if CAMPAIGN else 500


@aio.tool
async def wait() -> str:
    """Wait a moment."""
    await asyncio.sleep(0.001)
    return "waited"


SPEC: Final = SessionSpec(
    model=ScriptedModel(
        [lambda request: say(calls=[call("wait")]) if len(request.messages) % 3 == 1 else say("a b c")],
        repeat_last=True,
    ),
    tools=[wait],
)


async def use(supervisor: aio.Supervisor, name: str, chance: random.Random, ends: list[asyncio.Task[None]]) -> None:
    """Do what a user does with a session, which is stopped at the end by a task of its own, one of *ends*."""
    session = await supervisor.spawn(SPEC, name)
    try:
        async with session.subscribe() as events:
            await session.prompt("go", command="go")
            for _ in range(chance.randrange(4)):
                await anext(events)
            if chance.random() < 0.3:
                await session.steer("and this")
            if chance.random() < 0.3:
                await (await session.fork()).stop()
            await session.ask("go", command="go")
        async with session.monitor() as down, session.trace():
            await session.stop()
            await down.wait()
    finally:
        ends.append(asyncio.create_task(session.stop()))


@pytest.mark.campaign
@on_each_loop
def test_of_users_that_are_cancelled_at_random_moments_nothing_is_left(run: Run) -> None:
    seed = randbits(32) if CAMPAIGN else 44
    print(f"seed {seed}")  # noqa: T201 - for whoever sees it fail
    chance = random.Random(seed)

    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            for first in range(0, USERS, 10):
                ends: list[asyncio.Task[None]] = []
                users = [
                    asyncio.create_task(use(supervisor, f"s{number}", random.Random(chance.random()), ends))
                    for number in range(first, first + 10)
                ]
                for user in users:
                    await asyncio.sleep(chance.random() * 0.004)
                    for _ in range(chance.randrange(1, 4)):
                        user.cancel()
                        if chance.random() < 0.5:
                            await asyncio.sleep(0)
                outcomes = [
                    *await asyncio.gather(*users, return_exceptions=True),
                    *await asyncio.gather(*ends, return_exceptions=True),
                ]
                strange = [
                    outcome
                    for outcome in outcomes
                    if not isinstance(outcome, asyncio.CancelledError | AgentrailError | None)
                ]
                assert strange == []
            assert supervisor.sessions() == ()
            assert supervisor.crashes() == ()

    run(main)


Move: TypeAlias = tuple[Literal["call", "cancel", "release", "fail", "turn", "close"], int]

MOVES = st.tuples(
    st.sampled_from(["call", "call", "cancel", "release", "fail", "turn", "turn", "close"]), st.integers(0, 5)
)


class Work:
    """The work of one call on Trio, and what the test has done to it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.released = trio.Event()
        self.must_fail = False
        self.is_cancelled = False
        self.begun = self.ended = 0

    async def run(self) -> int:
        self.begun += 1
        try:
            await self.released.wait()
            if self.must_fail:
                raise ValueError(self.number)
            return self.number
        finally:
            self.ended += 1

    def release(self, *, fail: bool) -> None:
        if not self.released.is_set():  # the first time counts: the work may be over by the second
            self.must_fail = fail
            self.released.set()


async def play(thread: TrioThread[None], moves: Sequence[Move]) -> None:
    """Make the moves; then each call must have been answered as one that is like the model."""
    works: list[Work] = []
    callers: list[asyncio.Task[int]] = []
    closing: asyncio.Task[None] | None = None
    for move, number in moves:
        index = number % max(len(works), 1)
        match move:
            case "call":
                works.append(Work(len(works)))
                callers.append(asyncio.create_task(thread.call(works[-1].run)))
            case "cancel" if works:
                works[index].is_cancelled |= callers[index].cancel()
            case "release" | "fail" if works:
                thread.post(partial(works[index].release, fail=move == "fail"))
            case "turn":
                await asyncio.sleep(0.0001 * number)
            case "close" if number == 5 and closing is None:
                closing = asyncio.create_task(thread.close())
            case _:
                pass
    await asyncio.sleep(0)
    for work in works:
        thread.post(partial(work.release, fail=work.must_fail))
    await asyncio.gather(*callers, return_exceptions=True)
    for work, caller in zip(works, callers, strict=True):
        check(work, caller, closed=closing is not None)
    if closing is not None:
        await closing


def check(work: Work, caller: asyncio.Task[int], *, closed: bool) -> None:
    """Compare how *caller* was answered with what was done to *work*."""
    assert work.begun == work.ended <= 1
    if work.is_cancelled:
        assert caller.cancelled()
    elif isinstance(error := caller.exception(), ValueError):
        assert (work.must_fail, error.args) == (True, (work.number,))
    elif error is not None:
        assert isinstance(error, BridgeClosed)
        assert closed
    else:
        assert caller.result() == work.number


@given(st.lists(MOVES, max_size=30))
@settings(deadline=None)
def test_a_call_is_answered_once_whatever_crosses(moves: Sequence[Move]) -> None:
    async def main() -> None:
        async with bare_thread() as thread:
            await play(thread, moves)

    plain(main)
