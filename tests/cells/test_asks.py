"""Ask: how a plugin, which is pure, has something looked up or done."""

from collections.abc import Mapping
from typing import Final, cast

import pytest

from agentrail import (
    Accepted,
    Action,
    Ask,
    Context,
    Continue,
    Emit,
    Intervene,
    Options,
    ReplaceMessages,
    ReplaceToolArgs,
    ReplaceToolResult,
)
from agentrail.core.vocabulary.effects import CancelAsk, CancelRequest, CarryOut, ClearTimer, CloseSession
from agentrail.core.vocabulary.inputs import AskSettled, ToolRaised
from agentrail.core.vocabulary.state import AttachedTool, Steering
from agentrail.core.vocabulary.tool_calls import CallStatus
from agentrail.errors import BrokenPlugin
from agentrail.events import (
    AgentAbort,
    AskAnswered,
    AskStarted,
    PluginError,
    PluginEvent,
    PromptRejected,
    SessionEnded,
    SteeringReceived,
    ToolAttached,
    ToolsUpdated,
)
from agentrail.hooks.ruling import Decisions, Pause, Position
from agentrail.models import Origin, Usage
from agentrail.plugins import (
    MATRIX,
    Answered,
    AnyPlugin,
    BroughtTools,
    CallModel,
    CallService,
    ChangeTools,
    Failed,
    Hook,
    TimedOut,
)
from agentrail.tools import ToolSpec, ok
from agentrail.values.messages import Rearranged
from tests.cells.bench import NOW, Bench, Now, call, plug, ruled, with_call
from tests.cells.hook_cells import HOOK_CELLS
from tests.cells.scenes import executing, limit, out, path, result, run, running, start, starts, streaming, user_message
from tests.each_case import each_case
from tests.kit import DONE, AbortSent, AnyInput, CompactSent, Phase, Ruling, SteerSent, StopSent, TimerFired, Verdict

LOOKUP: Final = CallService("lookup")
REPLACED: Final[Mapping[str, tuple[Action[object], str]]] = {
    "before_request": (ReplaceMessages((user_message("other"),)), "messages"),
    "before_compact": (ReplaceMessages((user_message("other"),)), "messages"),
    "before_tool": (ReplaceToolArgs(path("b")), "args"),
    "after_tool": (ReplaceToolResult(ok("other")), "result"),
}
"""By hook: an action that replaces something, and the replaced field, which action and hook call by the same name."""


def asks(hook: str = "before_prompt", seen: list[tuple[Hook, object]] | None = None, **more: object) -> AnyPlugin:
    """Return a plugin that asks once at *hook*, counts its answers in its state, and notes what it sees."""

    def answer(asked_hook: Hook, state: object, _ctx: Context) -> object:
        if seen is not None:
            seen.append((asked_hook, state))
        count = state + 1 if isinstance(state, int) else 1
        return Ask(LOOKUP, count) if asked_hook.answer is None else Continue(count)

    return plug("Asks", first=0, **{hook: answer, **more})  # type: ignore[arg-type]  # hooks


def notes(hook: str, seen: list[tuple[Hook, object]]) -> AnyPlugin:
    """Return a plugin that notes what it sees at *hook*."""

    def answer(asked_hook: Hook, state: object, _ctx: Context) -> object:
        seen.append((asked_hook, state))
        return Continue()

    return plug("Notes", **{hook: answer})  # type: ignore[arg-type]  # a hook


def asks_about(call_id: str, hook: str) -> AnyPlugin:
    """Return a plugin that asks about one call at *hook*."""

    def answer(asked_hook: Hook, _state: object, _ctx: Context) -> object:
        return Ask(LOOKUP) if getattr(asked_hook, "call_id", None) == call_id else Continue()

    return plug("Asks", **{hook: answer})  # type: ignore[arg-type]  # a hook


