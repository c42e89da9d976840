"""Tools that fail: they raise, are unknown, get wrong arguments, repeat themselves, or take too long."""

from agentrail import Abort, Continue, Options
from agentrail.core.machine.tool_results import doubt
from agentrail.core.vocabulary.commands import ChangeToolsSent, RespondSent
from agentrail.core.vocabulary.effects import CancelCalls, ClearTimer, SetTimer
from agentrail.core.vocabulary.inputs import StreamCut, StreamEnded, ToolRaised, ToolStopped
from agentrail.core.vocabulary.tool_calls import CallStatus, DetachedCall
from agentrail.errors import RefusedError
from agentrail.events import (
    AgentAbort,
    AgentEnd,
    LoopDetected,
    RequestStart,
    ResponseComplete,
    ToolAbandoned,
    ToolCalls,
    ToolCallUnknown,
    ToolKilled,
)
from agentrail.models import Failure, FailureKind, FrozenObject, JsonObject, ToolCall, ToolMessage
from agentrail.plugins import Hook
from agentrail.tools import AskPerson, Effect, Err, ToolSpec, err, ok
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import EDIT, KEEP, LOOK, NOW, SOLO, STORE, Bench, Now, call, plug, response, ruled, with_call
from tests.cells.scenes import (
    executing,
    failed,
    holds,
    limit,
    out,
    path,
    ran,
    replied,
    request,
    resting,
    result,
    run,
    start,
    streaming,
    turn,
    unknown,
    user_message,
)
from tests.kit import NOTHING_USED, AbortSent, ApproveSent, Phase, Refused, Ruling, ToolReturned, Verdict


def raised(call_id: str = "c3", attempt: int = 1) -> ToolRaised:
    return ToolRaised(call_id, attempt, "OSError: no disk")


def final(spec: ToolSpec) -> Err:
    return err(f"the tool failed: OSError: no disk; {doubt(spec)}")


def next_request(bench: Bench, before_call: int, *results: ToolMessage) -> None:
    """Check that the last step ended the batch with *results* and sent the next request."""
    assert tuple(bench.state.history)[before_call:] == results
    assert isinstance(bench.got[-1].events[-1], RequestStart)


# Tools that raise


def test_a_tool_that_can_run_again_is_run_three_times() -> None:
    for spec in (LOOK, STORE):
        bench = executing(call(spec.name, path="a"))
        for attempt in (1, 2):
            old = bench.state
            assert old.batch is not None
            again = bench.call("c3").but(attempt=attempt + 1, error="OSError: no disk")
            bench.send(raised(attempt=attempt), after=10).expect_only(
                events=[run("c3", spec.name, path(), attempt + 1)],
                effects=[
                    ClearTimer("call:c3"),
                    limit("c3", bench.now),
                    start("c3", spec.name, path(), attempt + 1),
                ],
                rulings=ruled("on_tool_error"),
                batch=with_call(old.batch, again),
            )
        old = bench.state
        reported_failure = failed("c3", spec.name, f"the tool failed: OSError: no disk; {doubt(spec)}")
        bench.send(raised(attempt=3), after=10).expect_only(
            ids=1,
            events=[*ran("c3", spec.name, final(spec), at_ms=bench.now), Now(1, 2), RequestStart("r4", "m", 3, 1)],
            effects=[ClearTimer("call:c3"), request(old, "r4", reported_failure)],
            rulings=ruled("after_tool", "after_tool_batch", "before_request"),
            phase=Phase.RUNNING,
            round=2,
            batch=None,
            history=old.history.and_(reported_failure),
            request=out("r4"),
        )


def test_a_tool_that_may_have_taken_effect_is_not_run_again() -> None:
    for spec in (EDIT, SOLO, KEEP):
        bench = executing(call(spec.name, path="a"))
        old = bench.state
        reported_failure = failed("c3", spec.name, f"the tool failed: OSError: no disk; {doubt(spec)}")
        bench.send(raised()).expect_only(
            ids=1,
            events=[*ran("c3", spec.name, final(spec)), Now(1, 2), RequestStart("r4", "m", 3, 1)],
            effects=[ClearTimer("call:c3"), request(old, "r4", reported_failure)],
            rulings=ruled("after_tool", "after_tool_batch", "before_request"),
            phase=Phase.RUNNING,
            round=2,
            batch=None,
            history=old.history.and_(reported_failure),
            request=out("r4"),
        )


