"""Forked sessions: work that was under way in the original does not go on in the fork."""

from collections.abc import Callable

import pytest

from agentrail import Options, State
from agentrail.core.machine.forking import branch
from agentrail.core.vocabulary.commands import AttachPluginSent, RespondSent
from agentrail.core.vocabulary.effects import ReportStart, StartCall
from agentrail.core.vocabulary.inputs import CrashedTooOften, SessionBranched, SleepDue, SubagentEnded, SubagentStarted
from agentrail.errors import PluginMismatch
from agentrail.events import (
    AgentStart,
    ApprovalRequired,
    AskUser,
    SessionEnded,
    SessionForked,
    ToolDetached,
    ToolsUpdated,
)
from agentrail.testing import Holder
from agentrail.testing.probe_plugins import Asker, Scripted
from agentrail.tools import AskPerson, Effect, ok
from tests.core.driving import answer, ask_for_calls, back, begin, branched, call, fork, hello, names, results, session
from tests.kit import AbortSent, ApproveSent, CompactSent, Phase, Refused, SteerSent, StopSent, ToolReturned
from tests.machinery.worlds.checked_world import CheckedWorld

NOTHING = State("s", session().state.setup, "model0")

UNDER_WAY = (
    *(
        "plugin_changes",
        "queue",
        "steering",
        "next_prompt",
        "request",
        "compaction",
        "compaction_reason",
        "suspended_runs",
    ),
    *(
        "quarantined_calls",
        "lingering_calls",
        "subagents",
        "ended_tasks",
        "timers",
        "is_paused",
        "background_jobs",
        "asleep",
        "stop_reason",
        "quarantine_cause",
    ),
)
"""Work that a session has under way or waits for, and the sub-agents whose answers are under its id."""


def _streams() -> CheckedWorld:
    world = session(options=Options(max_turn_seconds=100.0))
    world.apply(hello())
    begin(world)
    world.apply(hello("queued"))
    world.apply(SteerSent("rather that"))
    world.apply(AttachPluginSent(world.teach("Other", Holder(frozenset()))))
    world.apply(CompactSent())
    return world


def _takes_a_prompt() -> CheckedWorld:
    world = session(Asker("before_prompt"))
    world.apply(hello())
    return world


def _compacts() -> CheckedWorld:
    world = session(Scripted({"before_compact": ("continue",)}))
    world.apply(hello())
    answer(world, text="hello to you")
    world.apply(CompactSent())
    return world


def _has_a_command_in_the_background() -> CheckedWorld:
    world = session()
    ask_for_calls(world, call("read"))
    world.apply(ToolReturned("c3", 1, ok("text"), jobs=("job-1 `serve`",)))
    return world


def _has_cancelled_calls_and_some_that_go_on() -> CheckedWorld:
    world = session()
    ask_for_calls(world, call("write"), call("keep"))
    world.apply(SubagentStarted("s.c4", "c4", "helper", "help"))
    world.apply(AbortSent())
    return world


def _has_a_task_that_has_ended() -> CheckedWorld:
    world = session()
    ask_for_calls(world, call("keep"))
    world.apply(SubagentStarted("s.c3", "c3", "helper", "help", background=True))
    world.apply(SubagentEnded("s.c3", ok("done")))
    return world


def _stops() -> CheckedWorld:
    world = session()
    ask_for_calls(world, call("keep"))
    world.apply(SubagentStarted("s.c3", "c3", "helper", "help"))
    world.apply(StopSent())
    return world


def _rests_since_it_came_back() -> CheckedWorld:
    world = session(options=Options(max_turn_seconds=100.0))
    ask_for_calls(world, call("read"))
    world.apply(back(world, pause=True))
    return world


def _sleeps() -> CheckedWorld:
    world = session()
    world.apply(CrashedTooOften("KeyError: x"))
    world.apply(SleepDue())
    return world


