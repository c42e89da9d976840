"""Sub-agents in the parent's state: each is reported once, counted once, and ends with the parent."""

from collections.abc import Callable

import pytest

from agentrail import Options
from agentrail.core.machine.step import Step, step
from agentrail.core.vocabulary.commands import ResumeSent
from agentrail.core.vocabulary.effects import (
    ClearTimer,
    CloseSession,
    ProbeCall,
    ResumeSubagents,
    SetTimer,
    StartCall,
    StopSubagents,
)
from agentrail.core.vocabulary.inputs import CallProbed, ElsewhereUsed, SubagentEnded, SubagentReported, SubagentStarted
from agentrail.core.vocabulary.tool_calls import MAX_ENDED_TASKS, EndedTask, Subagent
from agentrail.events import (
    ApprovalRequired,
    ApprovalResolved,
    PromptReceived,
    SessionRecovered,
    SessionStarted,
    SubagentEnd,
    SubAgentEvent,
    SubagentStart,
    ToolCalls,
    ToolExecutionStart,
    ToolUnknown,
)
from agentrail.models import FrozenObject, Usage
from agentrail.testing import Holder
from agentrail.testing.probe_plugins import Scripted
from agentrail.tools import Err, NotStarted, Ok, ToolSpec, Unknown, err, ok
from tests.core.driving import (
    answer,
    apply_all,
    ask_for_calls,
    back,
    begin,
    call,
    events,
    hello,
    names,
    results,
    session,
)
from tests.kit import (
    EMPTY,
    NOTHING_USED,
    AbortSent,
    AnyInput,
    Arrival,
    Phase,
    RejectSent,
    StopSent,
    TimerFired,
    ToolReturned,
)
from tests.machinery.worlds.checked_world import CheckedWorld

CHILD = "s.c3"
STARTED = SubagentStarted(CHILD, "c3", "helper", "help")
IN_BACKGROUND = STARTED.but(background=True)
DEADLINE = Options(max_turn_seconds=100.0)


def parent(*others: str, started: SubagentStarted = STARTED) -> CheckedWorld:
    """Return a session whose call waits for a sub-agent; the batch has calls to *others* too."""
    world = session(options=DEADLINE)
    ask_for_calls(world, call("keep"), *(call(name) for name in others))
    world.apply(started)
    return world


def timers(world: CheckedWorld) -> dict[str, int]:
    """Return the milliseconds until each timer is due."""
    return {name: time - world.now for name, time in world.state.timers}


def alone(world: CheckedWorld, input_: AnyInput) -> Step:
    """Apply an input to the machine directly, without the checks of the world."""
    return step(world.state, Arrival(input_, world.now), world.hook_runner)


# What happens in it


def test_one_that_starts_is_told() -> None:
    world = session()
    ask_for_calls(world, call("keep"))
    old = world.state
    done = world.apply(STARTED)
    assert events(done) == [SubagentStart("c3", CHILD, "help", "helper", background=False)]
    assert (world.state, done.effects) == (
        old.but(
            last_seq=old.last_seq + 1, subagents=(Subagent(CHILD, "c3", "helper", description="help", began_ms=0),)
        ),
        (),
    )


def test_what_happens_in_it_is_told_as_its_own_unless_a_person_is_to_decide() -> None:
    world = parent()
    held = ApprovalRequired("s.c3:a1", "c9", "write", EMPTY, "", "Holder", 1, None, None)
    decided = ApprovalResolved("s.c3:a1", "c9", "write", "approved")
    old = world.state
    done = world.apply(SubagentReported(CHILD, (ToolCalls(1), held, decided), 3))
    assert events(done) == [SubAgentEvent("c3", CHILD, ToolCalls(1)), held, decided]
    assert world.state == old.but(last_seq=old.last_seq + 3, subagents=(old.subagents[0].but(heard=3),))


def test_what_it_uses_is_counted_once() -> None:
    world = parent()
    old_usage = world.state.usage
    for used in (Usage(8, 2), Usage(8, 2), Usage(10, 3)):
        world.apply(SubagentReported(CHILD, used=used))
        assert world.state.usage.minus(old_usage) == used


