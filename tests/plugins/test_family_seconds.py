"""Families of sessions under one limit of seconds: what begins when, and how far all of them together may go over it.

What runs is noted by the models and tools themselves, by Trio's clock, beside what the sessions count.
"""

from __future__ import annotations

import re
from contextlib import suppress
from random import Random
from typing import NamedTuple

import pytest
import trio
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail import tool as as_tool
from agentrail.codec import values
from agentrail.core.machine.step import COUNTED_EVERY
from agentrail.errors import TransientModelError, TurnAborted, UnknownApproval
from agentrail.journals import Latest, Record
from agentrail.models import (
    AssistantMessage,
    EmitChunk,
    JsonObject,
    ModelRequest,
    Response,
    StopReason,
    Text,
    ToolMessage,
    Usage,
)
from agentrail.plugins import BudgetGuard, EventLogger, HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext, ToolResult, ok
from tests.kit import Element
from tests.profiles import CAMPAIGN
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.journals import TestJournal
from tests.runtime.tools import Fake, fake

PATIENCE = 1.5
"""How long the person thinks, in seconds."""
LONG = 1_000.0


class Span(NamedTuple):
    """What ran, and when, in seconds."""

    begin: float
    end: float
    is_call: bool = False
    is_held: bool = False
    """Whether a person had to approve it: it runs when that person says so."""


class Round(NamedTuple):
    """A response, and the call that it makes."""

    seconds: float
    call_seconds: float = 0.0
    is_held: bool = False
    fails: bool = False
    """Whether its first attempt fails."""


class Member(NamedTuple):
    """What a session does: its responses, and after the first of them its sub-agents, all at once."""

    rounds: tuple[Round, ...]
    below: tuple[Member, ...] = ()
    background: bool = False


