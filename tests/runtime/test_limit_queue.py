"""The queue of requests that wait near limits: first come, first served, and nobody is forgotten."""

from __future__ import annotations

import math
from functools import partial
from random import Random
from typing import NamedTuple

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrail.runtime.work.limit_queue import LimitKey, LimitQueue
from tests.profiles import CAMPAIGN
from tests.runtime.conftest import run_in_virtual_time

SHARED: LimitKey = ("root", False)
SESSIONS = ("a", "b", "c", "own")


class Asked(NamedTuple):
    """A request: its session, when it comes, how long it takes when it is sent, and when its caller gives up."""

    session: str
    at: int
    seconds: int
    gives_up: int | None

    @property
    def limits(self) -> tuple[LimitKey, ...]:
        """What it has to fit: the session `own` shares the limits of no other."""
        return ((self.session, True),) if self.session == "own" else (SHARED, (self.session, True))


class Room:
    """Limits of which each has room for a number of requests at once."""

    def __init__(self, shared: int, own: int) -> None:
        self.queue = LimitQueue()
        self.sent: list[int] = []
        self.most = {SHARED: shared}
        self._own = own
        self._under_way: dict[LimitKey, int] = {}

    def full(self, asked: Asked) -> LimitKey | None:
        """Return the limits that have no room for a request."""
        return next(
            (each for each in asked.limits if self._under_way.get(each, 0) >= self.most.get(each, self._own)), None
        )

    async def pass_through(self, number: int, asked: Asked) -> None:
        """Send a request when it may be sent; it may be cancelled at any time."""
        await trio.sleep(asked.at)
        waiter = self.queue.join(("root", asked.session), asked.limits, trio.current_time)
        try:
            await self.queue.turn(waiter)
            while (full := self.full(asked)) is not None:
                self.queue.stay(waiter, full)
                await self.queue.turn(waiter)
            self.sent.append(number)
            for each in asked.limits:
                self._under_way[each] = self._under_way.get(each, 0) + 1
        finally:
            self.queue.leave(waiter)
        try:
            await trio.sleep(asked.seconds)
        finally:
            for each in asked.limits:
                self._under_way[each] -= 1
            self.queue.look_again()


def requests_of(chance: Random) -> list[Asked]:
    """Draw requests, in the order in which they come."""
    found = [
        Asked(
            chance.choice(SESSIONS),
            chance.randint(0, 6),
            chance.randint(0, 6),
            chance.randint(0, 6) if chance.random() < 0.4 else None,
        )
        for _ in range(chance.randint(1, 12))
    ]
    return sorted(found, key=lambda asked: asked.at)


async def sent_of(requests: list[Asked], shared: int, own: int, *, stirs: bool = False) -> list[int]:
    """Return the numbers of the requests that are sent, in order; with *stirs*, all look again and again."""
    room = Room(shared, own)

    async def ask(number: int, asked: Asked) -> None:
        with trio.move_on_after(math.inf if asked.gives_up is None else asked.at + asked.gives_up):
            await room.pass_through(number, asked)

    async def stir() -> None:
        for _ in range(20 if stirs else 0):
            await trio.sleep(0.5)
            room.queue.look_again()

    with trio.fail_after(1_000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stir)
            for number, asked in enumerate(requests):
                nursery.start_soon(ask, number, asked)
    return room.sent


def wrong_order(requests: list[Asked], sent: list[int]) -> str | None:
    """Return what is wrong if *sent* are the requests that were sent, in this order."""
    if not {number for number, asked in enumerate(requests) if asked.gives_up is None} <= {*sent}:
        return "not sent"
    for session in SESSIONS:
        times = [requests[number].at for number in sent if requests[number].session == session]
        if times != sorted(times):
            return "order"
    return None


@pytest.mark.long
@settings(max_examples=2_000 if CAMPAIGN else 150)
@given(st.integers(0, 1_000_000), st.integers(1, 3), st.integers(1, 2), st.booleans())
def test_first_come_first_served_and_nobody_is_forgotten(seed: int, shared: int, own: int, stirs: bool) -> None:
    """Whoever is cancelled while it waits, or in the moment in which it is its turn, passes the turn on."""
    requests = requests_of(Random(seed))
    assert wrong_order(requests, run_in_virtual_time(partial(sent_of, requests, shared, own, stirs=stirs))) is None