def test_the_plugins_behind_the_asker_are_asked_when_it_has_its_answer() -> None:
    seen: list[tuple[Hook, object]] = []
    order: list[str] = []

    def note(name: str) -> AnyPlugin:
        def answer(_hook: Hook, _state: object, _ctx: Context) -> object:
            order.append(name)
            return Intervene(name)

        return plug(name, before_prompt=answer)

    bench = Bench(note("A"), asks(seen=seen), note("B"))
    bench.prompt()
    assert order == ["A"]
    bench.send(AskSettled("ask2", Answered({"found": 1}), Usage(7, 1)))
    assert order == ["A", "B"]
    assert [(hook.asked, hook.answer, state) for hook, state in seen] == [
        (None, None, 0),
        (LOOKUP, Answered({"found": 1}), 1),
    ]
    got = bench.got[-1]
    decisions = Decisions(texts=("A", "B"), asks=(("Asks", 1),))
    assert got.rulings[0] == Ruling("before_prompt", decisions=decisions, states=((1, 2),))
    assert bench.state.usage == Usage(7, 1)
    assert bench.state.turn is not None
    assert bench.state.turn.used == Usage(7, 1)


def test_the_asker_gets_its_state_of_now_not_that_of_when_it_asked() -> None:
    seen: list[tuple[Hook, object]] = []
    bench = streaming(asks("before_tool", seen))
    bench.answers("", call("look", path="a"), call("store"))
    assert [state for _, state in seen] == [0, 1]
    bench.send(AskSettled("ask5", Answered(None)))
    bench.send(AskSettled("ask6", Answered(None)))
    assert [(hook.answer, state) for hook, state in seen[2:]] == [(Answered(None), 2), (Answered(None), 3)]


def test_calls_are_asked_about_side_by_side() -> None:
    bench = streaming(asks("before_tool"))
    bench.answers("", call("look", path="a"), call("store"))
    assert [waiting.ref for waiting in bench.state.suspended_runs] == ["c3", "c4"]
    bench.send(AskSettled("ask6", Answered(None)))
    got = bench.got[-1]
    assert got.events == [AskAnswered("ask6", "Asks", "ok"), run("c4", "store", {})]
    assert [waiting.ref for waiting in bench.state.suspended_runs] == ["c3"]
    bench.send(AskSettled("ask5", Answered(None)))
    assert bench.got[-1].events == [AskAnswered("ask5", "Asks", "ok"), run("c3", "look", path())]


def test_a_hook_of_another_kind_waits_until_the_suspended_one_is_done() -> None:
    order: list[str] = []

    def note(hook: Hook, _s: object, _c: object) -> object:
        order.append(f"{hook.hook_name} {getattr(hook, 'call_id', '')}".strip())
        return Continue()

    noting = plug("Notes", after_tool=note, after_tool_batch=note, before_request=note, before_steering=note)
    bench = executing(call("look", path="a"), call("store"), plugins=(asks("after_tool"), noting))
    del order[:]
    bench.returns("c3")
    bench.returns("c4")
    assert order == []
    bench.send(AskSettled("ask6", Answered(None)))
    assert order == ["after_tool c4"]
    bench.send(AskSettled("ask5", Answered(None)))
    assert order == ["after_tool c4", "after_tool c3", "after_tool_batch", "before_request"]


def test_hooks_that_cannot_ask_do_not_wait() -> None:
    bench = Bench(asks("before_request"))
    bench.prompt()
    bench.send(SteerSent("rather this")).expect_only(
        answer=Accepted("s3", "queued", 1),
        ids=1,
        events=[SteeringReceived("s3", "rather this", "queued")],
        rulings=ruled("before_steering"),
        steering=(Steering("s3", "rather this"),),
    )
    bench.send(AskSettled("ask2", Answered(None)))
    assert bench.state.steering == (Steering("s3", "rather this"),)


def test_failures_of_several_calls_are_asked_about_side_by_side() -> None:
    bench = executing(call("look", path="a"), call("look", path="b"), plugins=(asks("on_tool_error"),))
    bench.send(ToolRaised("c3", 1, "OSError: no"))
    bench.send(ToolRaised("c4", 1, "OSError: no"))
    assert [waiting.ref for waiting in bench.state.suspended_runs] == ["c3", "c4"]
    old = bench.state
    assert old.batch is not None
    again = bench.call("c4").but(status=CallStatus.RUNNING, attempt=2)
    bench.send(AskSettled("ask6", Answered(None))).expect_only(
        events=[AskAnswered("ask6", "Asks", "ok"), run("c4", "look", path("b"), 2)],
        effects=[ClearTimer("ask:ask6"), limit("c4"), start("c4", "look", path("b"), 2)],
        rulings=(Ruling("on_tool_error", decisions=Decisions(asks=(("Asks", 1),)), states=((0, 3),)),),
        plugin_states=(3,),
        suspended_runs=old.suspended_runs[:1],
        batch=with_call(old.batch, again),
    )


