"""`timeline`: spans of what ran when, and a row for each record."""

import random
from collections import Counter

import pytest

from agentrail import BlockTool, Continue, HoldTool
from agentrail.core.vocabulary.inputs import StreamCut
from agentrail.core.vocabulary.state import EXECUTING_TOOLS, IDLE, RUNNING, STREAMING
from agentrail.events import RequestStart, ResponseComplete
from agentrail.insight import SpanKind, Timeline, TimelineLane, TimelineSpan, timeline
from agentrail.journals import Record, Redaction
from agentrail.models import Failure, FailureKind
from agentrail.testing import Choose
from agentrail.testing.world.random_setups import draw_scene
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import NOW, Bench, call, plug
from tests.insight.stories import records_of, records_of_world
from tests.kit import AbortSent, ApproveSent, Arrival, CompactSent, SteerSent, Verdict
from tests.machinery.worlds.checked_world import CheckedWorld
from tests.profiles import CAMPAIGN


def spans(bench: Bench, kind: SpanKind) -> list[TimelineSpan]:
    return [span for span in timeline(records_of(bench)).spans if span.kind is kind]


def test_a_turn_is_told_in_lanes() -> None:
    bench = Bench()
    bench.prompt("go")
    bench.now += 50
    bench.answers("", call("look", path="a"))
    bench.now += 20
    bench.returns("c3")
    first, second = spans(bench, SpanKind.REQUEST)
    assert first == TimelineSpan(SpanKind.REQUEST, "r2", "m", NOW, NOW + 50, 2, 3, "tool_calls")
    assert (second.start_ms, second.end_ms, second.last, second.outcome) == (NOW + 70, None, None, "")
    (ran,) = spans(bench, SpanKind.CALL)
    assert ran == TimelineSpan(SpanKind.CALL, "c3", "look", NOW + 50, NOW + 70, 3, 4, "ok", NOW + 50)
    (prompt,) = spans(bench, SpanKind.PROMPT)
    assert (prompt.first, prompt.last, prompt.outcome, prompt.lane) == (2, 2, "begun", TimelineLane.PEOPLE)


def test_a_held_call_waits_for_a_person_before_it_runs() -> None:
    bench = Bench(plug("Guard", before_tool=HoldTool("may it?")))
    bench.prompt("go")
    bench.answers("", call("look", path="a"))
    hold = bench.call("c3").hold
    assert hold is not None
    bench.send(ApproveSent(hold.approval_id), after=300)
    bench.returns("c3")
    (approval,) = spans(bench, SpanKind.APPROVAL)
    assert (approval.label, approval.start_ms, approval.end_ms) == ("look: Guard", NOW, NOW + 300)
    assert approval.outcome == "approved"
    (ran,) = spans(bench, SpanKind.CALL)
    assert (ran.start_ms, ran.ran_ms, ran.outcome) == (NOW, NOW + 300, "ok")
    assert spans(bench, SpanKind.COMMAND) == [], "the end of the approval tells the command"


def test_what_has_not_run_is_told_by_how_it_was_refused() -> None:
    bench = Bench(plug("Guard", before_tool=lambda hook, _s, _c: block_edits(hook.name)))
    bench.prompt("go")
    bench.answers("", call("edit"), call("none"), call("look", bad="x"), call("keep"))
    bench.send(AbortSent())
    outcomes = {span.label: (span.outcome, span.ran_ms is None) for span in spans(bench, SpanKind.CALL)}
    assert outcomes == {
        "edit": ("blocked", True),
        "none": ("no such tool", True),
        "look": ("refused", True),
        "keep": ("", False),
    }


def block_edits(name: str) -> BlockTool[None] | Continue[None]:
    return BlockTool("no edits") if name == "edit" else Continue()


def test_a_timer_is_told_from_when_it_is_set_until_it_fires() -> None:
    bench = Bench()
    bench.prompt("go")
    failure = Failure(FailureKind.TRANSIENT, "Overloaded", "later")
    bench.send(StreamCut(bench.request_id, NOTHING_YET, failure))
    (timer,) = [name for name, _ in bench.state.timers if name.startswith("retry")]
    bench.fires(timer)
    first, second = spans(bench, SpanKind.REQUEST)
    (waited,) = [span for span in spans(bench, SpanKind.TIMER) if span.id == timer]
    assert (first.outcome, waited.outcome, second.outcome) == ("failed: transient", "fired", "")
    assert (waited.start_ms, waited.end_ms) == (first.end_ms, second.start_ms)


def test_a_compaction_and_commands_are_told() -> None:
    bench = Bench()
    bench.prompt("one")
    bench.answers("done")
    bench.send(CompactSent("it is long"))
    bench.send(SteerSent("go on"))
    (compaction,) = spans(bench, SpanKind.COMPACTION)
    assert (compaction.lane, compaction.label, compaction.end_ms) == (TimelineLane.MODEL, "caller", None)
    assert [span.id for span in spans(bench, SpanKind.COMMAND)] == ["CompactSent"]
    (steering,) = spans(bench, SpanKind.STEERING)
    assert steering.end_ms is None