ORIGINS = (
    *(_streams, _takes_a_prompt, _compacts, _has_a_command_in_the_background),
    *(_has_cancelled_calls_and_some_that_go_on, _has_a_task_that_has_ended, _stops, _rests_since_it_came_back, _sleeps),
)


@pytest.mark.parametrize("make", ORIGINS)
def test_nothing_that_is_under_way_or_waits_goes_on_in_a_fork(make: Callable[[], CheckedWorld]) -> None:
    origin = make()
    world = fork(origin)
    assert [name for name in UNDER_WAY if getattr(world.state, name) != getattr(NOTHING, name)] == []
    assert (world.state.turn, world.state.batch, world.state.round) == (None, None, 0)
    assert (world.state.session_id, world.state.phase, world.state.is_starting) == ("fork", Phase.IDLE, False)
    assert world.state.last_seq == 1
    world.check_replay()


def test_the_origins_have_everything_under_way() -> None:
    states = [make().state for make in ORIGINS]
    idle = [name for name in UNDER_WAY if all(getattr(state, name) == getattr(NOTHING, name) for state in states)]
    assert idle == []


def test_a_fork_of_an_idle_session_goes_on_from_its_past() -> None:
    origin = session()
    origin.apply(hello())
    answer(origin, text="hello to you")
    world = fork(origin)
    assert [envelope.event for envelope in world.records[0].events] == [SessionForked("s", 3)]
    assert (world.state.last_seq, world.state.phase, world.state.is_starting) == (1, Phase.IDLE, False)
    assert world.state.history == origin.state.history
    assert (world.state.plugin_states, world.state.usage) == (origin.state.plugin_states, origin.state.usage)
    world.apply(hello("and then?"))
    answer(world, text="this")
    assert [message.text for message in world.state.history] == ["hello", "hello to you", "and then?", "this"]
    assert [message.text for message in origin.state.history] == ["hello", "hello to you"]
    world.check_replay()


def test_a_request_that_is_out_is_not_made_in_the_fork() -> None:
    origin = session()
    origin.apply(hello())
    begin(origin)
    origin.apply(hello("queued"))
    world = fork(origin)
    assert (world.state.phase, world.state.turn, world.state.queue) == (Phase.IDLE, None, ())
    assert [message.text for message in world.state.history] == ["hello"]


def test_a_call_that_runs_is_unknown_in_the_fork_and_never_runs_there() -> None:
    origin = session()
    ask_for_calls(origin, call("keep"), call("read"))
    origin.apply(ToolReturned("c4", 1, ok("text")))
    world = fork(origin)
    assert results(world.state) == [
        "this branch began while the call ran; it may have taken effect; find out before calling it again",
        "text",
    ]
    assert [doubt.name for doubt in world.state.in_doubt_calls] == ["keep"]
    assert (world.state.phase, world.state.turn, world.state.batch) == (Phase.IDLE, None, None)
    world.apply(hello("go on"))
    assert world.out.live_requests != []


def test_a_call_that_has_its_result_is_not_in_doubt_in_the_fork() -> None:
    origin = session()
    ask_for_calls(origin, call("keep"), call("read"))
    origin.apply(ToolReturned("c3", 1, ok("kept")))
    world = fork(origin)
    assert (results(world.state)[0], world.state.in_doubt_calls) == ("kept", ())


def test_what_a_plugin_waits_for_is_not_asked_in_the_fork() -> None:
    origin = session(Asker("before_tool"))
    ask_for_calls(origin, call("keep"))
    world = fork(origin)
    assert (world.state.suspended_runs, world.out.live_asks) == ((), [])
    assert results(world.state) == ["this branch began before the call ran: it did not run here"]