def test_on_tool_error_runs_before_each_retry_and_after_tool_once() -> None:
    seen: list[object] = []

    def note(hook: Hook, _state: object, _ctx: object) -> object:
        seen.append((hook.hook_name, getattr(hook, "attempt", None), getattr(hook, "result", None)))
        return Continue()

    bench = executing(plugins=(plug(on_tool_error=note, after_tool=note),))
    for attempt in (1, 2, 3):
        bench.send(raised(attempt=attempt))
    assert seen == [
        ("on_tool_error", 1, None),
        ("on_tool_error", 2, None),
        ("after_tool", None, final(LOOK)),
    ]


def test_what_a_result_says_depends_on_the_effect_class() -> None:
    assert [doubt(spec) for spec in (LOOK, STORE, SOLO, EDIT, None)] == [
        "it only reads, so it can be called again",
        "it can safely be called again",
        "it may have taken effect; check before calling it again",
        "it may have taken effect; find out before calling it again",
        "it may have taken effect; find out before calling it again",
    ]


def test_an_error_result_is_no_failure_and_is_not_retried() -> None:
    bench = executing()
    bench.returns("c3", err("no such file"))
    next_request(bench, 2, failed("c3", "look", "no such file"))


# Unknown tools, and tools that are gone


def test_an_unknown_tool_is_answered_with_the_tools_there_are() -> None:
    bench = streaming()
    old = bench.state
    reported_failure = failed(
        "c3", "jump", "there is no tool `jump`; the tools are: `look`, `edit`, `keep`, `solo`, `store`"
    )
    asks = replied("", ToolCall("c3", "jump"))
    bench.answers("", call("jump")).expect_only(
        ids=2,
        events=[
            ResponseComplete(asks),
            ToolCalls(1),
            ToolCallUnknown("c3", "jump"),
            Now(1, 2),
            RequestStart("r4", "m", 3, 1),
        ],
        effects=[request(old, "r4", asks, reported_failure)],
        rulings=ruled("after_response", "after_tool_batch", "before_request"),
        phase=Phase.RUNNING,
        round=2,
        last_text="",
        history=old.history.and_(asks, reported_failure),
        request=out("r4"),
    )


def test_calls_in_flight_finish_when_their_tool_is_detached() -> None:
    bench = executing(call("look", path="a"))
    bench.send(ChangeToolsSent(detach=("look",), revision=1))
    bench.returns("c3")
    next_request(bench, 2, result("c3", "look"))


def test_a_call_that_waits_for_its_turn_does_not_run_when_its_tool_is_gone_or_another() -> None:
    for change, done in (
        (ChangeToolsSent(detach=("store",), revision=1), "detached"),
        (ChangeToolsSent(attach=(STORE,), replace=True, revision=1), "redefined"),
    ):
        bench = executing(call("solo"), call("store"))
        assert bench.call("c4").status is CallStatus.READY
        bench.hook_runner.tool("store", 1, lambda _args, _meter: None)
        bench.send(change)
        bench.returns("c3")
        next_request(
            bench,
            2,
            result("c3", "solo"),
            failed("c4", "store", f"the tool `store` was {done} before the call ran"),
        )


def test_a_held_call_whose_tool_was_detached_cannot_be_approved() -> None:
    bench = resting()
    bench.send(ChangeToolsSent(detach=("edit",), revision=1))
    bench.send(ApproveSent("s:a4")).expect_only(answer=Refused.of(RefusedError("tool-changed", "s:a4", "edit")))