def test_a_row_tells_phases_hooks_effects_and_events() -> None:
    bench = Bench(plug("Guard", before_tool=BlockTool("never")), plug("Other", before_finish=Continue()))
    bench.prompt("go")
    bench.answers("", call("look", path="a"))
    *_, row = timeline(records_of(bench)).rows
    assert (row.record, row.input, row.before, row.after, row.turn, row.round) == (
        3,
        "StreamEnded",
        RUNNING,
        RUNNING,
        1,
        2,
    )
    assert [(run.hook, run.verdict, run.by, run.answered) for run in row.hooks] == [
        ("before_tool", Verdict.BLOCK, "Guard", ("Guard",)),
    ]
    assert row.hooks[0].sentence.startswith("the call was blocked by `Guard`: never")
    assert row.effects == ("StartRequest",)
    assert [type(event).__name__ for event in row.events][-1] == "RequestStart"


def test_a_response_that_had_begun_is_seen_in_the_phase_before() -> None:
    bench = Bench()
    bench.prompt("go")
    bench.answers("", call("look", path="a"))
    records = records_of(bench)
    records[2] = records[2].but(began="r2")
    rows = timeline(records).rows
    assert [(row.before, row.after) for row in rows[1:]] == [(IDLE, RUNNING), (STREAMING, EXECUTING_TOOLS)]


def test_a_row_names_no_plugin_that_let_it_pass_no_turn_that_is_over_and_says_what_is_redacted() -> None:
    bench = Bench(plug("Quiet", before_tool=Continue(family="look")), plug("Guard", before_tool=BlockTool("never")))
    bench.prompt("go")
    bench.answers("", call("look", path="a"))
    bench.answers("done")
    records = records_of(bench)
    records[1] = records[1].but(redacted=Redaction(NOW, "ann"))
    rows = timeline(records).rows
    assert [run.answered for row in rows for run in row.hooks] == [("Guard",)]
    assert [row.turn for row in rows] == [0, 1, 1, 0]
    assert [row.is_redacted for row in rows] == [False, True, False, False]


def test_a_clock_that_was_set_back_ends_no_span_before_its_start() -> None:
    bench = Bench()
    bench.prompt("go")
    bench.answers("done")
    records = [
        record if record.number < 3 else record.but(arrival=Arrival(record.arrival.input, NOW - 5_000))
        for record in records_of(bench)
    ]
    demand_well_formed(records, timeline(records))


def demand_well_formed(records: list[Record], line: Timeline) -> None:
    """Check that spans have a start and maybe an end, and that each request and each call has one span."""
    count = len(records)
    assert [row.record for row in line.rows] == [record.number for record in records]
    assert [span.first for span in line.spans] == sorted(span.first for span in line.spans)
    for span in line.spans:
        assert 1 <= span.first <= (span.last or count) <= count, span
        assert (span.end_ms is None) == (span.last is None) == (span.outcome == ""), span
        assert span.end_ms is None or span.start_ms <= span.end_ms, span
        assert span.ran_ms is None or span.start_ms <= span.ran_ms, span
    events = [envelope.event for record in records for envelope in record.events]
    requests = [event.request_id for event in events if isinstance(event, RequestStart)]
    calls = [each.call_id for event in events if isinstance(event, ResponseComplete) for each in event.message.calls]
    told = Counter((span.kind, span.id) for span in line.spans)
    assert [span.id for span in line.spans if span.kind is SpanKind.REQUEST] == requests
    assert all(told[SpanKind.CALL, call_id] == 1 for call_id in calls)
    assert all(count == 1 for (kind, _), count in told.items() if kind is SpanKind.CALL)


@pytest.mark.long
def test_timelines_of_random_sessions_are_well_formed() -> None:
    kinds = set[SpanKind]()
    for seed in range(2_000 if CAMPAIGN else 50):
        choose = Choose(random.Random(seed).randrange)
        world = CheckedWorld(draw_scene(choose))
        world.open()
        while len(world.records) < 100 and world.go(choose) is not None:
            pass
        records = records_of_world(world)
        line = timeline(records)
        demand_well_formed(records, line)
        state = world.state
        open_calls = {span.id for span in line.spans if span.kind is SpanKind.CALL and span.end_ms is None}
        detached_calls = {detached.call_id for detached in (*state.quarantined_calls, *state.lingering_calls)}
        mine = () if state.batch is None else state.batch.calls
        assert open_calls == detached_calls | {each.call_id for each in mine if not each.done}
        kinds |= {span.kind for span in line.spans}
    assert kinds == set(SpanKind)
