"""Steering: texts from the user while a turn is open."""

from agentrail import Abort, Accepted, Ask, Continue, Intervene, Options, Prompt
from agentrail.core.machine.tool_results import doubt
from agentrail.core.vocabulary.commands import WithdrawSent
from agentrail.core.vocabulary.effects import CancelAsk, CancelCalls, ClearTimer, SetTimer
from agentrail.core.vocabulary.inputs import AskSettled, StreamCut, ToolRaised, ToolStopped
from agentrail.core.vocabulary.state import AskedBy, Steering
from agentrail.core.vocabulary.tool_calls import CallStatus, DetachedCall
from agentrail.errors import QueueFull, SteeringQueueFull, UsageError
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    AgentResumed,
    ApprovalResolved,
    AskAnswered,
    Intervention,
    PromptQueued,
    RequestStart,
    ResponseComplete,
    SteeringApplied,
    SteeringReceived,
    ToolSkippedForSteering,
)
from agentrail.models import Failure, FailureKind, Origin, Partial, Text
from agentrail.plugins import Answered, CallService, Hook
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import EDIT, LOOK, NOW, Bench, Now, call, plug, ruled, with_call
from tests.cells.scenes import (
    cut,
    cut_off,
    executing,
    failed,
    holds,
    idle,
    out,
    path,
    ran,
    replied,
    request,
    result,
    run,
    running,
    start,
    starts,
    streaming,
    turn,
    unknown,
    user_message,
)
from tests.kit import DONE, NOTHING_USED, AbortSent, Phase, Refused, SteerSent

STEERED = "the user has said something new"


def steer(bench: Bench, text: str = "rather this", when: str = "gap", partial: Partial = NOTHING_YET) -> None:
    bench.send(SteerSent(text, when, partial))


def test_the_fourth_text_is_refused() -> None:
    bench = streaming()
    for _ in range(3):
        steer(bench)
    bench.send(SteerSent("a fourth")).expect_only(
        answer=Refused.of(SteeringQueueFull(3)),
        ids=1,
        events=[SteeringReceived("s6", "a fourth", "rejected_full")],
    )


def test_the_prompt_behind_a_hundred_is_refused() -> None:
    bench = streaming()
    for number in range(100):
        bench.prompt(str(number))
    assert bench.got[-1].step.answer == Accepted("p102", "queued", 100)
    bench.prompt("one more").expect_only(answer=Refused.of(QueueFull(100)))
    bench.send(WithdrawSent("p3"))
    assert bench.prompt("one more").step.answer == Accepted("p103", "queued", 100)


def test_the_texts_that_wait_become_one_message_in_order() -> None:
    bench = streaming()
    steer(bench, "first")
    steer(bench, "second")
    old = bench.state
    answer = replied("that is all")
    new = user_message("first\n\nsecond", Origin.STEERING)
    bench.answers("that is all").expect_only(
        ids=1,
        events=[
            ResponseComplete(answer),
            Now(1, 2),
            SteeringApplied(("s3", "s4"), 2),
            RequestStart("r5", "m", 3, 1),
        ],
        effects=[request(old, "r5", answer, new)],
        rulings=ruled("after_response", "before_request"),
        phase=Phase.RUNNING,
        round=2,
        steering=(),
        last_text="that is all",
        request=out("r5"),
        history=old.history.and_(answer, new),
    )


def test_steering_that_comes_while_before_finish_waits_prolongs_the_turn() -> None:
    asks = plug("A", before_finish=lambda hook, _s, _c: Ask(CallService("x")) if hook.answer is None else Continue())
    bench = streaming(asks)
    bench.answers("that is all")
    steer(bench)
    bench.send(AskSettled("ask3", Answered(None)))
    assert bench.got[-1].events[-1] == RequestStart("r5", "m", 3, 1)
    assert bench.state.history[-1] == user_message("rather this", Origin.STEERING)