def test_a_held_call_whose_tool_was_redefined_cannot_be_approved() -> None:
    bench = resting()
    bench.send(ChangeToolsSent(attach=(EDIT,), replace=True, revision=1))
    bench.send(ApproveSent("s:a4")).expect_only(answer=Refused.of(RefusedError("tool-changed", "s:a4", "edit")))


# Arguments


def misfit(name: str) -> str:
    return f"the arguments do not fit `{name}`: $.bad: not wanted"


NO_FIT = Ruling("check", Verdict.BLOCK, reason="$.bad: not wanted")


def test_arguments_that_do_not_fit_are_answered_with_what_is_wrong() -> None:
    bench = streaming()
    old = bench.state
    args: JsonObject = FrozenObject(bad=1)
    asks = replied("", ToolCall("c3", "store", args))
    reported_failure = failed("c3", "store", misfit("store"))
    bench.answers("", call("store", bad=1)).expect_only(
        ids=2,
        events=[ResponseComplete(asks), ToolCalls(1), Now(1, 2), RequestStart("r4", "m", 3, 1)],
        effects=[request(old, "r4", asks, reported_failure)],
        rulings=(*ruled("after_response"), NO_FIT, *ruled("after_tool_batch", "before_request")),
        phase=Phase.RUNNING,
        round=2,
        turn=turn(last_call=("store", args), repeats=1),
        last_text="",
        history=old.history.and_(asks, reported_failure),
        request=out("r4"),
    )


# Circles


def repeated(bench: Bench, name: str, times: int, **args: str) -> None:
    """Let the model make the same call in each round; all calls are answered at once, except the last."""
    for time in range(times):
        bench.answers("", call(name, **args))
        if time < times - 1:
            (running,) = (c.call_id for c in bench.state.batch.calls) if bench.state.batch is not None else ("",)
            bench.returns(running)


def test_a_number_and_true_are_two_calls_for_the_search_for_loops() -> None:
    bench = streaming()
    for value in (1, 1.0, True, 1):
        bench.answers("", call("store", bad=value))
    assert not any(isinstance(event, LoopDetected) for got in bench.got for event in got.events)


def test_the_same_call_three_times_in_a_row_is_remarked_on() -> None:
    bench = streaming()
    repeated(bench, "store", 2, value="x")
    assert not any(isinstance(event, LoopDetected) for got in bench.got for event in got.events)
    bench.returns("c5")
    bench.answers("", call("store", value="x"))
    assert LoopDetected("repeat_pattern", "store", 3) in bench.got[-1].events
    bench.returns("c7")
    note = "\n[this is the same call 3 times in a row; try something else]"
    assert bench.state.history[-1].text == f"done{note}"
    bench.answers("", call("store", value="y"), call("store", value="x"))
    assert not any(isinstance(event, LoopDetected) for event in bench.got[-1].events)


def test_the_fifth_call_on_one_subject_is_remarked_on() -> None:
    bench = streaming()
    for time in range(1, 6):
        bench.answers("", call("look", path="a", line=time))
        seen = [event for event in bench.got[-1].events if isinstance(event, LoopDetected)]
        assert seen == ([LoopDetected("file_loop_warn", "look", 5, "a")] if time == 5 else [])
        bench.returns(f"c{2 * time + 1}")
    note = "\n[this is call 5 on a in this turn; are you going in circles?]"
    assert bench.state.history[-1].text == f"done{note}"
    bench.answers("", call("look", path="b"))
    assert not any(isinstance(event, LoopDetected) for event in bench.got[-1].events)


def test_parts_of_one_subject_are_subjects_of_their_own() -> None:
    paged = ToolSpec("page", "reads a piece of a file", subject=("path", "offset"))
    bench = Bench(tools=(paged,))
    bench.prompt()
    bench.begins()
    for time in range(1, 10):
        bench.answers("", call("page", path="a", offset=f"{time}01"))
        assert not any(isinstance(event, LoopDetected) for event in bench.got[-1].events)
        bench.returns(f"c{2 * time + 1}")
    for time in range(10, 14):
        bench.answers("", call("page", path="a", offset="901", limit=str(time)))
        bench.returns(f"c{2 * time + 1}")
    seen = [event for got in bench.got for event in got.events if isinstance(event, LoopDetected)]
    assert seen == [LoopDetected("file_loop_warn", "page", 5, "a, offset 901")]


