"""Families of sessions under one limit: all of them together pass it by one response, and nobody waits for ever."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import NamedTuple

import pytest
import trio
from attrs import frozen
from hypothesis import event, given, settings
from hypothesis import strategies as st

from agentrail import Ask, Context, Continue, Plugin, SessionHandle, SessionSpec, open_supervisor
from agentrail.errors import AgentrailError, TransientModelError
from agentrail.models import (
    AssistantMessage,
    EmitChunk,
    ModelRequest,
    Price,
    Response,
    StopReason,
    Text,
    TextChunk,
    Usage,
)
from agentrail.plugins import AfterTool, AnyPlugin, BudgetGuard, CallModel
from agentrail.testing import call
from agentrail.values.stream import read_tokens
from tests.kit import Failpoint, watching
from tests.profiles import CAMPAIGN
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.journals import TestJournal
from tests.runtime.poison import OurBug
from tests.runtime.tools import slow

pytestmark = pytest.mark.long

MOST_WRITTEN = 5_000
"""What the option `max_tokens` of each model says."""


class Round(NamedTuple):
    """One response of a session."""

    written: int
    """The tokens of the response."""
    seconds: float
    """How long it takes."""
    fails: bool
    """Whether the first attempt fails."""


class Node(NamedTuple):
    """What a session does: its responses, and after the first of them its sub-agents, all at once."""

    rounds: tuple[Round, ...]
    below: tuple[Node, ...] = ()
    background: bool = False
    price: float = 1.0


class Story(NamedTuple):
    """What happens to a family, and when, in seconds."""

    root: Node
    limit: int
    in_dollars: bool
    judges: bool
    abort_at: float | None = None
    steer_at: float | None = None
    stop_child_at: float | None = None
    crash_at: float | None = None
    restart_at: float | None = None


def node_of(chance: Random, depth: int, fewest: int = 0) -> Node:
    rounds = [
        Round(chance.randint(1, MOST_WRITTEN), chance.choice((0.01, 0.5, 1.0, 3.0)), chance.random() < 0.1)
        for _ in range(chance.randint(1, 3))
    ]
    below = [node_of(chance, depth - 1) for _ in range(chance.randint(fewest, fewest + 2))] if depth else []
    return Node(tuple(rounds), tuple(below), not fewest and chance.random() < 0.3, chance.choice((1.0, 3.0, 10.0)))


def story_of(chance: Random) -> Story:
    root = node_of(chance, 2, fewest=2)
    times = [chance.uniform(0.0, 8.0) if chance.random() < 0.15 else None for _ in range(5)]
    return Story(root, chance.randint(1, 60_000), chance.random() < 0.5, chance.random() < 0.3, *times)


class Watch:
    """What the models of a family have been asked for."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.read = 0  # tokens of the longest request, as they are estimated of one that is cut
        self.failed: set[tuple[str, int]] = set()


class Playing:
    """The model of one session, which goes on where the conversation is, in any process."""

    def __init__(self, name: str, node: Node, watch: Watch) -> None:
        self.name = name
        self._node = node
        self._watch = watch

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        watch = self._watch
        watch.running += 1
        watch.most = max(watch.most, watch.running)
        watch.read = max(watch.read, read_tokens(request))
        try:
            return await self._answer(request, emit)
        finally:
            watch.running -= 1

    async def _answer(self, request: ModelRequest, emit: EmitChunk) -> Response:
        said = sum(isinstance(message, AssistantMessage) for message in request.messages)
        node = self._node
        last = said >= len(node.rounds)
        now = Round(1, 0.01, fails=False) if last else node.rounds[said]
        emit(TextChunk("I "))
        await trio.sleep(now.seconds)
        if now.fails and (self.name, said) not in self._watch.failed:
            self._watch.failed.add((self.name, said))
            message = "the line broke"
            raise TransientModelError(message)
        emit(TextChunk("go on."))
        usage = Usage(1, now.written)
        if last or not request.may_call or not request.tools:
            return Response((Text("I go on."),), (), StopReason.END, usage)
        calls = [call("slow")]
        if said == 0 and node.below:
            given = {"description": "look", "prompt": "go"}
            calls = [
                call("task", {"agent": f"a{number}", "background": one.background, **given})
                for number, one in enumerate(node.below)
            ]
        return Response((Text("I go on."),), tuple(calls), StopReason.TOOL_CALLS, usage)