def test_at_the_round_limit_steering_goes_to_the_front_of_the_prompts() -> None:
    bench = streaming(options=Options(max_rounds=1))
    bench.prompt("later")
    steer(bench, "first")
    steer(bench, "second")
    old = bench.state
    answer = replied("that is all")
    history = old.history.and_(answer)
    bench.answers("that is all").expect_only(
        ids=1,
        events=[
            ResponseComplete(answer),
            AgentEnd("p1", "max_rounds", tuple(history), NOTHING_USED),
            *starts("s4", "r6", "first", turns=2, messages=3),
        ],
        effects=[request(old, "r6", answer, user_message("first"), may_call=False)],
        rulings=ruled("after_response", "before_finish", "after_turn", "before_prompt", "before_request"),
        phase=Phase.RUNNING,
        turn_count=2,
        turn=turn("s4", mark=2),
        steering=(),
        queue=(Prompt("s5", (Text("second"),)), Prompt("p3", (Text("later"),))),
        last_text="that is all",
        request=out("r6"),
        history=history.and_(user_message("first")),
    )


def test_steering_now_at_the_round_limit_waits_for_the_gap() -> None:
    bench = streaming(options=Options(max_rounds=1))
    bench.send(SteerSent("rather this", "now", Partial("so far")))
    assert bench.state.phase is Phase.STREAMING
    assert bench.got[-1].step.effects == ()


def test_steering_after_the_end_goes_to_the_front_of_the_prompts() -> None:
    asks = plug("A", after_turn=lambda hook, _s, _c: Ask(CallService("x")) if hook.answer is None else Continue())
    bench = streaming(asks)
    bench.prompt("later")
    bench.answers("that is all")
    steer(bench)
    bench.send(AskSettled("ask4", Answered(None)))
    assert [prompt.text for prompt in bench.state.queue] == ["later"]
    assert bench.state.history[-1] == user_message("rather this")


def test_steering_from_before_and_after_the_end_goes_to_the_front_of_the_prompts_in_order() -> None:
    asks = plug("A", after_turn=lambda hook, _s, _c: Ask(CallService("x")) if hook.answer is None else Continue())
    bench = streaming(asks, options=Options(max_rounds=1))
    bench.prompt("later")
    steer(bench, "first")
    bench.answers("that is all")
    steer(bench, "second")
    bench.send(AskSettled(bench.state.suspended_runs[0].ask_id, Answered(None)))
    assert bench.state.history[-1] == user_message("first")
    assert [prompt.text for prompt in bench.state.queue] == ["second", "later"]


def test_an_abort_behind_the_end_drops_steering_too() -> None:
    bench = streaming(plug("A", after_turn=Ask(CallService("x"))), options=Options(max_rounds=1))
    steer(bench, "first")
    bench.answers("that is all")
    steer(bench, "second")
    bench.send(AbortSent()).expect_only(
        answer=DONE,
        events=[
            AskAnswered("ask4", "A", "dropped"),
            SteeringReceived("s3", "first", "dropped"),
            SteeringReceived("s5", "second", "dropped"),
            AgentAbort(None, "user"),
        ],
        effects=[ClearTimer("ask:ask4"), CancelAsk("ask4")],
        phase=Phase.IDLE,
        round=0,
        turn=None,
        steering=(),
        suspended_runs=(),
    )


