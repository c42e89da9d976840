"""Sessions written by hand that reach rows and effects of the transition table which random sessions seldom reach."""

from __future__ import annotations

from collections.abc import Callable

from agentrail import Options, Plugin
from agentrail.core.vocabulary.commands import ChangeToolsSent, RespondSent, ResumeSent
from agentrail.core.vocabulary.inputs import (
    AskSettled,
    CallProbed,
    CallsEnded,
    CompactionEnded,
    CompactionFailed,
    ElsewhereUsed,
    SleepDue,
    SubagentEnded,
    SubagentReported,
    SubagentStarted,
    ToolRaised,
    ToolStopped,
)
from agentrail.models import FrozenObject, Usage
from agentrail.plugins import Answered, RunTool
from agentrail.testing import Holder
from agentrail.testing.probe_plugins import Asker, Scripted
from agentrail.testing.world.random_setups import TOOLS
from agentrail.tools import AskPerson, Effect, EffectClass, NotStarted, ToolSpec, Unknown, ok
from tests.core.driving import answer, ask_for_calls, back, begin, branched, call, fork, hello, session
from tests.kit import (
    AbortSent,
    AnyInput,
    ApproveSent,
    CompactSent,
    RejectSent,
    SteerSent,
    StopSent,
    TimerFired,
    ToolReturned,
)
from tests.machinery.worlds.checked_world import CheckedWorld
from tests.machinery.worlds.table_tally import Tally


def _held(world: CheckedWorld) -> str:
    (held,) = (waiting.hold for waiting in world.state.waiting_calls if waiting.hold is not None)
    return held.approval_id


def _an_answer_ends_a_turn_in_which_other_calls_run(tally: Tally, *, compact: bool) -> None:
    world = session(Scripted({"after_tool": ("abort",)}), Asker("on_tool_error"), tally=tally)
    ask_for_calls(world, call("talk"), call("write"), call("fix"))
    world.apply(ToolRaised("c5", 1, "Oops"))
    world.apply(ToolReturned("c3", 1, Effect(AskPerson("which?"))))
    world.apply(hello("and then"))
    if compact:
        world.apply(CompactSent())
    (question,) = (call.question for call in world.state.waiting_calls if call.question is not None)
    world.apply(RespondSent(question.ref, "that one"))


def _a_call_that_stops_ends_a_turn_in_which_a_plugin_waits(tally: Tally) -> None:
    world = session(Scripted({"after_tool": ("abort",)}), Asker("on_tool_error"), tally=tally)
    ask_for_calls(world, call("talk"), call("write"), call("fix"))
    world.apply(ToolRaised("c5", 1, "Oops"))
    world.apply(ToolStopped("c3", 1))


def _a_plugin_aborts_beside_a_suspended_call(tally: Tally, *, began: bool) -> None:
    world = session(Scripted({"after_response": ("ask", "continue"), "before_tool": ("ask", "abort")}), tally=tally)
    world.apply(hello())
    if began:
        begin(world)
    answer(world, call("read"), call("write"))
    (ask_id,) = world.out.live_asks
    world.apply(AskSettled(ask_id, Answered("yes")))


def _something_goes_on_while_the_next_response_streams(tally: Tally) -> CheckedWorld:
    world = session(tally=tally)
    ask_for_calls(world, call("keep"))
    world.apply(AbortSent())
    world.apply(hello())
    begin(world)
    return world


def _a_plugin_aborts_what_a_person_has_approved(tally: Tally, *, beside: bool) -> None:
    script = ("continue", "abort") if beside else ("abort",)
    world = session(Holder(frozenset({"write"})), Scripted({"before_tool": script}), tally=tally)
    world.apply(hello())
    world.apply(hello("and then"))
    world.apply(CompactSent())
    answer(world, *((call("read"), call("write")) if beside else (call("write"),)))
    world.apply(ApproveSent(_held(world)))


def _a_probe_that_nobody_waits_for(tally: Tally, *, begun: bool | None) -> None:
    world = session(tally=tally)
    ask_for_calls(world, call("solo"))
    world.apply(back(world))
    world.apply(AbortSent())
    if begun is not None:
        world.apply(hello())
        if begun:
            begin(world)
    world.apply(CallProbed("c3", 1, NotStarted()))


def _a_compaction_that_nobody_waits_for(tally: Tally, *, fails: bool) -> None:
    world = session(tally=tally)
    world.apply(hello())
    answer(world, text="hello")
    world.apply(CompactSent())
    (name,) = world.out.live_compactions
    world.apply(AbortSent())
    ask_for_calls(world, call("read"))
    world.apply(CompactionFailed(name, "it broke") if fails else CompactionEnded(name, (), 2, "shorter"))


def _a_probe_at_the_end(tally: Tally) -> None:
    world = session(tally=tally)
    ask_for_calls(world, call("solo"))
    world.apply(back(world))
    world.apply(StopSent())
    world.apply(CallProbed("c3", 1, Unknown()))


