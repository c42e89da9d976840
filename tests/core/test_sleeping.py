"""A session may sleep while no work is under way, and wakes unchanged."""

from collections.abc import Callable

import pytest

from agentrail import Options
from agentrail.core.machine.actor_events import can_sleep
from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.commands import AttachPluginSent
from agentrail.core.vocabulary.inputs import (
    ActorRestarted,
    CrashedTooOften,
    SessionWoke,
    SleepDue,
    SubagentStarted,
    ToolStopped,
)
from agentrail.events import SessionHibernated, SessionRestarted, SessionWoken
from agentrail.testing import Holder
from agentrail.tools import ok
from tests.core.driving import answer, ask_for_calls, back, begin, call, events, hello, session
from tests.each_case import each_case
from tests.kit import AbortSent, CompactSent, StopSent, ToolReturned
from tests.machinery.worlds.checked_world import CheckedWorld


def held(*, queues: bool = False) -> CheckedWorld:
    """Return a session with a call that waits for a person."""
    options = Options(on_prompt_while_held="queue") if queues else None
    world = session(Holder(frozenset({"write"})), options=options)
    ask_for_calls(world, call("write"))
    return world


def asleep() -> CheckedWorld:
    world = session()
    world.apply(SleepDue())
    return world


@pytest.mark.parametrize("make", [session, held])
def test_a_session_sleeps_and_wakes_as_it_was(make: Callable[[], CheckedWorld]) -> None:
    world = make()
    old = world.state
    assert world.apply(SleepDue()) == Step(
        old.but(last_seq=old.last_seq + 1, asleep=True), events=world.records[-1].events
    )
    assert [envelope.event for envelope in world.records[-1].events] == [SessionHibernated()]
    assert events(world.apply(SessionWoke())) == [SessionWoken()]
    assert world.state == old.but(last_seq=old.last_seq + 2)


def _runs() -> CheckedWorld:
    world = session()
    world.apply(hello())
    return world


def _streams() -> CheckedWorld:
    world = _runs()
    begin(world)
    return world


def _runs_a_call() -> CheckedWorld:
    world = session()
    ask_for_calls(world, call("read"))
    return world


def _runs_a_call_in_the_background() -> CheckedWorld:
    world = session()
    ask_for_calls(world, call("keep"))
    world.apply(AbortSent())
    return world


def _waits_for_what_it_has_cancelled() -> CheckedWorld:
    world = session()
    ask_for_calls(world, call("write"))
    world.apply(AbortSent())
    return world


def _has_a_prompt_behind_a_held_call() -> CheckedWorld:
    world = held(queues=True)
    world.apply(hello("and then"))
    return world


def _is_to_change_a_plugin() -> CheckedWorld:
    world = held()
    world.apply(AttachPluginSent(world.teach("Other", Holder(frozenset()))))
    return world


def _rests_since_it_came_back() -> CheckedWorld:
    world = _runs_a_call()
    world.apply(back(world, pause=True))
    return world


def _has_a_sub_agent() -> CheckedWorld:
    world = session()
    ask_for_calls(world, call("talk"))
    world.apply(SubagentStarted("s.c3", "c3", "helper", "help", background=True))
    world.apply(ToolReturned("c3", 1, ok("it runs")))
    answer(world, text="it runs")
    return world


def _compacts() -> CheckedWorld:
    world = session()
    world.apply(hello())
    answer(world, text="hello to you")
    world.apply(CompactSent())
    return world


def _is_a_sub_agent() -> CheckedWorld:
    world = session()
    world.state = world.state.but(setup=world.state.setup.but(path=("s", "c3")))
    return world


@each_case(
    [
        *(_runs, _streams, _runs_a_call, _runs_a_call_in_the_background, _waits_for_what_it_has_cancelled),
        *(_has_a_prompt_behind_a_held_call, _is_to_change_a_plugin, _rests_since_it_came_back, _has_a_sub_agent),
        *(_compacts, _is_a_sub_agent, asleep),
    ]
)
def test_a_session_does_not_sleep_while_something_is_under_way(make: Callable[[], CheckedWorld]) -> None:
    world = make()
    old = world.state
    assert world.apply(SleepDue()) == Step(old)


def test_a_session_that_has_ended_does_not_sleep() -> None:
    world = session()
    world.apply(StopSent())
    assert not can_sleep(world.state)


@pytest.mark.parametrize(
    "make", [_runs, _streams, _runs_a_call, _runs_a_call_in_the_background, _has_a_sub_agent, _compacts]
)
def test_what_ends_without_a_person_is_work(make: Callable[[], CheckedWorld]) -> None:
    assert make().state.has_running_work


@pytest.mark.parametrize("make", [session, held, _waits_for_what_it_has_cancelled, _rests_since_it_came_back, asleep])
def test_what_does_not_is_none(make: Callable[[], CheckedWorld]) -> None:
    assert not make().state.has_running_work


def test_a_session_sleeps_when_what_it_has_cancelled_has_ended() -> None:
    world = _waits_for_what_it_has_cancelled()
    world.apply(ToolStopped("c3", 1))
    assert events(world.apply(SleepDue())) == [SessionHibernated()]


def test_one_that_is_awake_does_not_wake() -> None:
    world = session()
    old = world.state
    assert world.apply(SessionWoke()) == Step(old)


def test_one_that_comes_back_is_awake() -> None:
    world = asleep()
    world.apply(back(world))
    assert not world.state.asleep


def test_one_that_has_crashed_on_its_way_is_awake() -> None:
    world = asleep()
    old = world.state
    assert events(world.apply(ActorRestarted("KeyError: x"))) == [SessionRestarted("KeyError: x")]
    assert world.state == old.but(last_seq=old.last_seq + 1, asleep=False)


def test_one_that_crashes_too_often_remembers_why() -> None:
    world = session()
    world.apply(CrashedTooOften("KeyError: x"))
    assert world.state.quarantine_cause == "KeyError: x"
