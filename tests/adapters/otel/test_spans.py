"""Spans of sessions, read back through the in-memory exporter of OpenTelemetry."""

from __future__ import annotations

import pytest
import trio
from opentelemetry.trace import SpanKind, StatusCode

from agentrail import SessionHandle, SessionSpec, open_supervisor, tool
from agentrail.adapters.otel.follower import PAGE
from agentrail.errors import Fenced, JournalUnavailable, TurnAborted
from agentrail.journals import MemoryJournal, Record
from agentrail.models import Usage
from agentrail.plugins import HumanApproval
from agentrail.telemetry import OpenTelemetry
from agentrail.testing import ScriptedModel, call, permanent, say, stall, transient
from agentrail.tools.builtin.conversation import ask_user
from tests.adapters.otel.watched import (
    Spans,
    attributes,
    id_of,
    links_of,
    milliseconds,
    parent_of,
    trace_of,
    watched,
)
from tests.kit import Element
from tests.runtime.families import agent, task
from tests.runtime.journals import TestJournal
from tests.runtime.world import until


@tool
async def remove(path: str) -> str:
    """Remove a file."""
    if path == "away":
        raise FileNotFoundError(path)
    return path


def asking(*script: Element) -> SessionSpec:
    plugins = [HumanApproval(tools=("remove",))]
    return SessionSpec(model=ScriptedModel(script), name="clerk", tools=[remove], plugins=plugins)


def removing(*paths: str) -> Element:
    return say("I remove it", calls=[call("remove", {"path": path}) for path in paths])


async def held(session: SessionHandle) -> str:
    """Wait for a held call, and return its id."""
    await until(lambda: session.status().held)
    return session.status().held[0].id


async def idle(session: SessionHandle) -> None:
    await until(lambda: session.status().phase == "idle")


async def test_a_turn_has_its_requests_and_calls_as_children() -> None:
    spans = Spans()
    used = Usage(input_tokens=10, output_tokens=5, cached_tokens=4, cost_usd=0.5)
    async with watched(spans) as supervisor:
        model = ScriptedModel([say(calls=[call("remove", {"path": "a"})], usage=used), say("done", usage=used)])
        session = await supervisor.spawn(SessionSpec(model=model, name="clerk", tools=[remove]), "s", tenant="acme")
        await session.ask("remove a")
    turn = spans.only("invoke_agent clerk")
    assert parent_of(turn) is None
    assert turn.kind is SpanKind.INTERNAL
    assert attributes(turn) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "scripted",
        "gen_ai.conversation.id": "s",
        "gen_ai.agent.name": "clerk",
        "gen_ai.request.model": "scripted",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.cache_read.input_tokens": 8,
        "agentrail.tenant": "acme",
        "agentrail.usage.cost_usd": 1.0,
        "agentrail.turn.number": 1,
        "agentrail.turn.end": "end",
    }
    first, second = spans.named("chat scripted")
    assert [first.kind, second.kind] == [SpanKind.CLIENT] * 2
    assert [attributes(span)["gen_ai.response.finish_reasons"] for span in (first, second)] == [
        ("tool_call",),
        ("stop",),
    ]
    tool_span = spans.only("execute_tool remove")
    assert {parent_of(span) for span in (first, second, tool_span)} == {id_of(turn)}
    assert {trace_of(span) for span in spans} == {trace_of(turn)}
    starts = [milliseconds(span)[0] for span in (turn, first, tool_span, second)]
    assert starts == sorted(starts)
    assert all(milliseconds(turn)[0] <= milliseconds(span)[0] for span in spans)
    assert all(milliseconds(span)[1] <= milliseconds(turn)[1] for span in spans)