def _a_plugin_aborts_for_what_a_probe_found(tally: Tally) -> None:
    world = session(Scripted({"after_tool": ("abort",)}), Asker("before_tool"), tally=tally)
    ask_for_calls(world, call("solo"), call("write"))
    (first, _) = world.out.live_asks
    world.apply(AskSettled(first, Answered("yes")))
    world.apply(back(world))
    world.apply(CallProbed("c3", 1, ok("done")))


def _a_plugin_asks_about_what_a_probe_found(tally: Tally) -> None:
    world = session(Asker("after_tool"), tally=tally)
    ask_for_calls(world, call("solo"))
    world.apply(back(world))
    world.apply(CallProbed("c3", 1, ok("done")))


def _what_a_plugin_had_run_is_not_run_again(tally: Tally, *others: Plugin[int], began: bool) -> None:
    asking = RunTool("write", FrozenObject({"path": "a"}))
    world = session(Asker("after_response", asking), *others, tally=tally)
    world.apply(hello())
    if began:
        begin(world)
    answer(world, call("read"), call("fix"))
    world.apply(back(world))


CHECK = ToolSpec("check", "can be asked what it has done", effect=EffectClass.CHECKABLE)


def _a_plugin_aborts_for_what_a_probe_found_beside_a_call_that_runs(tally: Tally) -> None:
    """Play a session whose only checkable tool runs beside others; those of random sessions run alone."""
    world = session(Scripted({"after_tool": ("abort",)}), tools=(*TOOLS, CHECK), tally=tally)
    ask_for_calls(world, call("check"), call("read"))
    world.apply(back(world))
    world.apply(CallProbed("c3", 1, ok("done")))


def _a_plugin_aborts_what_was_just_taken_up_again(
    tally: Tally, decide: Callable[[CheckedWorld], AnyInput] | None = None
) -> None:
    aborts = Scripted({"after_tool": ("abort",)})
    holder = Holder(frozenset({"keep"}), timeout=1.0)
    world = session(holder, aborts, Asker("before_tool"), tools=(*TOOLS, CHECK), tally=tally)
    ask_for_calls(world, call("check"), call("write"), call("talk"), call("keep"), call("read"))
    for ask_id in tuple(world.out.live_asks)[:3]:
        world.apply(AskSettled(ask_id, Answered("yes")))
    world.apply(ToolReturned("c5", 1, Effect(AskPerson("which?"))))
    world.apply(back(world, pause=decide is not None))
    if decide is not None:
        world.apply(decide(world))


def _resume(_: CheckedWorld) -> AnyInput:
    return ResumeSent()


def _approve(world: CheckedWorld) -> AnyInput:
    return ApproveSent(_held(world))


def _reject(world: CheckedWorld) -> AnyInput:
    return RejectSent(_held(world))


def _respond(world: CheckedWorld) -> AnyInput:
    (question,) = (call.question for call in world.state.waiting_calls if call.question is not None)
    return RespondSent(question.ref, "that one")


def _expire(world: CheckedWorld) -> AnyInput:
    return TimerFired(f"hold:{_held(world)}")


def _a_branch_of_what_rests(tally: Tally) -> None:
    origin = session(Holder(frozenset({"write"})))
    ask_for_calls(origin, call("write"), call("read"))
    fork(origin, tally)


def _a_branch_whose_plugin_is_another(tally: Tally) -> None:
    origin = session()
    attached_plugins = tuple(attached.but(version=attached.version + 1) for attached in origin.state.plugins)
    fork(origin, tally, branched_=branched(origin).but(attached_plugins=attached_plugins))


def _nobody_decides_in_time_about_what_has_paused(tally: Tally) -> None:
    world = session(Holder(frozenset({"write"}), timeout=1.0), tally=tally)
    ask_for_calls(world, call("read"), call("write"))
    world.apply(back(world, pause=True))
    world.apply(_expire(world))


def _a_sub_agent_rests_with_its_turn(tally: Tally) -> None:
    for decides in (_resume, _approve, _reject, _respond, _expire):
        world = session(Holder(frozenset({"write"}), timeout=1.0), tally=tally)
        ask_for_calls(world, call("keep"), call("write"), call("talk"))
        world.apply(SubagentStarted("child", "c3", "helper", "help"))
        world.apply(ToolReturned("c5", 1, Effect(AskPerson("which?"))))
        world.apply(back(world, pause=True))
        world.apply(decides(world))