LINES = (("root",), ("root", "a"), ("root", "a", "aa"), ("root", "a", "ab"), ("root", "b"), ("root", "b", "ba"))
ALL_LIMITS: tuple[LimitKey, ...] = tuple((line[-1], of_turn) for line in LINES for of_turn in (False, True))


class Restless:
    """A family in which something changes in every pass of the scheduler: limits fill and empty, and all look again."""

    def __init__(self, chance: Random, requests: int) -> None:
        self.queue = LimitQueue()
        self.requests = requests
        self.longest = 0  # the most looks of others while a request had room
        self._chance = chance
        self._full = {each for each in ALL_LIMITS if chance.random() < 0.5}
        self._passed: dict[int, int] = {}  # looks of others, by request, since it has had room
        self._needs: dict[int, tuple[LimitKey, ...]] = {}

    def _changed(self) -> None:
        for number, needs in self._needs.items():
            if not self._full.isdisjoint(needs):
                self._passed[number] = 0

    def _looked(self, who: int) -> None:
        for number in self._passed.keys() - {who}:
            self._passed[number] += self._full.isdisjoint(self._needs[number])
            self.longest = max(self.longest, self._passed[number])

    async def pass_through(self, number: int, line: tuple[str, ...], shared: bool, after: int) -> None:
        """Wait for room, from a pass after the first on."""
        needs = (*((each, False) for each in (line if shared else line[-1:])), (line[-1], True))
        for _ in range(after):
            await trio.lowlevel.checkpoint()
        self._needs[number], self._passed[number] = needs, 0
        waiter = self.queue.join(line, needs, trio.current_time)
        try:
            await self.queue.turn(waiter)
            self._looked(number)
            while blocking := [each for each in needs if each in self._full]:
                self.queue.stay(waiter, blocking[0])
                await self.queue.turn(waiter)
                self._looked(number)
        finally:
            del self._needs[number], self._passed[number]
            self.queue.leave(waiter)

    async def live(self) -> int:
        """Change limits in each of many passes, then make room; return the most looks of others past one with room."""
        with trio.fail_after(1_000):
            async with trio.open_nursery() as nursery:
                for number in range(self.requests):
                    line, shared = self._chance.choice(LINES), self._chance.random() < 0.8
                    nursery.start_soon(self.pass_through, number, line, shared, self._chance.randrange(10))
                for _ in range(20 * self.requests):
                    if self._chance.random() < 0.3:
                        self._full ^= {self._chance.choice(ALL_LIMITS)}
                        self._changed()
                    self.queue.look_again()
                    await trio.lowlevel.checkpoint()
                self._full.clear()
                self.queue.look_again()
        return self.longest


@pytest.mark.long
@settings(max_examples=2_000 if CAMPAIGN else 150)
@given(st.integers(0, 1_000_000), st.integers(1, 12))
def test_nobody_with_room_is_passed_over_while_others_change_in_every_pass(seed: int, requests: int) -> None:
    """A request with room is passed by two looks of each other at most, however often all look again meanwhile."""
    longest = run_in_virtual_time(Restless(Random(seed), requests).live)
    assert longest <= 2 * requests


def test_one_that_is_blocked_by_its_own_limit_lets_the_others_pass() -> None:
    async def live() -> None:
        room = Room(shared=2, own=1)
        async with trio.open_nursery() as nursery:
            for number, session in enumerate(("a", "a", "b")):
                nursery.start_soon(room.pass_through, number, Asked(session, number, 10, None))
        assert room.sent == [0, 2, 1]
        assert room.queue.clocks["a"].seconds == 9.0
        assert "b" not in room.queue.clocks

    run_in_virtual_time(live)


def test_a_request_whose_turn_comes_as_it_is_cancelled_passes_it_on() -> None:
    async def live() -> None:
        room = Room(shared=1, own=2)
        scope = trio.CancelScope()

        async def cancellable() -> None:
            with scope:
                await room.pass_through(1, Asked("b", 0, 1, None))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(room.pass_through, 0, Asked("a", 0, 100, None))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(cancellable)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(room.pass_through, 2, Asked("b", 0, 1, None))
            await trio.testing.wait_all_tasks_blocked()
            room.most[SHARED] = 2
            scope.cancel()
            room.queue.look_again()
            await trio.testing.wait_all_tasks_blocked()
            assert room.sent == [0, 2]

    run_in_virtual_time(live)