def test_a_call_that_is_asked_about_holds_back_no_other_that_failed() -> None:
    bench = executing(call("look", path="a"), call("look", path="b"), plugins=(asks_about("c3", "on_tool_error"),))
    bench.send(ToolRaised("c3", 1, "OSError: no"))
    bench.send(ToolRaised("c4", 1, "OSError: no"))
    assert bench.got[-1].step.effects[-1] == start("c4", "look", path("b"), 2)
    assert [waiting.ref for waiting in bench.state.suspended_runs] == ["c3"]


def test_a_call_starts_in_the_step_in_which_another_is_asked_about() -> None:
    for hook, request, other in (
        ("before_tool", "c4", "c3"),
        ("on_tool_error", "c3", "c4"),
        ("after_tool", "c3", "c4"),
    ):
        bench = streaming(asks_about(request, hook), options=Options(max_parallel_tools=1))
        bench.answers("", call("look", path="c3"), call("look", path="c4"))
        if hook == "on_tool_error":
            bench.send(ToolRaised("c3", 1, "OSError: no"))
        elif hook == "after_tool":
            bench.returns("c3")
        (waiting,) = bench.state.suspended_runs
        assert (waiting.hook.hook_name, waiting.ref) == (hook, request)
        assert bench.got[-1].step.effects[-2:] == (limit(other), start(other, "look", path(other)))


def test_a_hook_that_waits_is_not_asked_again_whatever_comes_meanwhile() -> None:
    seen: list[tuple[Hook, object]] = []
    bench = executing(plugins=(asks("after_tool_batch", seen),))
    bench.returns("c3")
    old = bench.state
    bench.send(SteerSent("rather this"))
    bench.send(SteerSent("or that"))
    assert bench.state.suspended_runs == old.suspended_runs
    bench.send(AskSettled("ask4", Answered(None)))
    assert [hook.answer for hook, _ in seen] == [None, Answered(None)]
    new = user_message("rather this\n\nor that", Origin.STEERING)
    assert bench.state == old.but(
        last_seq=bench.state.last_seq,
        last_id=old.last_id + 3,
        phase=Phase.RUNNING,
        round=2,
        plugin_states=(2,),
        suspended_runs=(),
        timers=(),
        batch=None,
        history=old.history.and_(result("c3", "look"), new),
        request=out("r7"),
    )


# What was replaced before


def test_the_asker_and_those_behind_it_see_what_was_replaced_before() -> None:
    for hook, (new, field) in REPLACED.items():
        seen: list[tuple[Hook, object]] = []
        first = plug("A", priority=10, **{hook: new})  # type: ignore[arg-type]  # a hook
        bench = Bench(first, asks(hook, seen), notes(hook, seen))
        bench.prompt()
        if hook == "before_compact":
            bench.answers("hi")
            bench.send(CompactSent())
        elif hook != "before_request":
            bench.answers("", call("look", path="a"))
            if hook == "after_tool":
                bench.returns("c3")
        (waiting,) = bench.state.suspended_runs
        got = bench.send(AskSettled(waiting.ask_id, Answered(None)))
        replaced: object = getattr(new, field)
        assert [getattr(request, field) for request, _ in seen] == [replaced] * 3
        assert [asked_value.answer for asked_value, _ in seen] == [None, Answered(None), None]
        value = getattr(waiting.decisions, field)
        assert (value.of(()) if isinstance(value, Rearranged) else value) == replaced
        assert got.step.rulings[0] == Ruling(hook, decisions=waiting.decisions, states=((1, 2),))


def test_a_late_answer_is_ignored() -> None:
    bench = Bench(asks())
    bench.prompt()
    bench.send(AbortSent()).expect_only(
        answer=DONE,
        events=[AskAnswered("ask2", "Asks", "dropped"), AgentAbort(None, "user"), PromptRejected("p1", "user")],
        effects=[ClearTimer("ask:ask2"), CancelAsk("ask2")],
        phase=Phase.IDLE,
        next_prompt=None,
        suspended_runs=(),
    )
    bench.send(AskSettled("ask2", Answered("late"))).expect_nothing()
    bench.prompt()
    bench.send(AskSettled("ask2", Answered("late"))).expect_nothing()
    bench.send(TimerFired("ask:ask2")).expect_nothing()