def test_a_report_that_was_heard_already_changes_nothing() -> None:
    world = parent()
    world.apply(SubagentReported(CHILD, (ToolCalls(1),), 5, Usage(8, 2)))
    old = world.state
    assert alone(world, SubagentReported(CHILD, (ToolCalls(1),), 4, Usage(6, 1))) == Step(old)


def test_a_report_without_news_is_not_worth_a_record() -> None:
    world = parent()
    world.apply(SubagentReported(CHILD, (ToolCalls(1),), 5, Usage(8, 2)))
    old = world.state
    done = alone(world, SubagentReported(CHILD, (), 5, Usage(8, 2)))
    assert (done, done.changes(old)) == (Step(old), False)
    done = alone(world, SubagentReported(CHILD, (), 6, Usage(8, 2)))
    assert (done.events, done.effects, done.changes(old)) == ((), (), True)


def test_what_is_told_of_one_is_not_taken_for_another() -> None:
    world = parent("talk")
    world.apply(SubagentStarted("s.c4", "c4", "helper", "help too"))
    world.apply(SubagentReported("s.c4", heard=3, used=Usage(8, 2)))
    assert world.state.subagents == (
        Subagent(CHILD, "c3", "helper", description="help", began_ms=0),
        Subagent("s.c4", "c4", "helper", heard=3, used=Usage(8, 2), description="help too", began_ms=0),
    )


def test_its_prompt_is_known_until_it_tells_that_it_has_that() -> None:
    world = session()
    ask_for_calls(world, call("keep"))
    world.apply(STARTED.but(prompt="help me", asked_by=("ann",)))
    waiting = Subagent(CHILD, "c3", "helper", description="help", prompt="help me", asked_by=("ann",), began_ms=0)
    assert world.state.subagents == (waiting,)
    world.apply(SubagentReported(CHILD, (SessionStarted("scripted"),), 1))
    assert world.state.subagents == (waiting.but(heard=1),)
    world.apply(SubagentReported(CHILD, (PromptReceived("p1", "help me"),), 2))
    assert world.state.subagents == (Subagent(CHILD, "c3", "helper", heard=2, description="help", began_ms=0),)


@pytest.mark.parametrize("value", [SubagentReported("other", (ToolCalls(1),), 1), SubagentEnded("other", ok("done"))])
def test_nothing_comes_of_one_that_is_not_known(value: SubagentReported | SubagentEnded) -> None:
    world = parent()
    assert alone(world, value) == Step(world.state)


def test_what_others_use_of_a_shared_limit_replaces_what_was_known_of_it() -> None:
    world = session()
    old = world.state
    apply_all(world, ElsewhereUsed(Usage(8, 2)), ElsewhereUsed(Usage(9, 2)))
    assert world.state == old.but(shared_usage=Usage(9, 2))


# Waiting for a person counts towards no limit


def test_while_it_waits_for_a_person_the_clocks_of_its_call_and_of_the_turn_stand_still() -> None:
    world = parent()
    world.now += 1_000
    done = world.apply(SubagentReported(CHILD, waits=True))
    assert done.effects == (ClearTimer("call:c3"), ClearTimer("turn"))
    assert [(agent.waits, agent.left_ms) for agent in world.state.subagents] == [(True, 2_000)]
    world.now += 50_000
    done = world.apply(SubagentReported(CHILD))
    assert done.effects == (SetTimer("call:c3", world.now + 2_000), SetTimer("turn", world.now + 99_000))
    assert [(agent.waits, agent.left_ms) for agent in world.state.subagents] == [(False, None)]


def test_the_clock_of_the_turn_goes_on_while_another_call_runs() -> None:
    world = parent("read")
    world.now += 1_000
    done = world.apply(SubagentReported(CHILD, waits=True))
    assert done.effects == (ClearTimer("call:c3"),)
    done = world.apply(ToolReturned("c4", 1, ok("text")))
    assert ClearTimer("turn") in done.effects
    done = world.apply(SubagentReported(CHILD))
    assert done.effects == (SetTimer("call:c3", world.now + 2_000), SetTimer("turn", world.now + 99_000))