def test_an_abort_drops_steering_and_says_so() -> None:
    bench = streaming()
    steer(bench)
    old = bench.state
    bench.send(AbortSent(partial=Partial("so far"))).expect_only(
        answer=DONE,
        events=[SteeringReceived("s3", "rather this", "dropped"), AgentAbort("p1", "user")],
        effects=[cut("r2")],
        rulings=ruled("after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        steering=(),
        request=None,
        history=old.history.and_(cut_off()),
    )


def test_steering_now_ends_a_back_off() -> None:
    bench = running()
    bench.send(StreamCut("r2", NOTHING_YET, Failure(FailureKind.TRANSIENT, "Busy", "try later")), random=1.0)
    old = bench.state
    new = user_message("rather this", Origin.STEERING)
    bench.send(SteerSent("rather this", "now")).expect_only(
        answer=Accepted("s3", "queued", 1),
        ids=2,
        events=[
            SteeringReceived("s3", "rather this", "queued"),
            AgentResumed("steering"),
            Now(1, 2),
            SteeringApplied(("s3",), 1),
            RequestStart("r4", "m", 2, 1),
        ],
        effects=[ClearTimer("retry"), request(old, "r4", new)],
        rulings=ruled("before_steering", "before_request"),
        round=2,
        turn=turn(),
        request=out("r4"),
        history=old.history.and_(new),
    )


# While tools run


def test_immune_calls_finish_first_and_all_others_are_skipped() -> None:
    options = Options(max_parallel_tools=2)
    bench = executing(call("keep"), call("edit", path="a"), call("look", path="a"), options=options)
    assert bench.call("c5").status is CallStatus.READY
    old = bench.state
    assert old.batch is not None
    killed = failed("c4", "edit", f"stopped, because {STEERED}; {doubt(EDIT)}")
    skipped = failed("c5", "look", f"skipped, because {STEERED}; it did not run")
    batch = with_call(old.batch, bench.call("c4").but(status=CallStatus.DONE, result=killed))
    batch = with_call(batch, bench.call("c5").but(status=CallStatus.DONE, result=skipped))
    got = bench.send(SteerSent("rather this"))
    assert got.step.state.steering[0].text == "rather this"
    got.expect_only(
        answer=Accepted("s6", "queued", 1),
        ids=1,
        events=[
            SteeringReceived("s6", "rather this", "queued"),
            ToolSkippedForSteering("c4", "edit"),
            ToolSkippedForSteering("c5", "look"),
        ],
        effects=[CancelCalls(("c4",)), SetTimer("grace", NOW + 250), ClearTimer("call:c4")],
        rulings=ruled("before_steering"),
        batch=batch,
        steering=got.step.state.steering,
        quarantined_calls=(DetachedCall("c4", "edit", NOW, NOW, writes=True),),
        in_doubt_calls=(unknown("c4", "edit", path()),),
    )
    old = bench.state
    new = user_message("rather this", Origin.STEERING)
    results = (result("c3", "keep"), killed, skipped)
    bench.returns("c3").expect_only(
        ids=1,
        events=[*ran("c3", "keep"), Now(1, 2), SteeringApplied(("s6",), 1), RequestStart("r7", "m", 6, 1)],
        effects=[ClearTimer("call:c3"), request(old, "r7", *results, new)],
        rulings=ruled("after_tool", "after_tool_batch", "before_request"),
        phase=Phase.RUNNING,
        round=2,
        batch=None,
        steering=(),
        request=out("r7"),
        history=old.history.and_(*results, new),
    )


def test_a_held_call_of_the_batch_is_superseded() -> None:
    bench = executing(call("keep"), call("edit", path="a"), plugins=(holds("edit", timeout=120.0),))
    bench.send(SteerSent("rather this"))
    assert bench.got[-1].events[1] == ApprovalResolved("s:a5", "c4", "edit", "superseded")
    assert bench.got[-1].step.effects == (ClearTimer("hold:s:a5"),)
    assert bench.call("c4").result == failed("c4", "edit", "superseded by a new message of the user")


def test_a_call_that_failed_and_would_run_again_is_skipped() -> None:
    bench = executing(call("look", path="a"), call("keep"), plugins=(plug("A", on_tool_error=Ask(CallService("x"))),))
    bench.send(ToolRaised("c3", 1, "OSError"))
    bench.send(SteerSent("rather this"))
    text = f"skipped, because {STEERED}; it had failed and was to run again; {doubt(LOOK)}"
    assert bench.call("c3").result == failed("c3", "look", text)
    assert bench.state.suspended_runs == ()


def test_what_a_plugin_adds_or_refuses_is_its_own_text_only() -> None:
    def answer(hook: Hook, _s: object, _c: object) -> object:
        text = getattr(hook, "text", "")
        return Abort("no") if text == "bad" else Intervene("note") if text == "good" else Continue()

    bench = streaming(plug("A", before_steering=answer))
    for text in ("plain", "bad", "good"):
        steer(bench, text)
    assert [text.text for text in bench.state.steering] == ["plain", "good\n\nnote"]
    assert Intervention("note", "before_steering") in bench.got[-1].events


# Work that was cancelled, and the next round


def test_a_file_tool_of_the_next_round_waits_for_a_cancelled_one_at_most_its_grace() -> None:
    for ends in (True, False):
        bench = executing(call("edit", path="a"))
        steer(bench)
        bench.answers("", call("edit", path="b"), call("look", path="b"))
        assert bench.got[-1].step.effects[-1] == start("c7", "look", path("b"))
        assert bench.call("c6").status is CallStatus.READY
        if ends:
            bench.send(ToolStopped("c3", 1))
        else:
            bench.fires("grace")
        assert run("c6", "edit", path("b")) in bench.got[-1].events


def test_a_steering_text_is_one_prompt_in_an_idle_session() -> None:
    bench = idle()
    bench.send(SteerSent("hello", "now"))
    assert bench.got[-1].step.answer == Accepted("p1", "started")
    assert PromptQueued("p1", "hello", 1) not in bench.got[-1].events


# Messages, which stop nothing


def message(bench: Bench, text: str = "and this") -> None:
    bench.send(SteerSent(text, "now", message=True, asked_by=("alice",)))


def test_a_message_waits_for_the_next_request_and_stops_no_call() -> None:
    bench = executing(call("edit", path="a"))
    waiting = Steering("s4", "and this", AskedBy(("alice",)))
    bench.send(SteerSent("and this", "now", message=True, asked_by=("alice",))).expect_only(
        answer=Accepted("s4", "queued", 1),
        ids=1,
        events=[SteeringReceived("s4", "and this", "queued")],
        rulings=ruled("before_steering"),
        steering=(waiting,),
    )
    bench.returns("c3")
    assert SteeringApplied(("s4",), 1) in bench.got[-1].events
    assert bench.state.asked_by == ("alice",)


def test_a_message_cuts_neither_a_stream_nor_the_pause_before_a_retry() -> None:
    for bench in (streaming(), running()):
        phase = bench.state.phase
        message(bench)
        assert bench.got[-1].step.effects == ()
        assert bench.state.phase is phase
        assert [text.text for text in bench.state.steering] == ["and this"]


def test_a_message_waits_with_a_turn_that_waits_for_a_person() -> None:
    bench = executing(call("edit", path="a"), plugins=(holds("edit", timeout=120.0),))
    assert bench.state.resting
    message(bench)
    assert bench.state.resting
    assert [held.call_id for held in bench.state.waiting_calls] == ["c3"]
    assert [text.text for text in bench.state.steering] == ["and this"]


def test_a_message_that_comes_when_the_task_is_done_is_refused() -> None:
    bench = idle()
    old = bench.state
    message(bench)
    assert bench.got[-1].step.answer == Refused.of(UsageError("task-done", old.session_id))
    assert bench.state == old


def test_a_message_during_the_last_hook_of_a_turn_is_refused() -> None:
    bench = streaming(plug("A", after_turn=Ask(CallService("x"))))
    bench.answers("that is all")
    assert bench.state.turn is not None
    assert bench.state.turn.ended == "finished"
    message(bench)
    assert bench.got[-1].step.answer == Refused.of(UsageError("task-done", bench.state.session_id))


def test_a_message_while_the_prompt_is_taken_joins_its_turn() -> None:
    bench = idle(plug("A", before_prompt=Ask(CallService("x"))))
    bench.prompt("hello")
    assert bench.state.next_prompt is not None
    message(bench)
    assert [text.text for text in bench.state.steering] == ["and this"]


def test_a_plugin_rules_on_a_message_too() -> None:
    bench = streaming(plug("A", before_steering=Abort("no")))
    message(bench)
    assert bench.got[-1].events == [SteeringReceived("s3", "and this", "rejected_plugin", "no")]
    assert bench.state.steering == ()