def test_the_usage_of_a_late_answer_is_counted() -> None:
    bench = Bench(asks())
    bench.prompt()
    bench.send(AbortSent())
    bench.send(AskSettled("ask2", Answered("late"), Usage(7, 1))).expect_only(usage=Usage(7, 1))


@pytest.mark.parametrize(
    ("answer", "status"), [(Answered("yes"), "ok"), (Failed("no such service"), "failed")], ids=["ok", "failed"]
)
def test_an_answer_of_any_kind_is_given_to_the_asker(answer: Answered | Failed, status: str) -> None:
    seen: list[tuple[Hook, object]] = []
    bench = Bench(asks(seen=seen))
    bench.prompt()
    bench.send(AskSettled("ask2", answer))
    assert seen[1][0].answer == answer
    assert bench.got[-1].events[0] == AskAnswered("ask2", "Asks", status)


def test_after_its_deadline_the_asker_is_told_that_it_took_too_long() -> None:
    seen: list[tuple[Hook, object]] = []
    bench = Bench(asks(seen=seen))
    bench.prompt()
    assert bench.state.timers == (("ask:ask2", NOW + 10_000),)
    got = bench.fires("ask:ask2")
    assert seen[1][0].answer == TimedOut(10.0)
    assert got.step.effects[0] == CancelAsk("ask2")
    assert got.events == [
        AskAnswered("ask2", "Asks", "timed_out"),
        *(event for event in starts("p1", "r3") if type(event).__name__ != "Now"),
    ]
    assert bench.state.phase is Phase.RUNNING


def test_the_ninth_ask_of_one_run_is_a_crash() -> None:
    for critical in (False, True):
        bench = Bench(plug("Asks", before_prompt=Ask(CallModel("again?")), critical=critical))
        bench.prompt()
        for number in range(2, 10):
            assert bench.state.suspended_runs[0].ask_id == f"ask{number}"
            bench.send(AskSettled(f"ask{number}", Answered(number)))
        assert bench.state.suspended_runs == ()
        why = str(BrokenPlugin("Asks", "before_prompt", "it asked more than 8 times"))
        assert bench.got[-1].events[1] == PluginError("Asks", "before_prompt", why)
        assert bench.state.phase is (Phase.IDLE if critical else Phase.RUNNING)


def test_each_run_of_a_hook_may_ask_anew() -> None:
    bench = streaming(asks("after_response"))
    for _ in range(9):
        bench.answers("", call("look", path=str(bench.state.last_id)))
        bench.send(AskSettled(bench.state.suspended_runs[0].ask_id, Answered(None)))
        bench.returns(f"c{bench.state.last_id - 1}")
    assert bench.state.round == 10


@pytest.mark.parametrize("ending", [AskSettled("ask2", Answered(None)), AbortSent(), StopSent()], ids=repr)
def test_what_was_emitted_before_an_ask_is_broadcast_once_when_the_pipeline_pauses(ending: AnyInput) -> None:
    bench = Bench(plug("A", before_prompt=Emit("early")), asks())
    assert bench.prompt().events == [
        PluginEvent("A", "early", None),
        AskStarted("ask2", "Asks", "before_prompt", "CallService"),
    ]
    bench.send(ending)
    assert not any(isinstance(event, PluginEvent) for event in bench.got[-1].events)


def test_a_stop_ends_a_suspended_hook_and_asks_nobody_again() -> None:
    for hook in ("before_request", "after_turn"):
        bench = Bench(asks(hook))
        bench.prompt()
        if hook == "after_turn":
            bench.answers("bye")
        (waiting,) = bench.state.suspended_runs
        bench.send(StopSent())
        assert bench.state.phase is Phase.ENDED
        assert bench.got[-1].events[0] == AskAnswered(waiting.ask_id, "Asks", "dropped")
        assert not any(isinstance(effect, CarryOut) for effect in bench.got[-1].step.effects)