def test_the_clock_of_the_turn_stands_still_when_a_call_beside_one_that_waits_is_rejected() -> None:
    world = session(Holder(frozenset({"write"})), options=DEADLINE)
    ask_for_calls(world, call("keep"), call("write"))
    world.apply(STARTED)
    world.now += 1_000
    world.apply(SubagentReported(CHILD, waits=True))
    (held,) = (waiting.hold for waiting in world.state.waiting_calls if waiting.hold is not None)
    done = world.apply(RejectSent(held.approval_id))
    assert done.effects == (
        ClearTimer(f"hold:{held.approval_id}"),
        SetTimer("turn", world.now + 99_000),
        ClearTimer("turn"),
    )
    assert world.state.phase is Phase.EXECUTING_TOOLS
    assert "turn" not in timers(world)
    world.apply(SubagentReported(CHILD))
    assert timers(world)["turn"] == 99_000


def test_the_clock_goes_on_when_one_that_waits_has_ended() -> None:
    world = parent()
    world.apply(SubagentReported(CHILD, waits=True))
    world.now += 50_000
    world.apply(SubagentEnded(CHILD, ok("done")))
    assert timers(world) == {"turn": 100_000}


def test_the_clock_of_a_call_that_does_not_wait_for_it_goes_on() -> None:
    world = parent(started=IN_BACKGROUND)
    done = world.apply(SubagentReported(CHILD, waits=True))
    assert done.effects == ()
    assert timers(world) == {"turn": 100_000, "call:c3": 3_000}
    done = world.apply(SubagentReported(CHILD))
    assert done.effects == ()


def test_the_clock_of_a_call_that_goes_on_in_the_background_stands_still_too() -> None:
    world = parent()
    world.apply(AbortSent())
    world.now += 1_000
    world.apply(SubagentReported(CHILD, waits=True))
    assert timers(world) == {}
    world.now += 50_000
    world.apply(SubagentReported(CHILD))
    assert timers(world) == {"call:c3": 2_000}


def test_no_clock_is_set_for_a_call_that_has_ended_meanwhile() -> None:
    world = parent()
    world.apply(SubagentReported(CHILD, waits=True))
    world.apply(AbortSent(kill_tools="all"))
    world.apply(SubagentReported(CHILD))
    assert "call:c3" not in timers(world)


# Its end


@pytest.mark.parametrize(("answer", "is_error"), [(ok("done"), False), (err("it broke"), True)])
def test_its_answer_is_the_result_of_the_call_that_waits(answer: Ok | Err, is_error: bool) -> None:
    world = parent("read")
    done = world.apply(SubagentEnded(CHILD, answer))
    assert events(done)[0] == SubagentEnd("c3", CHILD, "it broke" if is_error else "done", is_error)
    assert names(done)[1:] == ["ToolExecutionEnd", "ToolExecutionMetrics"]
    assert done.effects == (ClearTimer("call:c3"),)
    assert world.state.subagents == ()
    world.apply(ToolReturned("c4", 1, ok("text")))
    assert results(world.state) == ["it broke" if is_error else "done", "text"]


@pytest.mark.parametrize(("answer", "how"), [(ok("done"), "has ended"), (err("it broke"), "has failed")])
def test_the_end_of_one_in_the_background_is_told_with_the_next_request(answer: Ok | Err, how: str) -> None:
    world = parent(started=IN_BACKGROUND)
    old = world.state
    done = world.apply(SubagentEnded(CHILD, answer))
    assert names(done) == ["SubagentEnd"]
    notice = f"The background task {CHILD} {how}; `task_result` has its answer"
    ended = EndedTask(CHILD, "c3", "helper", "help", failed=how == "has failed")
    assert world.state == old.but(last_seq=old.last_seq + 1, subagents=(), ended_tasks=(ended,), notices=(notice,))


def test_one_that_a_call_waited_for_is_not_among_the_tasks_that_have_ended() -> None:
    world = parent()
    world.apply(SubagentEnded(CHILD, ok("done")))
    assert world.state.ended_tasks == ()