def _sub_agents_in_odd_moments(tally: Tally) -> None:
    world = session(tally=tally)
    ask_for_calls(world, call("keep"))
    world.apply(SubagentStarted("child", "c3", "helper", "help"))
    world.apply(AbortSent())
    world.apply(hello())
    begin(world)
    world.apply(SubagentReported("child", waits=True))
    world.apply(SubagentReported("child"))
    world = session(Holder(frozenset({"write"})), options=Options(max_turn_seconds=100.0), tally=tally)
    ask_for_calls(world, call("keep"), call("write"))
    world.apply(SubagentStarted("child", "c3", "helper", "help"))
    world.apply(SubagentReported("child", waits=True))
    world.apply(RejectSent(_held(world)))
    world = session(Scripted({"after_tool": ("abort",)}), Asker("on_tool_error"), tally=tally)
    ask_for_calls(world, call("write"), call("fix"))
    world.apply(SubagentStarted("child", "c3", "helper", "help"))
    world.apply(ToolRaised("c4", 1, "Oops"))
    world.apply(SubagentEnded("child", ok("done")))
    world = session(Scripted({"after_tool": ("abort",)}), tally=tally)
    ask_for_calls(world, call("write"), call("fix"))
    world.apply(SubagentStarted("child", "c3", "helper", "help"))
    world.apply(SubagentEnded("child", ok("done")))


def _what_a_person_approves_is_gone(tally: Tally) -> None:
    world = session(Holder(frozenset({"write"})), tally=tally)
    ask_for_calls(world, call("write"))
    world.apply(ChangeToolsSent(detach=("write",)))
    world.apply(ApproveSent(_held(world)))


def _a_plugin_aborts_the_request_for_a_steering_text(tally: Tally) -> None:
    script = Scripted({"before_request": ("continue", "abort")})
    world = session(script, options=Options(max_turn_seconds=100.0), tally=tally)
    world.apply(hello())
    begin(world)
    world.apply(SteerSent("not that", when="now"))


def _an_abort_stops_a_sub_agent_while_a_response_streams(tally: Tally) -> None:
    world = _something_goes_on_while_the_next_response_streams(tally)
    world.apply(SubagentStarted("child.c3.1", "c3", "helper", "help", background=True))
    world.apply(AbortSent(kill_tools="all"))


def _the_time_to_sleep_comes_too_late(tally: Tally) -> None:
    world = session(tally=tally)
    world.apply(StopSent())
    for _ in range(20):
        world.apply(SleepDue())


def narrow_paths(tally: Tally) -> None:
    """Play all of these sessions, and count their steps in *tally*."""
    _a_sub_agent_rests_with_its_turn(tally)
    _sub_agents_in_odd_moments(tally)
    _the_time_to_sleep_comes_too_late(tally)
    _what_a_person_approves_is_gone(tally)
    _a_plugin_aborts_the_request_for_a_steering_text(tally)
    _an_abort_stops_a_sub_agent_while_a_response_streams(tally)
    _a_call_that_stops_ends_a_turn_in_which_a_plugin_waits(tally)
    for either in (False, True):
        _an_answer_ends_a_turn_in_which_other_calls_run(tally, compact=either)
        _a_plugin_aborts_beside_a_suspended_call(tally, began=either)
        _a_plugin_aborts_what_a_person_has_approved(tally, beside=either)
    _something_goes_on_while_the_next_response_streams(tally).apply(AbortSent(kill_tools="all"))
    _something_goes_on_while_the_next_response_streams(tally).apply(StopSent())
    _something_goes_on_while_the_next_response_streams(tally).apply(TimerFired("call:c3"))
    for _ in range(20):
        for begun in (None, False, True):
            _a_probe_that_nobody_waits_for(tally, begun=begun)
        _a_probe_at_the_end(tally)
        for fails in (False, True):
            _a_compaction_that_nobody_waits_for(tally, fails=fails)
        _a_branch_of_what_rests(tally)
        streaming = _something_goes_on_while_the_next_response_streams
        for late in (ToolReturned("c3", 1, ok("late")), ToolRaised("c3", 1, "Oops")):
            streaming(tally).apply(late)
            streaming(tally).apply(CallsEnded((late,)))
        parent = streaming(tally)
        for given in (
            SubagentStarted("child.c3.1", "c3", "helper", "help", background=True),
            SubagentReported("child.c3.1"),
            ElsewhereUsed(Usage(8, 2)),
            SubagentEnded("child.c3.1", ok("found")),
        ):
            parent.apply(given)
    _a_branch_whose_plugin_is_another(tally)
    _a_plugin_aborts_for_what_a_probe_found(tally)
    _a_plugin_aborts_for_what_a_probe_found_beside_a_call_that_runs(tally)
    _a_plugin_asks_about_what_a_probe_found(tally)
    _nobody_decides_in_time_about_what_has_paused(tally)
    for began in (False, True):
        _what_a_plugin_had_run_is_not_run_again(tally, began=began)
        asks_and_aborts = Scripted({"before_tool": ("continue", "ask", "abort")})
        _what_a_plugin_had_run_is_not_run_again(tally, asks_and_aborts, began=began)
    for decide in (None, _resume, _approve, _reject, _respond, _expire, back):
        _a_plugin_aborts_what_was_just_taken_up_again(tally, decide)