def test_a_held_call_is_held_again_under_an_id_of_its_own() -> None:
    origin = session(Holder(frozenset({"write"}), timeout=60.0))
    ask_for_calls(origin, call("write"))
    (held,) = (waiting.hold for waiting in origin.state.waiting_calls)
    world = fork(origin)
    (again,) = (waiting.hold for waiting in world.state.waiting_calls)
    assert held is not None
    assert again is not None
    assert (again.approval_id.startswith("fork:"), again.args, again.expires_at) == (True, held.args, held.expires_at)
    assert [type(envelope.event) for envelope in world.records[0].events] == [
        SessionForked,
        AgentStart,
        ApprovalRequired,
    ]
    step = world.apply(ApproveSent(again.approval_id))
    (start,) = (effect for effect in step.effects if isinstance(effect, StartCall))
    assert start.key == "fork/c3"
    assert [waiting.hold for waiting in origin.state.waiting_calls] == [held]


def test_a_call_that_was_held_and_approved_and_had_not_run_does_not_run_in_the_fork() -> None:
    origin = session(Holder(frozenset({"fix"})))
    ask_for_calls(origin, call("solo"), call("fix"))
    (held,) = (waiting.hold for waiting in origin.state.waiting_calls)
    assert held is not None
    origin.apply(ApproveSent(held.approval_id))
    world = fork(origin)
    assert results(world.state) == [
        "this branch began while the call ran; it may have taken effect; check before calling it again",
        "this branch began before the call ran: it did not run here",
    ]


def test_a_turn_that_has_ended_and_waits_for_its_last_hook_is_over_in_the_fork() -> None:
    origin = session(Holder(frozenset({"write"})), Asker("after_turn"))
    ask_for_calls(origin, call("write"))
    origin.apply(AbortSent())
    world = fork(origin)
    assert [envelope.event for envelope in world.records[0].events] == [SessionForked("s", 4)]
    assert (world.state.phase, world.state.turn) == (Phase.IDLE, None)


# The code that there is now


def test_a_fork_has_the_tools_that_there_are_now() -> None:
    origin = session()
    world = fork(origin, branched_=branched(origin).but(removed_tools=("read",)))
    assert [envelope.event for envelope in world.records[0].events] == [
        SessionForked("s", 1),
        ToolDetached("read"),
        ToolsUpdated((), ("read",)),
    ]
    assert "read" not in world.state.tools


def test_a_fork_does_not_start_if_a_plugin_cannot_bring_its_state_forward() -> None:
    origin = session()
    (attached,) = origin.state.plugins
    world = fork(origin, branched_=SessionBranched("s", 1, attached_plugins=(attached.but(version=2),)))
    why = "BadPlugin: plugin class `Recorder`: it has a new version and no `upgrade`"
    problem = PluginMismatch("fork", attached.key, why)
    assert [envelope.event for envelope in world.records[0].events] == [SessionEnded(str(problem))]
    assert (world.out.reports, world.out.closed, world.state.phase) == (
        [ReportStart(Refused.of(problem))],
        True,
        Phase.ENDED,
    )


def test_the_time_of_a_held_call_goes_on() -> None:
    origin = session(Holder(frozenset({"write"}), timeout=60.0))
    ask_for_calls(origin, call("write"))
    world = fork(origin)
    assert [time for _, time in world.state.timers] == [due for _, due in origin.state.timers]


def test_a_question_is_asked_again() -> None:
    origin = session()
    ask_for_calls(origin, call("talk"))
    origin.apply(ToolReturned("c3", 1, Effect(AskPerson("which?"))))
    world = fork(origin)
    (question,) = (waiting.question for waiting in world.state.waiting_calls)
    assert question is not None
    assert AskUser(question.ref, "c3", "which?") in [envelope.event for envelope in world.records[0].events]
    step = world.apply(RespondSent(question.ref, "that one"))
    assert "RequestStart" in names(step)


def test_a_fork_of_a_sub_agent_works_for_nobody() -> None:
    state = session().state
    origin = state.but(setup=state.setup.but(path=("p", "c3"), shares=True))
    assert branch(origin, "fork").setup == state.setup