async def test_times_are_those_of_the_events() -> None:
    spans, journal = Spans(), MemoryJournal()
    async with watched(spans, journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one", "two"])), "s")
        await session.ask("a")
        await session.ask("b")
        records = await journal.read("s", 0, 100)
    times = {type(each.event).__name__: each.at for record in records for each in record.events if each.turn == 2}
    _, turn = spans.named("invoke_agent")
    _, request = spans.named("chat")
    assert milliseconds(turn) == (times["AgentStart"], times["AgentEnd"])
    assert milliseconds(request) == (times["RequestStart"], times["ResponseComplete"])
    assert trace_of(turn) != trace_of(spans.named("invoke_agent")[0])


async def test_a_call_that_was_held_says_so() -> None:
    spans = Spans()
    async with watched(spans) as supervisor:
        session = await supervisor.spawn(asking(removing("a"), removing("b"), "done"), "s")
        await session.prompt("go")
        await session.approve(await held(session))
        await session.reject(await held(session), "not that one")
        await idle(session)
    first, second = spans.named("execute_tool")
    assert attributes(first)["agentrail.call.held"] is True
    assert attributes(first)["agentrail.call.approval"] == "approved"
    assert attributes(first)["agentrail.call.attempts"] == 1
    assert [event.name for event in first.events] == ["agentrail.approved"]
    waited = attributes(first)["agentrail.call.held_ms"]
    assert isinstance(waited, int)
    assert 0 <= waited <= milliseconds(first)[1] - milliseconds(first)[0]
    assert attributes(second)["agentrail.call.attempts"] == 0
    assert attributes(second)["error.type"] == "rejected"
    assert second.status.status_code is StatusCode.ERROR


async def test_a_call_that_asked_a_person_says_so_and_ends_if_nobody_answers() -> None:
    spans = Spans()
    async with watched(spans) as supervisor:
        asks = say(calls=[call("ask_user", {"question": "which one?"})])
        model = ScriptedModel([asks, asks, "done"])
        session = await supervisor.spawn(SessionSpec(model=model, tools=[ask_user]), "s")
        await session.prompt("go")
        await session.respond(await held(session), "the first")
        await held(session)
        await session.abort()
        await idle(session)
    answered, dropped = spans.named("execute_tool")
    assert attributes(answered)["agentrail.call.held"] is True
    assert "error.type" not in attributes(answered)
    assert attributes(dropped)["error.type"] == "aborted"


async def test_a_call_of_a_sub_agent_that_waits_for_a_person_is_a_span_of_the_sub_agent_alone() -> None:
    """Its parent says so too, by the same event, and may have a held call of the same id."""
    spans = Spans()
    finder = agent([removing("x"), "found"], tools=[remove], plugins=[HumanApproval(tools=("remove",))])
    spec = SessionSpec(model=ScriptedModel([task(), "all done"]), name="lead", agents={"finder": finder})
    async with watched(spans) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.prompt("look")
        await session.approve(await held(session))
        await idle(session)
    executed = spans.only("execute_tool remove")
    assert parent_of(executed) == id_of(spans.only("invoke_agent finder"))
    assert attributes(executed)["agentrail.call.approval"] == "approved"
    assert "agentrail.call.held" not in attributes(spans.only("execute_tool task"))


async def test_the_turn_of_a_sub_agent_is_a_child_of_its_call_and_linked_to_its_turn() -> None:
    spans = Spans()
    spec = SessionSpec(model=ScriptedModel([task(), "all done"]), name="lead", agents={"finder": agent(["found"])})
    async with watched(spans) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask("look")
    parent, child = spans.only("invoke_agent lead"), spans.only("invoke_agent finder")
    its_call = spans.only("execute_tool task")
    assert parent_of(child) == id_of(its_call)
    assert parent_of(its_call) == id_of(parent)
    assert links_of(child) == [id_of(parent)]
    assert {trace_of(span) for span in spans} == {trace_of(parent)}
    assert attributes(child)["gen_ai.conversation.id"] == attributes(its_call)["agentrail.call.subagent"]


async def test_a_sub_agent_in_the_background_is_still_in_the_trace_of_its_call() -> None:
    spans = Spans()
    release = trio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await release.wait()
        return "waited"

    slow = agent([say(calls=[call("wait")]), "found"], tools=[wait])
    spec = SessionSpec(
        model=ScriptedModel([task(background=True), "meanwhile", "noted"]), name="lead", agents={"finder": slow}
    )
    async with watched(spans) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.ask("look")
        release.set()
        await until(lambda: spans.named("invoke_agent finder"))
        await idle(session)
    first = spans.named("invoke_agent lead")[0]
    child = spans.only("invoke_agent finder")
    assert parent_of(child) == id_of(spans.only("execute_tool task"))
    assert links_of(child) == [id_of(first)]
    assert milliseconds(child)[1] >= milliseconds(first)[1]


async def test_a_turn_that_goes_on_in_another_process_is_linked_to_its_part_before() -> None:
    """A held call, and a request that was cut: what a process leaves open, the next one ends, once."""
    spans, journal = Spans(), MemoryJournal()
    other = Spans()
    async with watched(spans, journal) as supervisor:
        session = await supervisor.spawn(asking(removing("a"), "never"), "s")
        await session.prompt("go")
        await held(session)
    assert spans.names == ["chat scripted"]
    async with watched(other, journal) as supervisor:
        session = await supervisor.resume("s", asking("done"))
        await session.approve(await held(session))
        await idle(session)
    first, second = other.named("invoke_agent")
    assert attributes(first)["agentrail.interrupted"] is True
    assert "agentrail.turn.end" not in attributes(first)
    assert "agentrail.interrupted" not in attributes(second)
    assert attributes(second)["agentrail.turn.end"] == "end"
    assert links_of(second) == [id_of(first)]
    assert trace_of(first) == trace_of(second)
    before, after = other.named("execute_tool")
    assert (parent_of(before), parent_of(after)) == (id_of(first), id_of(second))
    assert links_of(after) == [id_of(before)]
    assert (attributes(before)["agentrail.interrupted"], attributes(before)["agentrail.call.attempts"]) == (True, 0)
    assert attributes(after)["agentrail.call.approval"] == "approved"
    assert parent_of(spans.only("chat")) == id_of(first)
    assert milliseconds(first)[1] <= milliseconds(second)[0]


async def test_records_that_are_read_again_are_not_exported_again() -> None:
    journal, parts = MemoryJournal(), [Spans() for _ in range(4)]
    for number, spans in enumerate(parts):
        async with watched(spans, journal) as supervisor:
            if number == 0:
                session = await supervisor.spawn(asking(removing("a", "b"), "never"), "s")
                await session.prompt("go")
            else:
                session = await supervisor.resume("s", asking("done"))
            await held(session)
            if number == len(parts) - 1:
                await session.approve(await held(session))
                await settled(session)
    every = [span for spans in parts for span in spans]
    assert len({id_of(span) for span in every}) == len(every)
    turns = [span for span in every if span.name.startswith("invoke_agent")]
    assert [links_of(span) for span in turns] == [[], *([id_of(span)] for span in turns[:-1])]
    assert len(turns) == len(parts)
    assert len([span for span in every if span.name == "chat scripted"]) == 2


async def test_what_another_supervisor_has_exported_meanwhile_is_not_exported_again() -> None:
    """A session that comes back here after others had it: what was open here, they have ended."""
    journal, here, there = MemoryJournal(), Spans(), Spans()
    async with watched(here, journal) as first:
        stale = await first.spawn(asking(removing("a"), "never"), "s")
        await stale.prompt("go")
        await held(stale)
        async with watched(there, journal) as second:
            session = await second.resume("s", asking("done", "again"), take_over=True)
            await session.approve(await held(session))
            await idle(session)
            await session.ask("more")
        with pytest.raises(Fenced):
            await stale.ask("are you there?")
        session = await first.resume("s", asking("back"))
        await session.ask("and here?")
    every = [id_of(span) for span in (*here, *there)]
    assert len(every) == len(set(every))
    assert len(here.named("invoke_agent")) == 1
    assert len(there.named("invoke_agent")) == 3


class UnreadableJournal(TestJournal):
    """A journal whose records cannot be read again page by page, by whoever follows them."""

    __test__ = False

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        if limit != 1:
            raise RuntimeError("the disk is on fire")
        return await super().read(session_id, after, limit)


async def test_a_journal_that_cannot_be_read_loses_the_spans_of_a_turn_and_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal, spans = MemoryJournal(), Spans()
    async with watched(Spans(), journal) as supervisor:
        session = await supervisor.spawn(asking(removing("a"), "never"), "s")
        await session.prompt("go")
        await held(session)
    async with watched(spans, UnreadableJournal(inner=lambda: journal)) as supervisor:
        session = await supervisor.resume("s", asking("done", "again"))
        await session.approve(await held(session))
        await idle(session)
        assert (await session.ask("more")).text == "again"
    assert "session s: the spans of its open turn are lost: RuntimeError" in caplog.text
    assert [attributes(span)["agentrail.turn.number"] for span in spans.named("invoke_agent")] == [2]


async def settled(session: SessionHandle) -> None:
    """Approve the call that is left, and wait for the end of the turn."""
    await until(lambda: len(session.status().held) == 1)
    await session.approve(await held(session))
    await idle(session)


@pytest.mark.long
async def test_where_a_long_turn_began_is_found_many_pages_back() -> None:
    journal, first, second = MemoryJournal(), Spans(), Spans()
    rounds = [say(calls=[call("remove", {"path": str(n)})]) for n in range(PAGE)]
    spec = SessionSpec(
        model=ScriptedModel([*rounds, stall()]), name="clerk", tools=[remove], max_rounds=1000, repeat_pattern=10_000
    )
    async with watched(first, journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await session.prompt("go")
        await until(lambda: len(first.named("execute_tool")) == PAGE)
    async with watched(second, journal) as supervisor:
        session = await supervisor.resume("s", SessionSpec(model=ScriptedModel(["done"]), name="clerk", tools=[remove]))
        await idle(session)
    turn, rest = second.named("invoke_agent")
    assert links_of(rest) == [id_of(turn)]
    assert {parent_of(span) for span in first} == {id_of(turn)}
    assert len(second.named("execute_tool")) == 0
    assert attributes(second.named("chat")[0])["agentrail.interrupted"] is True


async def test_failed_requests_say_how_and_their_retries_are_spans_of_their_own() -> None:
    spans = Spans()
    async with watched(spans) as supervisor:
        spec = SessionSpec(model=ScriptedModel([transient(), permanent("the secret word")]), retry_base=0.0)
        session = await supervisor.spawn(spec, "s")
        with pytest.raises(TurnAborted):
            await session.ask("go")
    first, second = spans.named("chat")
    assert [attributes(span)["error.type"] for span in (first, second)] == ["transient", "permanent"]
    assert [attributes(span)["agentrail.request.attempt"] for span in (first, second)] == [1, 2]
    turn = spans.only("invoke_agent")
    assert (attributes(turn)["error.type"], attributes(turn)["agentrail.turn.end"]) == ("provider_error", "aborted")
    assert turn.status.status_code is StatusCode.ERROR
    assert "secret" not in "".join(span.to_json() for span in spans)


async def test_what_is_stopped_by_an_abort_ends_with_it() -> None:
    spans = Spans()
    async with watched(spans) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([stall(text="well, ")])), "s")
        await session.prompt("go")
        await until(lambda: session.status().phase != "idle")
        await session.abort()
        await idle(session)
    assert attributes(spans.only("chat"))["agentrail.request.cut"] is True
    turn = spans.only("invoke_agent")
    assert attributes(turn)["agentrail.abort.kind"] == "user"
    assert "error.type" not in attributes(turn)
    assert turn.status.status_code is StatusCode.UNSET