def test_of_those_in_the_background_the_last_32_that_have_ended_are_remembered_in_the_order_of_their_ends() -> None:
    world = parent(started=IN_BACKGROUND)
    more = [f"s.b{number}" for number in range(MAX_ENDED_TASKS)]
    for child in more:
        world.apply(SubagentStarted(child, "c3", "helper", f"help {child}", background=True, peers=(CHILD,)))
    for child in (CHILD, *reversed(more)):
        world.apply(SubagentEnded(child, ok("done")))
    ended = tuple(EndedTask(child, "c3", "helper", f"help {child}", (CHILD,)) for child in reversed(more))
    assert world.state.ended_tasks == ended
    world.apply(SubagentStarted(more[3], "c3", "helper", "again", background=True))  # its call ran again
    world.apply(SubagentEnded(more[3], err("it broke")))
    others = tuple(task for task in ended if task.child != more[3])
    assert world.state.ended_tasks == (*others, EndedTask(more[3], "c3", "helper", "again", failed=True))
    world.check_replay()


def test_the_end_of_one_whose_call_has_left_its_turn_is_the_outcome_of_that() -> None:
    world = parent()
    world.apply(AbortSent())
    done = world.apply(SubagentEnded(CHILD, ok("done")))
    assert names(done) == ["SubagentEnd", "ToolExecutionEnd", "ToolExecutionMetrics"]
    assert (world.state.lingering_calls, world.state.timers) == ((), ())
    assert "has ended: done" in world.state.notices[0]
    assert world.state.in_doubt_calls == ()


# Stopping


def test_a_session_that_stops_waits_for_all_of_them() -> None:
    world = parent("talk")
    world.apply(SubagentStarted("s.c4", "c4", "helper", "help too", background=True))
    done = world.apply(StopSent())
    assert StopSubagents((CHILD, "s.c4")) in done.effects
    assert world.state.phase is Phase.RUNNING
    done = world.apply(SubagentEnded("s.c4", err("stopped")))
    assert (names(done), world.state.phase, world.state.notices) == (["SubagentEnd"], Phase.RUNNING, ())
    done = world.apply(SubagentEnded(CHILD, err("stopped")))
    assert CloseSession("stopped") in done.effects
    assert (names(done), world.state.phase) == (["SubagentEnd", "SessionEnded"], Phase.ENDED)


def test_one_that_starts_while_the_session_stops_is_stopped() -> None:
    world = parent(started=IN_BACKGROUND)
    world.apply(StopSent())
    done = world.apply(SubagentStarted("late", "c3", "helper", "help too"))
    assert done.effects == (StopSubagents((CHILD, "late")),)
    apply_all(world, SubagentEnded(CHILD, err("stopped")), SubagentEnded("late", err("stopped")))
    assert world.state.phase is Phase.ENDED


def test_an_abort_of_all_tools_stops_them_and_one_of_those_that_can_be_killed_does_not() -> None:
    world = parent()
    assert not any(isinstance(effect, StopSubagents) for effect in world.apply(AbortSent()).effects)
    assert StopSubagents((CHILD,)) in world.apply(AbortSent(kill_tools="all")).effects
    assert len(world.state.subagents) == 1


# In each phase


def _idle() -> CheckedWorld:
    world = parent(started=IN_BACKGROUND)
    world.apply(ToolReturned("c3", 1, ok("it runs")))
    answer(world, text="it runs")
    return world


def _running() -> CheckedWorld:
    world = _idle()
    world.apply(hello())
    return world


def _streaming() -> CheckedWorld:
    world = _running()
    begin(world)
    return world


def _executing() -> CheckedWorld:
    return parent(started=IN_BACKGROUND)


PHASES = pytest.mark.parametrize("make", [_idle, _running, _streaming, _executing])


@PHASES
def test_an_abort_of_all_tools_stops_those_in_the_background(make: Callable[[], CheckedWorld]) -> None:
    assert StopSubagents((CHILD,)) in make().apply(AbortSent(kill_tools="all")).effects


@PHASES
def test_a_session_that_stops_stops_those_in_the_background(make: Callable[[], CheckedWorld]) -> None:
    assert StopSubagents((CHILD,)) in make().apply(StopSent()).effects


@PHASES
def test_those_in_the_background_come_back_with_the_session(make: Callable[[], CheckedWorld]) -> None:
    world = make()
    assert ResumeSubagents((CHILD,)) in world.apply(back(world)).effects


# Coming back