def test_what_ends_a_turn_for_a_stop_may_not_ask_any_more() -> None:
    bench = running(asks("after_turn"))
    decisions = Decisions(asks=(("Asks", 1),))
    pause = Pause(Position(0), LOOKUP, 10.0)
    ruling = Ruling("after_turn", Verdict.ASK, "Asks", decisions=decisions, states=((0, 1),), pause=pause)
    bench.send(StopSent()).expect_only(
        answer=DONE,
        events=[AgentAbort("p1", "stopped", "stopped"), Now(0, 0), SessionEnded("stopped")],
        effects=[CancelRequest("r2"), CloseSession("stopped")],
        rulings=(ruling, *ruled("session_end")),
        phase=Phase.ENDED,
        round=0,
        turn=None,
        request=None,
        plugin_states=(1,),
        stop_reason="stopped",
    )


def test_a_call_that_was_asked_about_and_steered_away_is_not_asked_about_any_more() -> None:
    bench = streaming(asks("before_tool"))
    bench.answers("", call("look", path="a"), call("keep"))
    bench.send(AskSettled("ask6", Answered(None)))
    bench.send(SteerSent("rather this"))
    got = bench.got[-1]
    assert got.step.effects == (ClearTimer("ask:ask5"), CancelAsk("ask5"))
    assert bench.state.suspended_runs == ()
    assert bench.call("c3").done
    assert not bench.call("c4").done


# Tools that a plugin brings


class Iron:
    spec = ToolSpec("iron", "Iron the cloth.")


def changes(hook: str, change_tools: ChangeTools) -> AnyPlugin:
    """Return a plugin that brings a tool, and asks for a change of the tools once at *hook*."""

    def answer(asked_hook: Hook, _state: object, _ctx: Context) -> object:
        return Ask(change_tools, 1) if asked_hook.answer is None else Continue(asked_hook.answer)

    bare = plug("P", first=0, **{hook: answer})  # type: ignore[arg-type]  # a hook
    brings = property(lambda _: (BroughtTools((Iron(),)),))
    return cast("type[AnyPlugin]", type("P", (type(bare),), {"declarations": brings}))()


@each_case([hook for hook in HOOK_CELLS if Ask in MATRIX[hook]])
def test_a_change_of_the_tools_is_carried_out_in_the_step_itself(hook: str) -> None:
    _, got = HOOK_CELLS[hook].fire(changes(hook, ChangeTools(("iron",))))
    after = got.step.state
    assert after.tools["iron"] == AttachedTool(Iron.spec, 0, plugin="P")
    assert after.plugin_state("P") == Answered(None)
    assert not any(waiting.plugin == "P" for waiting in after.suspended_runs)
    assert not any(isinstance(effect, CarryOut) for effect in got.step.effects)
    named = [event for event in got.events if isinstance(event, AskStarted | ToolAttached | ToolsUpdated | AskAnswered)]
    ref = next(event.ask_id for event in named if isinstance(event, AskStarted))
    assert named == [
        AskStarted(ref, "P", hook, "ChangeTools"),
        ToolAttached("iron"),
        ToolsUpdated(("iron",), (), "P"),
        AskAnswered(ref, "P", "ok"),
    ]


@each_case([hook for hook in HOOK_CELLS if Ask in MATRIX[hook]])
def test_an_impossible_change_of_the_tools_is_answered_and_changes_none(hook: str) -> None:
    bench, got = HOOK_CELLS[hook].fire(changes(hook, ChangeTools(("iron",), ("saw",))))
    assert "iron" not in bench.state.tools
    assert bench.state.plugin_state("P") == Failed("there is no tool `saw`")
    assert not any(isinstance(event, ToolsUpdated) for event in got.events)


def test_what_is_attached_already_is_attached_again_without_an_event() -> None:
    bench, _ = HOOK_CELLS["before_prompt"].fire(changes("before_prompt", ChangeTools(("iron", "iron"))))
    bench.answers("done")
    old_tools = bench.state.tools
    again = bench.prompt("again")
    assert bench.state.tools == old_tools
    assert not any(isinstance(event, ToolsUpdated | ToolAttached) for event in again.events)


def test_tools_of_the_specification_that_a_plugin_detached_stay_away_after_a_restart() -> None:
    bench, _ = HOOK_CELLS["before_prompt"].fire(changes("before_prompt", ChangeTools(detach=("look",))))
    assert "look" not in bench.state.tools
    assert bench.state.removed_tools == ("look",)