async def test_a_tool_that_fails_says_so_without_its_words() -> None:
    spans = Spans()
    async with watched(spans) as supervisor:
        model = ScriptedModel([removing("away"), "done"])
        session = await supervisor.spawn(SessionSpec(model=model, tools=[remove]), "s")
        await session.ask("go")
    span = spans.only("execute_tool")
    assert attributes(span)["error.type"] == "tool_error"
    assert "away" not in span.to_json()


async def test_a_journal_that_says_late_what_it_has_stored_loses_no_span() -> None:
    """A commit of which nobody knows at first: its record is read from the journal."""
    spans, journal = Spans(), TestJournal(inner=MemoryJournal)
    async with watched(spans, journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one", "two"])), "s")
        failures = iter([JournalUnavailable("no answer")])
        journal.fails_after = lambda _: next(failures, None)
        await session.ask("go")
        await session.ask("again")
    assert len(spans.named("invoke_agent")) == 2
    assert len(spans.named("chat")) == 2


@pytest.mark.long
async def test_spans_of_many_sessions_at_once_are_complete() -> None:
    spans = Spans()
    async with watched(spans) as supervisor, trio.open_nursery() as nursery:
        for number in range(100):
            session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["done"], repeat_last=True)), f"s{number}")
            for _ in range(3):
                nursery.start_soon(session.ask, "go")
    assert len(spans.named("invoke_agent")) == 300
    assert len(spans.named("chat")) == 300