def test_one_that_a_call_waits_for_comes_back_and_the_call_waits_again_in_the_time_that_it_has_left() -> None:
    world = parent()
    world.apply(SubagentReported(CHILD, heard=2, used=Usage(8, 2)))
    remaining = dict(world.state.timers)
    done = world.apply(back(world))
    assert events(done) == [SessionRecovered(5)]
    assert ResumeSubagents((CHILD,)) in done.effects
    (again,) = (effect for effect in done.effects if isinstance(effect, StartCall))
    assert (again.call_id, again.attempt, again.key) == ("c3", 2, "s/c3")
    assert dict(world.state.timers) == remaining
    used = world.state.usage
    world.apply(SubagentReported(CHILD, heard=3, used=Usage(10, 2)))
    assert world.state.usage.minus(used) == Usage(2, 0)
    done = world.apply(back(world))
    assert [effect.attempt for effect in done.effects if isinstance(effect, StartCall)] == [3]


def test_one_in_the_background_comes_back_and_its_call_is_settled_by_itself() -> None:
    world = parent(started=IN_BACKGROUND)
    done = world.apply(back(world, pause=True))
    assert ResumeSubagents((CHILD,)) in done.effects
    assert [agent.child for agent in world.state.subagents] == [CHILD]
    assert ToolUnknown("c3", "keep") in events(done)


def resting(*others: str) -> CheckedWorld:
    """Return a session whose turn rests since it came back, with a sub-agent whose deadline was 2 seconds away."""
    world = parent(*others)
    world.apply(SubagentReported(CHILD, heard=2, used=Usage(8, 2)))
    world.now += 1_000
    done = world.apply(back(world, pause=True))
    assert (names(done), world.out.agents) == (["SessionRecovered"], {})
    assert not any(isinstance(effect, ResumeSubagents | StartCall) for effect in done.effects)
    assert (world.state.phase, world.state.has_running_work, timers(world)) == (Phase.IDLE, False, {})
    world.now += 50_000
    return world


def test_one_whose_call_rests_with_its_turn_comes_back_when_that_goes_on() -> None:
    world = resting()
    done = world.apply(ResumeSent())
    assert [effect for effect in done.effects if isinstance(effect, ResumeSubagents)] == [ResumeSubagents((CHILD,))]
    assert [effect.attempt for effect in done.effects if isinstance(effect, StartCall)] == [2]
    assert timers(world) == {"turn": 99_000, "call:c3": 2_000}
    assert world.state.subagents == (
        Subagent(CHILD, "c3", "helper", heard=2, used=Usage(8, 2), description="help", began_ms=0),
    )
    world.apply(SubagentEnded(CHILD, ok("done")))
    assert results(world.state) == ["done"]


def test_it_rests_also_in_the_process_behind_that() -> None:
    world = resting()
    done = world.apply(back(world, pause=True))
    assert (names(done), world.out.agents) == (["SessionRecovered"], {})
    done = world.apply(back(world))
    assert [effect for effect in done.effects if isinstance(effect, ResumeSubagents)] == [ResumeSubagents((CHILD,))]
    assert timers(world) == {"turn": 99_000, "call:c3": 2_000}


def test_one_whose_time_was_over_when_it_came_back_has_none_left() -> None:
    world = parent()
    world.now += 10_000
    world.apply(back(world, pause=True))
    assert [agent.left_ms for agent in world.state.subagents] == [0]
    world.apply(ResumeSent())
    assert timers(world)["call:c3"] == 0


def test_one_whose_call_was_stopped_in_time_is_lost_and_the_call_has_the_result_that_it_had() -> None:
    world = parent("read")
    world.now += 3_000
    world.apply(TimerFired("call:c3"))
    stopped = world.state.batch.calls.find("c3") if world.state.batch is not None else None
    assert stopped is not None
    done = world.apply(back(world))
    assert events(done) == [
        SessionRecovered(5),
        SubagentEnd("c3", CHILD, "the process ended while it ran", is_error=True),
        ToolExecutionStart("c4", "read", FrozenObject(path="a"), 2),
    ]
    assert world.state.batch is not None
    assert world.state.batch.calls.find("c3") == stopped


def test_the_end_of_one_whose_call_was_stopped_in_time_changes_no_result() -> None:
    world = parent("read")
    world.now += 3_000
    world.apply(TimerFired("call:c3"))
    batch = world.state.batch
    assert names(world.apply(SubagentEnded(CHILD, ok("done")))) == ["SubagentEnd"]
    assert (world.state.batch, world.state.subagents) == (batch, ())


