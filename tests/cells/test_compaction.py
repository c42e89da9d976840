"""Compaction of the context: its course; which messages are dropped is tested in tests/core."""

from agentrail import Accepted, Options, Prompt, Skip
from agentrail.core.vocabulary.effects import CancelCompaction, CloseSession
from agentrail.core.vocabulary.inputs import CompactionEnded, CompactionFailed, StreamCut
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    BeforeCompact,
    CompactEnd,
    CompactStart,
    PromptQueued,
    RequestStart,
    SessionEnded,
    ToolExecutionEnd,
)
from agentrail.models import Failure, FailureKind, History, Message, Origin, Text
from agentrail.tools import CompactNow, Effect
from agentrail.values.messages import why_unfit
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import Bench, call, plug, ruled
from tests.cells.scenes import (
    STARTED,
    compact_start,
    compacts,
    executing,
    idle,
    out,
    replied,
    request,
    result,
    starts,
    streaming,
    turn,
    user_message,
)
from tests.each_case import each_case
from tests.kit import DONE, AbortSent, CompactSent, Phase, SteerSent, StopSent
from tests.slices import planned


def compacting() -> Bench:
    """Return an idle session that compacts two messages; the compaction has the id k3."""
    bench = idle()
    bench.prompt()
    bench.answers("hi")
    bench.send(CompactSent("make room"))
    return bench


SHORTER = (user_message("earlier: hello, hi", Origin.NOTICE),)


def test_a_compaction_outside_a_turn_ends_in_idle() -> None:
    bench = compacting()
    bench.send(CompactionEnded("k3", SHORTER, 2, "shorter")).expect_only(
        events=[CompactEnd(2, "shorter")],
        phase=Phase.IDLE,
        compaction=None,
        history=History(SHORTER),
    )
    bench.send(CompactionEnded("k3", SHORTER, 2, "shorter")).expect_nothing()


def test_a_compaction_that_failed_changes_nothing() -> None:
    bench = compacting()
    bench.send(CompactionFailed("k3", "it broke")).expect_only(
        events=[CompactEnd(0, "it broke")], phase=Phase.IDLE, compaction=None
    )
    bench.send(CompactionFailed("k3", "it broke")).expect_nothing()


def test_an_abort_cancels_a_compaction_and_nothing_changes_by_it() -> None:
    bench = compacting()
    bench.send(AbortSent()).expect_only(
        answer=DONE,
        events=[CompactEnd(0, "cancelled"), AgentAbort(None, "user")],
        effects=[CancelCompaction("k3")],
        phase=Phase.IDLE,
        compaction=None,
    )
    bench.send(CompactionEnded("k3", SHORTER, 2, "shorter")).expect_nothing()