def test_the_eighth_call_on_one_subject_aborts_the_turn() -> None:
    bench = streaming()
    for time in range(1, 8):
        bench.answers("", call("look", path="a", line=time))
        bench.returns(f"c{2 * time + 1}")
    assert bench.state.phase is Phase.RUNNING
    old = bench.state
    asks = replied("", ToolCall("c17", "look", path()), ToolCall("c18", "store", path()))
    why = "8 calls on a in one turn"
    bench.answers("", call("look", path="a"), call("store", path="a")).expect_only(
        ids=2,
        events=[
            ResponseComplete(asks),
            ToolCalls(2),
            LoopDetected("file_loop_abort", "look", 8, "a"),
            ToolKilled("c17", "look", why),
            ToolKilled("c18", "store", why),
            AgentAbort("p1", "loop", why),
        ],
        rulings=ruled("after_response", "after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        request=None,
        batch=None,
        last_text="",
        history=old.history.and_(
            asks,
            failed("c17", "look", f"aborted before it ran: {why}"),
            failed("c18", "store", f"aborted before it ran: {why}"),
        ),
    )


# The limits of a turn


def test_the_hundredth_request_keeps_its_tools_and_forbids_their_use() -> None:
    bench = streaming()
    for time in range(1, 99):
        bench.answers("", call("store", value=str(time)))
        bench.returns(f"c{2 * time + 1}")
    assert _may_call(bench)
    bench.answers("", call("store"))
    old = bench.state
    bench.returns("c199")
    done = result("c199", "store")
    assert bench.state.round == 100
    assert bench.got[-1].step.effects[-1] == request(old, "r200", done, may_call=False)
    assert bench.got[-1].step.effects[-1] != request(old, "r200", done)


def _may_call(bench: Bench) -> bool:
    value: object = bench.got[-1].step.effects[-1]
    may: bool = getattr(value, "request").may_call  # noqa: B009 - the request of its effect
    return may


def test_calls_that_come_anyway_get_error_results_and_the_turn_ends() -> None:
    bench = streaming(options=Options(max_rounds=1))
    old = bench.state
    asks = replied("", ToolCall("c3", "look", path()))
    reported_failure = failed(
        "c3", "look", "no more tools may be called in this turn: it has reached its limit; answer without them"
    )
    bench.answers("", call("look", path="a")).expect_only(
        ids=1,
        events=[
            ResponseComplete(asks),
            ToolCalls(1),
            AgentEnd("p1", "max_rounds", (user_message(), asks, reported_failure), NOTHING_USED),
        ],
        rulings=ruled("after_response", "after_tool_batch", "after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        request=None,
        last_text="",
        history=old.history.and_(asks, reported_failure),
    )


def test_an_answer_at_the_limit_ends_the_turn_as_max_rounds() -> None:
    bench = streaming(options=Options(max_rounds=1))
    bench.answers("that is all")
    assert bench.got[-1].events[-1] == AgentEnd(
        "p1", "max_rounds", (user_message(), replied("that is all")), NOTHING_USED
    )


def test_a_turn_that_takes_too_long_is_aborted() -> None:
    assert Options().max_turn_seconds is None
    bench = executing(call("edit", path="a"), options=Options(max_turn_seconds=90.0))
    assert bench.got[1].step.effects[0] == SetTimer("turn", NOW + 90_000)
    old = bench.state
    why = "the turn took longer than 90 s"
    bench.fires("turn").expect_only(
        events=[ToolKilled("c3", "edit", why), AgentAbort("p1", "deadline", why)],
        effects=[CancelCalls(("c3",)), SetTimer("grace", bench.now + 250), ClearTimer("call:c3")],
        rulings=ruled("after_turn"),
        phase=Phase.IDLE,
        round=0,
        turn=None,
        batch=None,
        history=old.history.and_(failed("c3", "edit", f"stopped: {why}; {doubt(EDIT)}")),
        quarantined_calls=(DetachedCall("c3", "edit", bench.now, NOW, writes=True),),
        in_doubt_calls=(unknown("c3", "edit", path()),),
    )


def test_the_time_in_which_a_turn_rests_does_not_count() -> None:
    bench = streaming(holds("edit", timeout=None), options=Options(max_turn_seconds=90.0))
    bench.send(StreamEnded("r2", response("", call("edit", path="a"))), after=30_000)
    assert bench.state.phase is Phase.IDLE
    assert bench.got[-1].step.effects[-1] == ClearTimer("turn")
    assert bench.state.turn is not None
    assert bench.state.turn.deadline_left == 60_000
    bench.send(ApproveSent("s:a4"), after=500_000)
    assert SetTimer("turn", bench.now + 60_000) in bench.got[-1].step.effects
    assert bench.state.turn.deadline_left is None


def test_the_limit_of_a_turn_goes_with_the_turn() -> None:
    bench = streaming(options=Options(max_turn_seconds=90.0))
    bench.send(StreamCut("r2", NOTHING_YET, Failure(FailureKind.PERMANENT, "NotFound", "no such model")))
    assert bench.got[-1].step.effects == (ClearTimer("turn"),)
    assert bench.state.timers == ()

    no = plug("No", after_tool=Abort("enough"))
    bench = executing(call("keep"), plugins=(no,), options=Options(max_turn_seconds=90.0))
    bench.returns("c3", Effect(AskPerson("which?", ("this", "that"))))
    bench.send(RespondSent("s:q4", "that"))
    assert bench.got[-1].step.effects == (SetTimer("turn", bench.now + 90_000), ClearTimer("turn"))
    assert bench.state.timers == ()


# Work that outlives its call


def test_what_lives_longer_than_its_grace_is_reported_once() -> None:
    bench = executing(call("edit", path="a"), call("store"))
    bench.send(AbortSent())
    detached = DetachedCall("c3", "edit", NOW, NOW, writes=True)
    assert bench.state.timers == (("grace", NOW + 250),)
    bench.send(ToolStopped("c4", 1)).expect_only(quarantined_calls=(detached,))
    bench.fires("grace").expect_only(
        events=[ToolAbandoned("c3", "edit")], quarantined_calls=(detached.but(reported=True),)
    )
    bench.send(ToolStopped("c3", 1)).expect_only(quarantined_calls=())


def test_a_call_that_runs_too_long_gets_its_result_and_is_cancelled() -> None:
    bench = executing(call("edit", path="a"))
    old = bench.state
    report = err(f"stopped after 60 s, the tool's limit; {doubt(EDIT)}")
    bench.fires("call:c3").expect_only(
        ids=1,
        events=[*ran("c3", "edit", report, at_ms=bench.now), Now(1, 2), RequestStart("r4", "m", 3, 1)],
        effects=[
            CancelCalls(("c3",)),
            SetTimer("grace", bench.now + 250),
            request(old, "r4", failed("c3", "edit", report.content[0].text)),  # type: ignore[union-attr]  # text
        ],
        rulings=ruled("after_tool", "after_tool_batch", "before_request"),
        phase=Phase.RUNNING,
        round=2,
        batch=None,
        history=bench.state.history,
        request=out("r4"),
        quarantined_calls=(DetachedCall("c3", "edit", bench.now, NOW, writes=True),),
        in_doubt_calls=(unknown("c3", "edit", path()),),
    )
    bench.send(ToolReturned("c3", 1, ok("late"))).expect_only(effects=[ClearTimer("grace")], quarantined_calls=())


def test_a_call_that_stops_by_itself_as_cancelled_has_failed() -> None:
    bench = executing(call("edit", path="a"))
    bench.send(ToolStopped("c3", 1))
    next_request(bench, 2, failed("c3", "edit", f"the call was cancelled; {doubt(EDIT)}"))