@frozen
class HookRunner(Plugin):
    """Has a model look at each result."""

    def inherited(self, state: None, ctx: Context) -> AnyPlugin:
        return self

    def after_tool(self, hook: AfterTool, state: None, ctx: Context) -> Continue[None] | Ask[None]:
        return Continue() if hook.answer is not None else Ask(CallModel("Is that right?"))


def spec_of(
    node: Node, name: str, watch: Watch, prices: dict[str, Price], plugins: Sequence[AnyPlugin] = ()
) -> SessionSpec:
    prices[name] = Price(node.price, node.price)
    agents = {f"a{number}": spec_of(one, f"{name}-{number}", watch, prices) for number, one in enumerate(node.below)}
    return SessionSpec(
        model=Playing(name, node, watch),
        model_options={"max_tokens": MOST_WRITTEN},
        tools=[slow(seconds=1.0)],
        agents=agents,
        on_repeat_unknown="allow",
        prices=prices,
        plugins=plugins,
        description="Helps.",
    )


def dearest(node: Node) -> float:
    return max(node.price, *(dearest(one) for one in node.below), 0.0)


def largest(node: Node) -> int:
    return max([*(one.written + 1 for one in node.rounds), *(largest(one) for one in node.below), 2])


async def over(session: SessionHandle) -> None:
    """Wait until nothing of the family is under way."""
    with trio.fail_after(10_000.0):
        while (state := session.inspect()).turn is not None or state.subagents:  # noqa: ASYNC110 - nobody sets an event for it
            await trio.sleep(1.0)


async def crash() -> None:
    """Crash the actor that writes the next record, and wait to be cancelled."""
    has_crashed = False

    def watcher(point: Failpoint) -> None:
        nonlocal has_crashed
        if point is Failpoint.APPEND and not has_crashed:
            has_crashed = True
            message = "poison"
            raise OurBug(message)

    with watching(watcher):
        await trio.sleep_forever()


async def happens(session: SessionHandle, story: Story) -> None:
    async def at(seconds: float | None, what: str) -> None:
        if seconds is None:
            return
        await trio.sleep(seconds)
        with suppress(AgentrailError):
            if what == "abort":
                await session.abort()
            elif what == "steer":
                await session.steer("hurry", when="now")
            elif what == "crash":
                await crash()
            else:
                await session.cancel_task(session.tasks()[0].child if session.tasks() else "none")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(at, story.abort_at, "abort")
        nursery.start_soon(at, story.steer_at, "steer")
        nursery.start_soon(at, story.crash_at, "crash")
        nursery.start_soon(at, story.stop_child_at, "stop")
        await over(session)
        nursery.cancel_scope.cancel()


async def lived(story: Story, watch: Watch) -> Usage:
    """Let the family live; return what all of it has used."""
    limit = story.limit
    guard = BudgetGuard(max_usd=limit * 1e-6) if story.in_dollars else BudgetGuard(max_tokens=limit)
    journal = TestJournal()
    prices: dict[str, Price] = {}
    spec = spec_of(story.root, "m", watch, prices, [guard, *([HookRunner()] if story.judges else [])])
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "p")
        await session.prompt("go")
        with trio.move_on_after(1_000_000.0 if story.restart_at is None else story.restart_at):
            await happens(session, story)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("p", spec)
        await over(session)
        return session.status().usage


@settings(max_examples=400 if CAMPAIGN else 25)
@given(st.integers(0, 1_000_000))
def test_a_family_passes_its_limit_by_one_response_at_most(seed: int) -> None:
    story, watch = story_of(Random(seed)), Watch()
    used = run_in_virtual_time(lambda: lived(story, watch))
    event(f"{min(watch.most, 3)} at once")
    response = max(largest(story.root), watch.read + MOST_WRITTEN if has_cuts(story) else 0)
    if story.in_dollars:
        assert (used.cost_usd or 0.0) <= (story.limit + response * dearest(story.root)) * 1e-6 + 1e-9
    else:
        assert used.total_tokens <= story.limit + response


def has_cuts(story: Story) -> bool:
    """Whether a response may be cut, so that its tokens are estimated."""
    times = (story.abort_at, story.steer_at, story.stop_child_at, story.crash_at, story.restart_at)
    return any(time is not None for time in times) or fails(story.root)


def fails(node: Node) -> bool:
    return any(one.fails for one in node.rounds) or any(fails(one) for one in node.below)