def test_one_that_rests_and_waits_for_a_person_has_no_clock_when_it_comes_back() -> None:
    world = parent()
    world.apply(SubagentReported(CHILD, waits=True))
    world.apply(back(world, pause=True))
    world.apply(ResumeSent())
    assert timers(world) == {}
    assert [(agent.waits, agent.left_ms) for agent in world.state.subagents] == [(True, 3_000)]


@pytest.mark.parametrize("pause", [False, True])
def test_one_that_rests_and_whose_tool_is_gone_then_is_lost(pause: bool) -> None:
    world = resting()
    done = world.apply(back(world, pause=pause).but(removed_tools=("keep",)))
    assert SubagentEnd("c3", CHILD, "the process ended while it ran", is_error=True) in events(done)
    assert ToolUnknown("c3", "keep") in events(done)
    assert world.state.subagents == ()
    assert (world.state.phase is Phase.IDLE) == pause
    if pause:
        world.apply(ResumeSent())
    assert world.state.phase is Phase.RUNNING
    assert "find out before calling it again" in results(world.state)[0]


@pytest.mark.parametrize("input_", [AbortSent(), AbortSent(kill_tools="all"), hello("rather that"), StopSent()])
def test_one_that_rests_is_lost_with_its_turn(input_: AnyInput) -> None:
    world = resting()
    done = world.apply(input_)
    (end,) = (event for event in events(done) if isinstance(event, SubagentEnd))
    assert end.text == "the process ended while it ran, and its turn has ended before it came back"
    assert not any(isinstance(effect, StopSubagents) for effect in done.effects)
    assert world.state.subagents == ()
    assert "it may have taken effect; find out before calling it again" in results(world.state)[0]
    assert [doubt.name for doubt in world.state.in_doubt_calls] == ["keep"]


def test_a_call_whose_sub_agent_is_not_known_is_made_again_if_it_can_tell() -> None:
    world = session(tools=(ToolSpec("task", "delegates", requires=frozenset({"agents"})),))
    ask_for_calls(world, call("task"))
    done = world.apply(back(world))
    assert [effect.key for effect in done.effects if isinstance(effect, ProbeCall)] == ["s/c3"]
    done = world.apply(CallProbed("c3", 1, NotStarted()))
    assert [(effect.attempt, effect.key) for effect in done.effects if isinstance(effect, StartCall)] == [(1, "s/c3")]
    world.apply(back(world))
    assert ToolUnknown("c3", "task") in events(world.apply(CallProbed("c3", 1, Unknown())))


def lost(world: CheckedWorld, *, texts: tuple[str, ...] = ()) -> None:
    done = world.apply(back(world).but(removed_tools=texts))
    assert SubagentEnd("c3", CHILD, "the process ended while it ran", is_error=True) in events(done)
    assert not any(isinstance(effect, ResumeSubagents) for effect in done.effects)
    assert world.state.subagents == ()


def test_one_whose_tool_is_gone_is_lost() -> None:
    lost(parent(), texts=("keep",))


def test_one_whose_tool_is_another_is_lost() -> None:
    world = parent()
    attached = world.state.tools["keep"]
    world.hook_runner.tool("keep", 7, lambda _, __: None)
    done = world.apply(back(world).but(tools=(attached.spec,), revision=7))
    assert "SubagentEnd" in names(done)
    assert not any(isinstance(effect, StartCall) for effect in done.effects)


def test_one_whose_call_has_left_its_turn_is_lost() -> None:
    world = parent()
    world.apply(AbortSent())
    lost(world)


def test_a_session_that_was_stopping_loses_them_and_ends() -> None:
    world = parent(started=IN_BACKGROUND)
    world.apply(StopSent())
    lost(world)
    assert world.state.phase is Phase.ENDED


def test_a_plugin_sees_the_result_before_the_model_does() -> None:
    world = session(Scripted({"after_tool": ("abort",)}))
    ask_for_calls(world, call("keep"))
    world.apply(STARTED)
    done = world.apply(SubagentEnded(CHILD, ok("done")))
    assert "AgentAbort" in names(done)
    world.apply(hello())
    begin(world)
    assert results(world.state)[0].startswith("it ended, but its result was withheld")
    assert world.state.usage == NOTHING_USED
