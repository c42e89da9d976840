"""Tools that go while calls wait, calls that are made again and again, and the rounds and the time of a turn."""

from agentrail import Abort, Options
from agentrail.core.vocabulary.commands import ChangeToolsSent, RespondSent
from agentrail.core.vocabulary.effects import ClearTimer, SetTimer
from agentrail.core.vocabulary.inputs import StreamCut, StreamEnded
from agentrail.core.vocabulary.tool_calls import CallStatus
from agentrail.errors import RefusedError
from agentrail.events import (
    AgentEnd,
    LoopDetected,
)
from agentrail.models import Failure, FailureKind
from agentrail.tools import AskPerson, Effect, ToolSpec
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import EDIT, STORE, Bench, call, plug, response
from tests.cells.scenes import (
    executing,
    failed,
    holds,
    replied,
    resting,
    result,
    streaming,
    user_message,
)
from tests.kit import NOTHING_USED, ApproveSent, Phase, Refused


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
        refusal = failed("c4", "store", f"the tool `store` was {done} before the call ran")
        assert tuple(bench.state.history)[2:] == (result("c3", "solo"), refusal)


def test_a_held_call_whose_tool_was_detached_cannot_be_approved() -> None:
    bench = resting()
    bench.send(ChangeToolsSent(detach=("edit",), revision=1))
    bench.send(ApproveSent("s:a4")).expect_only(answer=Refused.of(RefusedError("tool-changed", "s:a4", "edit")))


def test_a_held_call_whose_tool_was_redefined_cannot_be_approved() -> None:
    bench = resting()
    bench.send(ChangeToolsSent(attach=(EDIT,), replace=True, revision=1))
    bench.send(ApproveSent("s:a4")).expect_only(answer=Refused.of(RefusedError("tool-changed", "s:a4", "edit")))


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


def test_an_answer_at_the_limit_ends_the_turn_as_max_rounds() -> None:
    bench = streaming(options=Options(max_rounds=1))
    bench.answers("that is all")
    assert bench.got[-1].events[-1] == AgentEnd(
        "p1", "max_rounds", (user_message(), replied("that is all")), NOTHING_USED
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