class Watch:
    """Notes what runs."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.failed: set[tuple[str, int]] = set()

    async def runs(self, seconds: float, *, is_call: bool = False, is_held: bool = False) -> None:
        """Run for so long."""
        begin = trio.current_time()
        try:
            await trio.sleep(seconds)
        finally:
            self.spans.append(Span(begin, trio.current_time(), is_call, is_held))

    def worked(self, until: float) -> float:
        """Return the seconds until *until* in which anything ran."""
        total, reached = 0.0, 0.0
        for span in sorted(self.spans):
            begin, end = max(span.begin, reached), min(span.end, until)
            total += max(0.0, end - begin)
            reached = max(reached, end)
        return total


class Playing:
    """The model of one session, which goes on where the conversation is."""

    def __init__(self, name: str, member: Member, watch: Watch) -> None:
        self.name = name
        self._member = member
        self._watch = watch

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        said = sum(isinstance(message, AssistantMessage) for message in request.messages)
        rounds, text = self._member.rounds, (Text("I go on."),)
        last = said >= len(rounds)
        now = Round(0.5) if last else rounds[said]
        await self._watch.runs(now.seconds)
        if now.fails and (self.name, said) not in self._watch.failed:
            self._watch.failed.add((self.name, said))
            message = "the line broke"
            raise TransientModelError(message)
        if last or not request.tools:
            return Response(text, (), StopReason.END, Usage(1, 1))
        calls = [call("careful" if now.is_held else "slow", {"seconds": now.call_seconds})]
        if said == 0 and self._member.below:
            given = {"description": "look", "prompt": "go"}
            calls = [
                call("task", {"agent": f"a{number}", "background": one.background, **given})
                for number, one in enumerate(self._member.below)
            ]
        return Response(text, tuple(calls), StopReason.TOOL_CALLS, Usage(1, 1))


def tool(watch: Watch, name: str) -> Fake:
    async def body(args: JsonObject, _ctx: ToolContext) -> ToolResult:
        seconds = args["seconds"]
        assert isinstance(seconds, float | int)
        await watch.runs(seconds, is_call=True, is_held=name == "careful")
        return ok("done")

    return fake(name, body, timeout=LONG)


def spec_of(member: Member, watch: Watch, name: str = "m", *plugins: BudgetGuard) -> SessionSpec:
    return SessionSpec(
        model=Playing(name, member, watch),
        tools=[tool(watch, "slow"), tool(watch, "careful")],
        agents={f"a{number}": spec_of(one, watch, f"{name}-{number}") for number, one in enumerate(member.below)},
        plugins=[*plugins, HumanApproval(tools=("careful",), timeout=None)],
        max_agent_seconds=LONG,
        on_repeat_unknown="allow",
        description="Helps.",
    )


async def over(session: SessionHandle) -> None:
    """Approve what waits for the person, until nothing of the family is under way."""
    with trio.fail_after(100_000.0):
        while (state := session.inspect()).turn is not None or state.subagents:
            held = session.status().held
            await trio.sleep(PATIENCE if held else 0.05)
            for one in held:
                with suppress(UnknownApproval):  # its session has ended meanwhile
                    await session.approve(one.id)


async def lived(member: Member, watch: Watch, guard: BudgetGuard, restart_at: float | None = None) -> int:
    """Let the family live; return the milliseconds of work that its first session has counted."""
    journal = TestJournal()
    async with open_supervisor(journal=journal) as supervisor:
        spec = spec_of(member, watch, "m", guard)
        session = await supervisor.spawn(spec, "p")
        await session.prompt("go")
        with trio.move_on_after(LONG * 100 if restart_at is None else restart_at):
            await over(session)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("p", spec)
        await over(session)
        return session.inspect().worked(0)


def member_of(chance: Random, depth: int, fewest: int = 0) -> Member:
    rounds = [
        Round(
            chance.choice((0.0, 0.5, 1.0, 4.0)),
            chance.choice((0.0, 1.0, 3.0)),
            chance.random() < 0.25,
            chance.random() < 0.1,
        )
        for _ in range(chance.randint(1, 3))
    ]
    below = [member_of(chance, depth - 1) for _ in range(chance.randint(fewest, fewest + 2))] if depth else []
    return Member(tuple(rounds), tuple(below), chance.random() < 0.5)


def too_late(watch: Watch, limit: float) -> list[Span]:
    """Return what has begun although the limit was used up; what a person has approved runs."""
    return [span for span in watch.spans if not span.is_held and watch.worked(span.begin) > limit + 0.01]


@pytest.mark.campaign
@pytest.mark.long
@settings(max_examples=400 if CAMPAIGN else 40)
@given(st.integers(0, 1_000_000))
def test_nothing_begins_when_the_seconds_of_the_family_are_used_up(seed: int) -> None:
    """So it goes over the limit by what ran when it was reached: one response, or calls at the same time."""
    chance, watch = Random(seed), Watch()
    member, limit = member_of(chance, 2, fewest=1), chance.choice((2.0, 5.0, 9.0, 15.0))
    counted = run_in_virtual_time(lambda: lived(member, watch, BudgetGuard(max_seconds=limit)))
    event(f"used up: {watch.worked(1e9) >= limit}, held: {any(span.is_held for span in watch.spans)}")
    assert too_late(watch, limit) == []
    assert counted / 1000 >= watch.worked(1e9) - 0.01


@pytest.mark.long
@settings(max_examples=400 if CAMPAIGN else 40)
@given(st.integers(0, 1_000_000))
@example(73)
def test_nothing_begins_when_the_seconds_of_the_turn_are_used_up(seed: int) -> None:
    """The sub-agents are those of one turn: what ends in the background begins another one.

    In the example, one below another has waited for a person, and goes on before anybody has told it of the others.
    """
    chance, watch = Random(seed), Watch()
    member, limit = in_the_turn(member_of(chance, 2, fewest=1)), chance.choice((2.0, 5.0, 9.0, 15.0))
    run_in_virtual_time(lambda: lived(member, watch, BudgetGuard(max_turn_seconds=limit)))
    event(f"used up: {watch.worked(1e9) >= limit}, held: {any(span.is_held for span in watch.spans)}")
    assert too_late(watch, limit) == []


def in_the_turn(member: Member) -> Member:
    """Return *member* with no sub-agent in the background."""
    return Member(member.rounds, tuple(map(in_the_turn, member.below)))


@pytest.mark.long
@settings(max_examples=200 if CAMPAIGN else 20)
@given(st.integers(0, 1_000_000))
def test_what_a_family_counts_is_the_time_in_which_anything_of_it_ran(seed: int) -> None:
    chance, watch = Random(seed), Watch()
    member = member_of(chance, 2, fewest=1)
    counted = run_in_virtual_time(lambda: lived(without_failures(member), watch, BudgetGuard(max_seconds=LONG)))
    assert counted == pytest.approx(watch.worked(1e9) * 1000, abs=5)


def without_failures(member: Member) -> Member:
    """Return *member* without attempts that fail: the pauses after those count too, and nothing runs in them."""
    rounds = tuple(one._replace(fails=False) for one in member.rounds)
    return Member(rounds, tuple(map(without_failures, member.below)), member.background)


@pytest.mark.campaign
@pytest.mark.long
@settings(max_examples=400 if CAMPAIGN else 40)
@given(st.integers(0, 1_000_000), st.booleans())
def test_over_a_restart_no_more_is_lost_than_what_the_end_of_the_process_has_cut(seed: int, of_turn: bool) -> None:
    """The clock of the second process is even set back here, by the time that the first one took."""
    chance, watch = Random(seed), Watch()
    member, limit = member_of(chance, 2, fewest=1), chance.choice((5.0, 9.0, 15.0))
    guard, restart_at = BudgetGuard(max_seconds=limit), chance.uniform(0.1, 8.0)
    if of_turn:
        member, guard = in_the_turn(member), BudgetGuard(max_turn_seconds=limit)
    run_in_virtual_time(lambda: lived(member, watch, guard, restart_at))
    cut = [span.end - span.begin for span in watch.spans if span.end == restart_at]
    assert too_late(watch, limit + max(cut, default=0.0) + COUNTED_EVERY / 1000) == []


BACKGROUND = Member((Round(7.5),), background=True)


def test_sub_agents_in_the_background_one_after_the_other_share_the_seconds() -> None:
    """Each of them would have 10 seconds if only the requests and calls of the parent counted."""

    async def five(watch: Watch) -> None:
        spec = spec_of(Member((Round(0.1),), (BACKGROUND,)), watch, "m", BudgetGuard(max_seconds=10))
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(spec)
            for _ in range(5):
                with suppress(TurnAborted):
                    await session.ask("go")
                await session.wait_tasks()
                await over(session)

    watch = Watch()
    run_in_virtual_time(lambda: five(watch))
    assert watch.worked(1e9) < 10 + 7.5
    assert too_late(watch, 10) == []


@pytest.mark.parametrize("guard", [BudgetGuard(max_seconds=10), BudgetGuard(max_turn_seconds=10)])
def test_a_sub_agent_that_waited_for_a_person_does_not_go_on_when_the_others_have_used_up_the_seconds(
    guard: BudgetGuard,
) -> None:
    async def two(watch: Watch) -> None:
        waits = Member((Round(0.1, 0.1, is_held=True), Round(5.0)), background=True)
        spec = spec_of(Member((Round(0.1),), (waits, Member((Round(20.0),)))), watch, "m", guard)
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(spec, "p")
            with pytest.raises(TurnAborted, match=r"max_\w*seconds=10 is used up"):
                await session.ask("go")
            (held,) = session.status().held
            await session.approve(held.id)
            await over(session)

    watch = Watch()
    run_in_virtual_time(lambda: two(watch))
    assert sorted(round(span.end - span.begin, 3) for span in watch.spans) == [0.1, 0.1, 0.1, 20.0]


@pytest.mark.parametrize("background", [False, True])
def test_a_sub_agent_that_waited_for_a_person_over_a_restart_does_not_go_on_either(background: bool) -> None:
    """What others worked meanwhile it was not told of, and the process that knew it is gone."""

    async def two(watch: Watch) -> None:
        waits = Member((Round(0.1, 0.1, is_held=True), Round(5.0)), background=background)
        works = Member((Round(20.0),))
        spec = spec_of(Member((Round(0.1),), (waits, works)), watch, "m", BudgetGuard(max_turn_seconds=10))
        journal = TestJournal()
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.spawn(spec, "p")
            await session.prompt("go")
            await trio.sleep(30.0)
        async with open_supervisor(journal=journal) as supervisor:
            await over(await supervisor.resume("p", spec))

    watch = Watch()
    run_in_virtual_time(lambda: two(watch))
    assert sorted(round(span.end - span.begin, 3) for span in watch.spans) == [0.1, 0.1, 0.1, 20.0]


class OlderJournal(TestJournal):
    """Has what a version wrote that did not note when a sub-agent began."""

    taken = 0

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        found = await super().latest(session_id, upto, limit)
        assert found.snapshot is None
        return Latest(None, tuple(map(self.without, found.records)))

    def without(self, record: Record) -> Record:
        text, count = re.subn(rb',"began_ms":\d+', b"", values.write(record))
        self.taken += count
        return values.read(Record, text)


@pytest.mark.parametrize("guard", [BudgetGuard(max_seconds=10), BudgetGuard(max_turn_seconds=10)])
def test_a_sub_agent_that_an_older_version_began_comes_back_too(guard: BudgetGuard) -> None:
    async def two(watch: Watch) -> None:
        waits = Member((Round(0.1, 0.1, is_held=True), Round(5.0)), background=True)
        spec = spec_of(Member((Round(0.1),), (waits,)), watch, "m", guard)
        journal = OlderJournal()
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.spawn(spec, "p")
            await session.ask("go")
        async with open_supervisor(journal=journal) as supervisor:
            await over(await supervisor.resume("p", spec))
        assert journal.taken > 0

    watch = Watch()
    run_in_virtual_time(lambda: two(watch))
    assert [span.end - span.begin for span in sorted(watch.spans)][-1] == pytest.approx(0.5)
    assert too_late(watch, 10) == []


@as_tool(parallel=False)
async def solo(seconds: float) -> str:
    """Work alone."""
    await trio.sleep(seconds)
    return "done"


@pytest.mark.parametrize("guard", [BudgetGuard(max_seconds=5), BudgetGuard(max_turn_seconds=5)])
def test_calls_that_wait_for_their_place_do_not_begin_when_the_seconds_are_used_up(guard: BudgetGuard) -> None:
    limit = "max_turn_seconds" if guard.max_seconds is None else "max_seconds"
    calls = [call("solo", {"seconds": 4.0 + number / 10}) for number in range(6)]

    async def play() -> None:
        spec = SessionSpec(
            model=ScriptedModel([say(calls=calls), "never"]),
            tools=[solo],
            plugins=[guard, EventLogger()],
        )
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(spec)
            with pytest.raises(TurnAborted, match=f"{limit}=5 is used up: 8.1 s have been worked"):
                await session.ask("go")
            results = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
            refused = f"it did not run: BudgetGuard: {limit}=5 is used up"
            assert results == ["done", "done", *[refused] * 4]

    run_in_virtual_time(play)


def test_a_limit_that_is_lowered_holds_for_the_calls_of_sub_agents_that_run() -> None:
    async def lower(watch: Watch) -> None:
        child = Member((Round(5.0, 40.0),), background=True)
        spec = spec_of(Member((Round(0.1),), (child,)), watch, "m", BudgetGuard(max_seconds=100))
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(spec)
            await session.ask("go")
            await session.update_plugin(BudgetGuard, max_seconds=3)
            await over(session)

    watch = Watch()
    run_in_virtual_time(lambda: lower(watch))
    assert [span for span in watch.spans if span.is_call] == []


@pytest.mark.parametrize(
    ("lowered", "limit"),
    [
        (BudgetGuard(max_turn_seconds=3), "max_turn_seconds=3"),
        (BudgetGuard(max_turn_tokens=50), "max_turn_tokens=50"),
    ],
)
def test_a_sub_agent_in_the_background_is_under_its_own_limits_and_not_those_of_the_turn_of_its_parent(
    lowered: BudgetGuard, limit: str
) -> None:
    watch = Watch()
    calls = [
        call("task", {"agent": "a", "description": "look", "prompt": "go", "background": True}),
        call("slow", {"seconds": 30.0}),
    ]
    script: list[Element] = [say(calls=calls[:1]), "begun", say(calls=calls[1:], usage=Usage(100, 0)), "never"]
    spec = SessionSpec(
        model=ScriptedModel(script),
        tools=[tool(Watch(), "slow")],
        agents={"a": spec_of(Member((Round(2.0, 8.0),)), watch, "a")},
        plugins=[BudgetGuard(max_turn_seconds=1_000, max_turn_tokens=1_000)],
    )

    async def play() -> None:
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(spec)
            assert (await session.ask("go")).text == "begun"
            seconds, tokens = lowered.max_turn_seconds, lowered.max_turn_tokens
            await session.update_plugin(BudgetGuard, max_turn_seconds=seconds, max_turn_tokens=tokens)
            with pytest.raises(TurnAborted, match=f"{limit} is used up"):
                await session.ask("more")

    run_in_virtual_time(play)
    assert [span.end - span.begin for span in watch.spans] == pytest.approx([2.0, 8.0, 0.5])