async def test_a_supervisor_in_memory_can_be_watched_too() -> None:
    spans = Spans()
    telemetry = OpenTelemetry(spans.exporter, delay=0)
    async with open_supervisor(telemetry=telemetry) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["done"])))
        await session.ask("go")
    assert telemetry.counts == (2, 0, 0)


async def test_a_sub_agent_that_comes_back_with_its_parent_goes_on_in_the_same_trace() -> None:
    journal, first, second = MemoryJournal(), Spans(), Spans()

    def lead(*script: Element, child: Element) -> SessionSpec:
        finder = agent([child, "found"], tools=[remove], plugins=[HumanApproval(tools=("remove",))])
        return SessionSpec(model=ScriptedModel(script), name="lead", agents={"finder": finder})

    async with watched(first, journal) as supervisor:
        session = await supervisor.spawn(lead(task(), child=removing("x")), "s")
        await session.prompt("look")
        await held(session)
    async with watched(second, journal) as supervisor:
        session = await supervisor.resume("s", lead("all done", child=say("found")))
        await session.approve(await held(session))
        await idle(session)
    (turn, rest), (child, child_rest) = second.named("invoke_agent lead"), second.named("invoke_agent finder")
    (its_call, rest_of_call) = second.named("execute_tool task")
    assert {trace_of(span) for span in (*first, *second)} == {trace_of(turn)}
    assert (parent_of(child), links_of(child)) == (id_of(its_call), [id_of(turn)])
    assert (parent_of(child_rest), links_of(child_rest)) == (id_of(its_call), [id_of(turn), id_of(child)])
    assert (links_of(rest), links_of(rest_of_call)) == ([id_of(turn)], [id_of(its_call)])
    assert parent_of(first.named("chat child")[0]) == id_of(child)
    every = [id_of(span) for span in (*first, *second)]
    assert len(set(every)) == len(every)