def test_an_abort_of_a_turn_cancels_its_compaction_and_nothing_changes_by_it() -> None:
    bench = idle(options=Options(context_window=10))
    bench.prompt("x" * 50)
    bench.send(AbortSent()).expect_only(
        answer=DONE,
        events=[CompactEnd(0, "cancelled"), AgentAbort("p1", "user")],
        effects=[CancelCompaction("k2")],
        rulings=ruled("after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        compaction=None,
    )
    bench.send(CompactionEnded("k2", SHORTER, 1, "shorter")).expect_nothing()


def test_a_prompt_waits_for_the_compaction() -> None:
    bench = compacting()
    bench.prompt("next").expect_only(
        answer=Accepted("p4", "queued", 1),
        ids=1,
        events=[PromptQueued("p4", "next", 1)],
        queue=(Prompt("p4", (Text("next"),)),),
    )
    old = bench.state.but(history=History(SHORTER))
    *begun, sent = starts("p4", "r5", "next", turns=2, messages=2)
    bench.send(CompactionEnded("k3", SHORTER, 2, "shorter")).expect_only(
        ids=1,
        events=[CompactEnd(2, "shorter"), *begun, sent],
        effects=[request(old, "r5", user_message("next"))],
        rulings=ruled(*STARTED),
        turn_count=2,
        round=1,
        turn=turn("p4", mark=1),
        queue=(),
        compaction=None,
        request=out("r5"),
        history=old.history.and_(user_message("next")),
    )


def test_a_stop_cancels_a_compaction() -> None:
    compacting().send(StopSent()).expect_only(
        answer=DONE,
        events=[CompactEnd(0, "cancelled"), AgentAbort(None, "stopped", "stopped"), SessionEnded("stopped")],
        effects=[CancelCompaction("k3"), CloseSession("stopped")],
        rulings=ruled("session_end"),
        phase=Phase.ENDED,
        compaction=None,
        stop_reason="stopped",
    )


def test_what_was_asked_for_during_a_turn_is_done_before_the_next_request() -> None:
    bench = executing(call("look", path="a"))
    bench.send(CompactSent("make room"))
    old = bench.state
    done = result("c3", "look")
    full = old.history.and_(done)
    bench.returns("c3")
    seen = old.but(history=full)
    assert bench.got[-1].events[2:] == [BeforeCompact(3, "make room"), compact_start(seen, "make room")]
    assert bench.got[-1].step.effects[1:] == (compacts(seen, "k4", full.size // 2, by_caller=True),)
    assert (bench.state.compaction_reason, bench.state.round) == (None, 2)
    shorter = (*SHORTER, *tuple(full)[1:])
    old = bench.state.but(history=History(shorter))
    bench.send(CompactionEnded("k4", shorter, 1, "shorter")).expect_only(
        ids=1,
        events=[CompactEnd(1, "shorter"), RequestStart("r5", "m", 3, 1)],
        effects=[request(old, "r5")],
        rulings=ruled("before_request"),
        turn=bench.got[-2].step.state.turn and bench.got[-2].step.state.turn.but(attempt=1, mark=0),
        compaction=None,
        request=out("r5"),
        history=History(shorter),
    )


def test_what_was_asked_for_during_a_back_off_is_done_before_the_next_attempt() -> None:
    bench = streaming()
    bench.send(StreamCut("r2", NOTHING_YET, Failure(FailureKind.TRANSIENT, "Busy", "try later")))
    bench.send(CompactSent("make room"))
    bench.fires("retry")
    assert bench.got[-1].events == [BeforeCompact(1, "make room"), compact_start(bench.state, "make room")]
    bench.send(CompactionEnded("k3", (user_message(),), 0, "nothing to drop"))
    assert bench.got[-1].events == [CompactEnd(0, "nothing to drop"), RequestStart("r4", "m", 1, 2)]


def test_a_compaction_that_runs_is_the_one_that_is_asked_for() -> None:
    bench = compacting()
    bench.send(CompactSent("again")).expect_only(answer=DONE)


def test_a_tool_may_ask_for_a_compaction() -> None:
    bench = executing()
    bench.returns("c3", Effect(CompactNow("too much")))
    assert isinstance(bench.got[-1].events[0], ToolExecutionEnd)
    assert bench.got[-1].events[2:] == [BeforeCompact(3, "too much"), compact_start(bench.state, "too much")]
    assert bench.state.history[-1].text == "the context will be compacted before the next request"


def test_a_context_that_fills_most_of_the_window_is_compacted_by_itself() -> None:
    options = Options(context_window=100)
    text = "x" * 226  # with the tools 82 tokens of four characters, over 80 of 100
    bench = idle(options=options)
    bench.prompt(text)
    reason = "about 82 tokens of 100"
    assert bench.got[-1].events[2:] == [BeforeCompact(1, reason), CompactStart(1, reason, 82, 100)]
    assert bench.got[-1].step.effects[-1] == compacts(bench.state, "k2", 95, window=100)
    bench = idle(options=options)
    bench.prompt("x" * 216)
    assert isinstance(bench.got[-1].events[-1], RequestStart)


def test_steering_that_came_during_a_compaction_is_merged_before_the_request() -> None:
    bench = idle(options=Options(context_window=100))
    bench.prompt("x" * 300)
    bench.send(SteerSent("rather this"))
    bench.send(CompactionEnded("k2", (user_message("x" * 50),), 1, "shorter"))
    assert bench.state.history[-1] == user_message("rather this", Origin.STEERING)
    assert bench.got[-1].events[-1] == RequestStart("r4", "m", 2, 1)


def test_a_plugin_may_skip_a_compaction_but_not_save_a_turn_whose_context_is_too_long() -> None:
    bench = streaming(plug("A", before_compact=Skip()))
    bench.send(CompactSent())
    bench.answers("", call("look", path="a"))
    bench.returns("c3")
    assert isinstance(bench.got[-1].events[-1], RequestStart)
    bench.send(StreamCut("r5", NOTHING_YET, Failure(FailureKind.OVERFLOW, "TooLong", "too many tokens")))
    aborted = bench.got[-1].events[-1]
    assert isinstance(aborted, AgentAbort)
    assert (aborted.kind, bench.state.phase) == ("overflow", Phase.IDLE)


def test_messages_that_no_provider_would_take_are_not_taken() -> None:
    bench = compacting()
    old_history = bench.state.history
    bench.send(CompactionEnded("k3", (result("c9", "look"),), 1, "shorter"))
    assert bench.state.history == old_history
    assert bench.state.phase is Phase.IDLE


@each_case(range(0, 60, 3))
def test_a_compaction_never_splits_a_call_from_its_result(keep: int) -> None:
    asks = replied("", call("look", path="a").but(call_id="c1"), call("edit").but(call_id="c2"))
    history: list[Message] = [
        user_message("one"),
        asks,
        result("c1", "look"),
        result("c2", "edit"),
        replied("ok"),
        user_message("two"),
        replied("x"),
    ]
    plan = planned(history, keep)
    remaining = plan.with_notice("gone")
    assert why_unfit(remaining) is None
    assert remaining[-2:] == tuple(history[-2:]), "the newest prompt and what followed it stay"
    assert len(plan.removed) == len(history) - len(remaining) + (1 if plan.removed else 0)


def test_a_turn_whose_past_was_compacted_reports_the_messages_that_are_its_own() -> None:
    bench = idle()
    bench.prompt()
    bench.answers("hi")
    bench.prompt("and then?")
    bench.answers("", call("look", path="a"))
    bench.send(CompactSent("make room"))
    assert bench.state.batch is not None
    (asked_call,) = bench.state.batch.calls
    bench.returns(asked_call.call_id)
    assert bench.state.compaction is not None
    history = tuple(bench.state.history)[2:]
    assert [message.text for message in history] == ["and then?", "", "done"]
    bench.send(CompactionEnded(bench.state.compaction.compaction_id, (*SHORTER, *history), 2, "shorter"))
    bench.answers("bye")
    (end,) = (event for event in bench.got[-1].events if isinstance(event, AgentEnd))
    assert end.messages == tuple(bench.state.history)[1:]
    assert [message.text for message in end.messages] == ["and then?", "", "done", "bye"]
