"""Failures between the session and its model."""

import pytest

from agentrail import Accepted, Options
from agentrail.core.context_window import tokens_of
from agentrail.core.machine.responses import begun
from agentrail.core.vocabulary.effects import ClearTimer, SetTimer
from agentrail.core.vocabulary.inputs import (
    CompactionEnded,
    CompactionFailed,
    StreamCut,
    StreamEnded,
    StreamStalled,
)
from agentrail.core.vocabulary.options import Spare
from agentrail.core.vocabulary.state import Compaction, Steering
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    BeforeCompact,
    CompactEnd,
    ContextOverflow,
    RequestStart,
    ResponseComplete,
    Retry,
    SteeringApplied,
    SteeringReceived,
    StreamError,
    ToolCalls,
)
from agentrail.events import StreamStalled as StreamStalledEvent
from agentrail.models import (
    AssistantMessage,
    Failure,
    FailureKind,
    History,
    Origin,
    Partial,
    Response,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import NOW, Bench, call, ruled
from tests.cells.scenes import (
    compact_start,
    compacts,
    cut,
    cut_off,
    failed,
    idle,
    limit,
    out,
    path,
    replied,
    request,
    run,
    running,
    start,
    starts,
    streaming,
    turn,
    user_message,
)
from tests.kit import DONE, NOTHING_USED, AbortSent, AnyInput, CompactSent, Phase, SteerSent

BUSY = Failure(FailureKind.TRANSIENT, "Busy", "try later")
WRONG = Failure(FailureKind.PERMANENT, "NotFound", "no such model")
TOO_LONG = Failure(FailureKind.OVERFLOW, "TooLong", "too many tokens")
FORCED = "the provider says the context is too long"


def breaks(bench: Bench, failure: Failure = BUSY, partial: Partial = NOTHING_YET, *, random: float = 1.0) -> None:
    """Make the request fail with a random number of 1, which makes the back-off as long as possible."""
    bench.send(StreamCut(bench.request_id, partial, failure), random=random)


# Stalls


def test_a_stall_is_reported() -> None:
    for bench in (running(), streaming()):
        assert bench.state.setup.options.stall_timeout == 30.0
        bench.send(StreamStalled("r2", 30.0)).expect_only(
            events=[StreamStalledEvent(30.0, 1)],
            request=out("r2", 1),
        )


def test_at_the_second_stall_the_request_is_cancelled_and_tried_again() -> None:
    used = Usage(10, 3)
    for bench in (running(), streaming()):
        bench.send(StreamStalled("r2", 30.0))
        bench.send(StreamStalled("r2", 30.0, Partial("so far", usage=used)), random=1.0).expect_only(
            events=[
                StreamStalledEvent(30.0, 2),
                Retry(1, 2_000, "no chunk for 30 s (stall 2 of this request)", dropped_text=True),
            ],
            effects=[cut("r2"), SetTimer("retry", NOW + 2_000)],
            phase=Phase.RUNNING,
            request=None,
            usage=used,
            turn=turn(last_error="no chunk for 30 s (stall 2 of this request)"),
        )
        old = bench.state
        bench.fires("retry").expect_only(
            ids=1,
            events=[RequestStart("r3", "m", 1, 2)],
            effects=[request(old, "r3")],
            rulings=ruled("before_request"),
            turn=turn(last_error="no chunk for 30 s (stall 2 of this request)", attempt=2),
            request=out("r3"),
        )


# Errors that may pass


def test_a_transient_error_is_followed_by_another_attempt() -> None:
    used = Usage(5, 1)
    for bench in (running(), streaming()):
        bench.send(StreamCut("r2", Partial("so far", usage=used), BUSY), random=1.0).expect_only(
            events=[Retry(1, 2_000, "try later", dropped_text=True)],
            effects=[SetTimer("retry", NOW + 2_000)],
            phase=Phase.RUNNING,
            request=None,
            usage=used,
            turn=turn(last_error="try later"),
        )
        old = bench.state
        bench.fires("retry").expect_only(
            ids=1,
            events=[RequestStart("r3", "m", 1, 2)],
            effects=[request(old, "r3")],
            rulings=ruled("before_request"),
            turn=turn(last_error="try later", attempt=2),
            request=out("r3"),
        )


def delays(failure: Failure, random: float) -> list[int]:
    bench = running()
    actual = []
    while bench.state.turn is not None:
        breaks(bench, failure, random=random)
        if bench.state.turn is not None:
            retry = bench.got[-1].events[-1]
            assert isinstance(retry, Retry)
            actual.append(retry.delay_ms)
            assert bench.got[-1].step.effects == (SetTimer("retry", bench.now + retry.delay_ms),)
            bench.fires("retry")
    return actual


def test_the_back_off_doubles_up_to_its_cap() -> None:
    assert delays(BUSY, 1.0) == [2_000, 4_000, 8_000, 16_000, 32_000]
    bench = running(options=Options(max_retries=7))
    for _ in range(5):
        breaks(bench)
        bench.fires("retry")
    breaks(bench)
    assert bench.got[-1].events == [Retry(6, 60_000, "try later")]


def test_the_back_off_has_jitter_from_the_random_number_of_the_input() -> None:
    assert delays(BUSY, 0.0) == [1_000, 2_000, 4_000, 8_000, 16_000]
    assert delays(BUSY, 0.5) == [1_500, 3_000, 6_000, 12_000, 24_000]


def test_retry_after_is_obeyed() -> None:
    assert delays(BUSY.but(retry_after=7.0), 1.0) == [7_000, 7_000, 8_000, 16_000, 32_000]
    assert delays(BUSY.but(retry_after=90.0), 1.0) == [90_000] * 5


def test_after_five_retries_the_turn_is_aborted() -> None:
    bench = running()
    for _ in range(5):
        breaks(bench)
        bench.fires("retry")
    bench.begins()
    old = bench.state
    bench.send(StreamCut("r7", Partial("so far"), BUSY)).expect_only(
        events=[StreamError("Busy", "try later"), AgentAbort("p1", "provider_error", "try later")],
        rulings=ruled("after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        request=None,
        history=old.history.and_(cut_off("so far")),
    )


FULL = Options(context_window=100)

UNREACHED = Failure(FailureKind.TRANSIENT, "ProviderNotReached", "no network", unreached_ms=0)


def test_without_a_network_a_turn_gives_up_within_five_seconds() -> None:
    assert delays(UNREACHED, 1.0) == [500, 1_000, 2_000]
    assert delays(UNREACHED, 0.0) == [250, 500, 1_000, 2_000]
    assert delays(UNREACHED.but(unreached_ms=600), 1.0) == [500, 1_000, 2_000]
    assert delays(UNREACHED.but(unreached_ms=2_000), 1.0) == [500]
    assert delays(UNREACHED.but(unreached_ms=2_251), 1.0) == []


def test_a_turn_without_a_network_tries_no_more_often_than_it_may() -> None:
    bench = running(options=Options(max_retries=1))
    breaks(bench, UNREACHED)
    bench.fires("retry")
    breaks(bench, UNREACHED)
    assert bench.got[-1].events == [
        StreamError("ProviderNotReached", "no network"),
        AgentAbort("p1", "provider_error", "no network"),
    ]


def test_a_turn_that_has_reached_its_model_waits_for_the_network() -> None:
    busy, spoke, stalled, lost = running(), running(), running(), running()
    breaks(busy)
    spoke.begins()
    breaks(spoke)
    for _ in range(2):
        stalled.send(StreamStalled("r2", 30.0), random=1.0)
    breaks(lost, UNREACHED)
    lost.fires("retry")
    breaks(lost)
    for bench, pauses in ((busy, (4, 8)), (spoke, (4, 8)), (stalled, (4, 8)), (lost, (8, 16))):
        for pause in pauses:
            bench.fires("retry")
            breaks(bench, UNREACHED)
            assert bench.got[-1].events == [Retry(pause.bit_length() - 1, 1_000 * pause, "no network")]


def test_a_turn_whose_network_came_back_waits_for_it_when_it_goes_again() -> None:
    bench = running()
    breaks(bench, UNREACHED)
    bench.fires("retry")
    bench.begins()
    bench.send(StreamCut(bench.request_id, NOTHING_YET, UNREACHED), random=1.0)
    assert bench.got[-1].events == [Retry(2, 4_000, "no network")]


def due(bench: Bench) -> Bench:
    """Begin a turn whose first request waits for the compaction of a context that is too full."""
    bench.prompt("x" * 300)
    return bench


def unsummarised(bench: Bench, spent_ms: int) -> None:
    """Fail the compaction of *bench*, as no model could be reached for so long."""
    compaction = bench.state.compaction
    assert compaction is not None
    failure = UNREACHED.but(unreached_ms=spent_ms)
    bench.send(CompactionFailed(compaction.compaction_id, "no summary", failure=failure), random=1.0)


def test_a_compaction_that_reached_no_model_for_long_is_given_up_like_a_request_and_changes_nothing() -> None:
    bench = due(idle(options=FULL))
    old_history = bench.state.history
    unsummarised(bench, 2_501)
    assert bench.got[-1].events == [
        CompactEnd(0, "no summary"),
        StreamError("ProviderNotReached", "no network"),
        AgentAbort("p1", "provider_error", "no network"),
    ]
    assert (bench.state.history, bench.state.compaction) == (old_history, None)


def test_the_time_without_a_network_of_a_compaction_counts_for_the_request_after_it() -> None:
    bench = due(idle(options=FULL))
    old_history = bench.state.history
    unsummarised(bench, 2_500)
    assert bench.got[-1].events == [CompactEnd(0, "no summary"), RequestStart(bench.request_id, "m", 1, 1)]
    assert bench.state.history == old_history
    breaks(bench, UNREACHED)
    assert bench.got[-1].events == [Retry(1, 500, "no network")]
    bench.fires("retry")
    breaks(bench, UNREACHED.but(unreached_ms=1_001))
    assert bench.state.turn is None


def test_a_fallback_model_is_used_if_the_one_of_a_compaction_cannot_be_reached() -> None:
    bench = idle(options=FULL)
    bench.state = bench.state.but(fallbacks=(Spare("n"),))
    due(bench)
    unsummarised(bench, 5_000)
    assert bench.got[-1].events[-1] == RequestStart(bench.request_id, "n", 1, 1)
    breaks(bench, UNREACHED)
    assert bench.state.turn is None


def test_a_compaction_without_a_network_ends_no_turn_that_has_reached_its_model() -> None:
    for asked_value in (running(options=FULL), running(options=FULL.but(max_retries=0))):
        breaks(asked_value, TOO_LONG)
        unsummarised(asked_value, 5_000)
        assert asked_value.got[-1].events[-1] == RequestStart(asked_value.request_id, "m", 1, 2)
        assert asked_value.state.turn is not None
        may_retry = asked_value.state.setup.options.max_retries
        breaks(asked_value, TOO_LONG)
        assert (asked_value.state.compaction is not None) == bool(may_retry), (
            "it is compacted again, as often as it may try"
        )


def test_outside_a_turn_a_compaction_without_a_network_only_ends() -> None:
    bench = idle()
    bench.prompt()
    bench.answers("hi")
    bench.send(CompactSent("make room"))
    old_history = bench.state.history
    unsummarised(bench, 5_000)
    assert bench.got[-1].events == [CompactEnd(0, "no summary")]
    assert (bench.state.history, bench.state.phase) == (old_history, Phase.IDLE)


def test_steering_does_not_prolong_the_search_for_a_network() -> None:
    bench = running()
    breaks(bench, UNREACHED.but(unreached_ms=2_000))
    bench.send(SteerSent("rather this"))
    bench.fires("retry")
    breaks(bench, UNREACHED.but(unreached_ms=2_600))
    assert bench.state.turn is None


def test_an_abort_ends_the_back_off() -> None:
    bench = running()
    breaks(bench)
    bench.send(AbortSent()).expect_only(
        answer=DONE,
        events=[AgentAbort("p1", "user")],
        effects=[ClearTimer("retry")],
        rulings=ruled("after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
    )


def test_steering_during_the_back_off_is_merged_before_the_next_attempt() -> None:
    bench = running()
    breaks(bench)
    bench.send(SteerSent("rather this")).expect_only(
        answer=Accepted("s3", "queued", 1),
        ids=1,
        events=[SteeringReceived("s3", "rather this", "queued")],
        rulings=ruled("before_steering"),
        steering=(Steering("s3", "rather this"),),
    )
    old = bench.state
    new = user_message("rather this", Origin.STEERING)
    bench.fires("retry").expect_only(
        ids=1,
        events=[SteeringApplied(("s3",), 1), RequestStart("r4", "m", 2, 2)],
        effects=[request(old, "r4", new)],
        rulings=ruled("before_request"),
        turn=turn(last_error="try later", attempt=2),
        steering=(),
        history=old.history.and_(new),
        request=out("r4"),
    )


# Errors that stay


def test_a_permanent_error_aborts_the_turn() -> None:
    for bench in (running(), streaming()):
        bench.prompt("next")
        old = bench.state
        got = bench.send(StreamCut("r2", Partial("so far"), WRONG))
        got.expect_only(
            ids=1,
            events=[
                StreamError("NotFound", "no such model"),
                AgentAbort("p1", "provider_error", "no such model"),
                *starts("p3", "r4", "next", turns=2, messages=3),
            ],
            effects=[request(old, "r4", cut_off("so far"), user_message("next"))],
            rulings=ruled("after_turn", "before_prompt", "before_request"),
            phase=Phase.RUNNING,
            turn_count=2,
            turn=turn("p3", mark=2),
            queue=(),
            history=old.history.and_(cut_off("so far"), user_message("next")),
            request=out("r4"),
        )


def test_a_limit_of_a_plugin_aborts_the_turn() -> None:
    limit = Failure(FailureKind.LIMIT, "LimitReached", "BudgetGuard: max_tokens=9 is used up")
    for bench in (running(), streaming()):
        bench.send(StreamCut("r2", Partial(), limit)).expect_only(
            events=[AgentAbort("p1", "plugin", "BudgetGuard: max_tokens=9 is used up")],
            rulings=ruled("after_turn"),
            phase=Phase.IDLE,
            round=0,
            turn=None,
            request=None,
        )


def test_an_overflow_is_followed_by_a_forced_compaction_and_the_request_again() -> None:
    bench = idle()
    bench.prompt("first")
    bench.answers("one")
    bench.prompt("second")
    old = bench.state
    bench.send(StreamCut("r4", NOTHING_YET, TOO_LONG)).expect_only(
        ids=1,
        events=[ContextOverflow("too many tokens"), BeforeCompact(3, FORCED), compact_start(old, FORCED)],
        effects=[compacts(old, "k5", old.history.size // 2, forced=True)],
        rulings=ruled("before_compact"),
        turn=turn("p3", mark=2, overflowed=True, last_error="too many tokens"),
        request=None,
        compaction=Compaction("k5", FORCED, running=True, forced=True, tokens=tokens_of(old), by="overflow"),
    )
    shorter = (user_message("second"),)
    old = bench.state.but(history=History(shorter))
    bench.send(CompactionEnded("k5", shorter, 2, "shorter")).expect_only(
        ids=1,
        events=[
            CompactEnd(2, "shorter"),
            RequestStart("r6", "m", 1, 2),
        ],
        effects=[request(old, "r6")],
        rulings=ruled("before_request"),
        turn=turn("p3", mark=0, overflowed=True, last_error="too many tokens", attempt=2),
        history=History(shorter),
        compaction=None,
        request=out("r6"),
    )


def test_a_second_overflow_aborts_the_turn() -> None:
    bench = running()
    breaks(bench, TOO_LONG)
    bench.send(CompactionEnded("k3", (user_message(),), 1, "shorter"))
    bench.send(StreamCut("r4", NOTHING_YET, TOO_LONG)).expect_only(
        events=[ContextOverflow("too many tokens"), AgentAbort("p1", "overflow", "too many tokens")],
        rulings=ruled("after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        request=None,
    )


def test_a_forced_compaction_that_expect_nothing_aborts_the_turn() -> None:
    why = "the context is too long, and compaction changed nothing: "
    bench = running()
    breaks(bench, TOO_LONG)
    bench.send(CompactionEnded("k3", (user_message(),), 0, "nothing to drop")).expect_only(
        events=[CompactEnd(0, "nothing to drop"), AgentAbort("p1", "overflow", f"{why}nothing to drop")],
        rulings=ruled("after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        compaction=None,
        history=History((user_message(),)),
    )
    bench = running()
    breaks(bench, TOO_LONG)
    bench.send(CompactionFailed("k3", "it broke")).expect_only(
        events=[CompactEnd(0, "it broke"), AgentAbort("p1", "overflow", f"{why}it broke")],
        rulings=ruled("after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        compaction=None,
    )


# Odd responses


def test_each_call_gets_the_sessions_own_id_and_keeps_the_providers() -> None:
    bench = streaming()
    args = path()
    calls = (
        ToolCall("", "look", args, "x"),
        ToolCall("x", "store", args, ""),
        ToolCall("", "edit", args, ""),
    )
    own_value = (
        ToolCall("c3", "look", args, "x"),
        ToolCall("c4", "store", args, "x"),
        ToolCall("c5", "edit", args, ""),
    )
    got = bench.send(StreamEnded("r2", Response((), calls, StopReason.TOOL_CALLS)))
    assert bench.state.history[-1] == replied("", *own_value)
    assert got.step.effects == (
        limit("c3"),
        start("c3", "look", args),
        limit("c4"),
        start("c4", "store", args),
        limit("c5"),
        start("c5", "edit", args),
    )
    assert got.events == [
        ResponseComplete(replied("", *own_value)),
        ToolCalls(3),
        run("c3", "look", args),
        run("c4", "store", args),
        run("c5", "edit", args),
    ]


def _final(bench: Bench, stop: StopReason, stop_reason: StopReason, ends: str, text: str = "that is all") -> None:
    old = bench.state
    message = replied(text, stop=stop_reason)
    bench.answers(text, stop=stop).expect_only(
        events=[
            ResponseComplete(message),
            AgentEnd("p1", ends, (user_message(), message), NOTHING_USED),
        ],
        rulings=ruled("after_response", "before_finish", "after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        request=None,
        last_text=text,
        history=old.history.and_(message),
    )


def test_the_stop_reason_tool_calls_without_calls_is_a_final_answer() -> None:
    _final(streaming(), StopReason.TOOL_CALLS, StopReason.END, "end")
    _final(running(), StopReason.TOOL_CALLS, StopReason.END, "end")


def test_text_and_calls_are_both_taken() -> None:
    bench = streaming()
    bench.answers("I will look", call("look", path="a"))
    assert tuple(bench.state.history) == (user_message(), replied("I will look", ToolCall("c3", "look", path())))
    assert bench.state.last_text == "I will look"
    assert bench.got[-1].step.effects == (limit("c3"), start("c3", "look", path()))


def test_a_call_that_was_cut_gets_an_error_result_and_the_others_run() -> None:
    bench = streaming()
    bench.answers("", call("look", path="a"), call("store", path="b"), stop=StopReason.LENGTH)
    assert bench.got[-1].step.effects == (limit("c3"), start("c3", "look", path()))
    cut_call = bench.call("c4")
    text = "the response was cut off in the middle of this call; make it again, shorter"
    assert cut_call.result == failed("c4", "store", text)
    _final(streaming(), StopReason.LENGTH, StopReason.LENGTH, "length")


def test_nothing_at_all_is_retried_at_once() -> None:
    for bench in (running(), streaming()):
        old = bench.state
        bench.send(StreamEnded("r2", Response(usage=Usage(3, 0)))).expect_only(
            ids=1,
            events=[Retry(1, 0, "the model answered with nothing"), RequestStart("r3", "m", 1, 2)],
            effects=[request(old, "r3")],
            rulings=ruled("before_request"),
            phase=Phase.RUNNING,
            usage=Usage(3, 0),
            turn=turn(empty=True, last_error="empty response", attempt=2),
            request=out("r3"),
        )


def test_nothing_at_all_twice_is_an_error() -> None:
    bench = streaming()
    bench.answers("")
    why = "the model answered with nothing, twice"
    bench.send(StreamEnded("r3", Response())).expect_only(
        events=[StreamError("EmptyResponse", why), AgentAbort("p1", "provider_error", why)],
        rulings=ruled("after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        request=None,
    )


def test_a_refusal_ends_the_turn_and_its_calls_are_not_taken() -> None:
    _final(streaming(), StopReason.REFUSED, StopReason.REFUSED, "refused", "I will not")
    bench = streaming()
    calls = (call("look", path="a"),)
    bench.send(StreamEnded("r2", Response((Text("no"),), calls, StopReason.REFUSED)))
    assert bench.state.phase is Phase.IDLE
    assert bench.state.history[-1] == replied("no", stop=StopReason.REFUSED)


def test_a_refusal_without_a_word_leaves_nothing_in_the_history() -> None:
    for parts in ((), (Thinking("hm"),)):
        bench = streaming()
        bench.send(StreamEnded("r2", Response(parts, (), StopReason.REFUSED))).expect_only(
            events=[
                ResponseComplete(AssistantMessage(parts, (), "m", StopReason.REFUSED)),
                AgentEnd("p1", "refused", (user_message(),), NOTHING_USED),
            ],
            rulings=ruled("after_response", "before_finish", "after_turn"),
            phase=Phase.IDLE,
            round=0,
            turn=None,
            request=None,
            last_text="",
        )
        assert list(bench.state.history) == [user_message()]


def test_a_thought_alone_is_an_answer() -> None:
    bench = streaming()
    bench.send(StreamEnded("r2", Response((Thinking("hm"),))))
    assert bench.state.phase is Phase.IDLE
    assert bench.state.last_text == ""


# Late results of what was cancelled


@pytest.mark.parametrize("what", ["ended", "cut", "stalled"])
def test_a_late_word_of_a_cancelled_request_changes_nothing(what: str) -> None:
    late: dict[str, AnyInput] = {
        "ended": StreamEnded("r2", Response((Text("late"),))),
        "cut": StreamCut("r2", Partial("late"), BUSY),
        "stalled": StreamStalled("r2", 30.0),
    }
    for bench in (running(), streaming()):
        bench.send(AbortSent())
        bench.send(late[what]).expect_nothing()
        assert begun(bench.state, "r2") is bench.state
        bench.prompt("next")
        bench.send(late[what]).expect_nothing()
        bench.begins()
        bench.send(late[what]).expect_nothing()
        bench.answers("", call("look", path="a"))
        bench.send(late[what]).expect_nothing()
