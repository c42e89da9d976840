"""Several calls that have ended when the session looks: one step handles them as steps of their own would."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from agentrail import Abort, Continue, Options
from agentrail.core.vocabulary.effects import AnyEffect, CancelCalls, ClearTimer, SetTimer, StartCall, StartRequest
from agentrail.core.vocabulary.inputs import CallsEnded, ToolRaised, ToolStopped
from agentrail.events import AgentAbort, Event, ToolKilled
from agentrail.plugins import AfterTool, Hook
from agentrail.testing.probe_plugins import Answering, Asker
from agentrail.tools import ok
from tests.core.driving import ask_for_calls, call, session
from tests.kit import ToolReturned
from tests.machinery.worlds.checked_world import CheckedWorld

End = ToolReturned | ToolRaised | ToolStopped


class StopsAtC3(Answering):
    """Aborts the turn when it sees the result of the first call."""

    def answer(self, hook: Hook, state: int) -> object:
        return Abort("enough") if isinstance(hook, AfterTool) and hook.call_id == "c3" else Continue(state)


def two_at_a_time() -> CheckedWorld:
    return session(options=Options(max_parallel_tools=2))


def asking() -> CheckedWorld:
    return session(Asker("after_tool"))


def stopping() -> CheckedWorld:
    return session(StopsAtC3())


DONE = ToolReturned("c3", 1, ok("one")), ToolReturned("c4", 1, ok("two")), ToolReturned("c5", 1, ok("three"))
CASES: dict[str, tuple[Callable[[], CheckedWorld], Sequence[End]]] = {
    "all return": (session, DONE),
    "in another order": (session, DONE[::-1]),
    "some return": (session, DONE[:2]),
    "one raises and runs again": (session, (ToolRaised("c3", 1, "Oops"), DONE[1])),
    "one was stopped": (session, (DONE[0], ToolStopped("c4", 1), DONE[2])),
    "one makes room for the next": (two_at_a_time, DONE[:2]),
    "a plugin asks about each": (asking, DONE),
    "the end of one ends the turn": (stopping, DONE),
}


def begun(make: Callable[[], CheckedWorld]) -> CheckedWorld:
    world = make()
    ask_for_calls(world, call("read", "a"), call("read", "b"), call("read", "c"))
    return world


@pytest.mark.parametrize("case", CASES)
def test_one_step_does_what_steps_of_their_own_do(case: str) -> None:
    make, ends = CASES[case]
    apart, together = begun(make), begun(make)
    events: list[Event] = []
    effects: list[AnyEffect] = []
    for end in ends:
        step = apart.apply(end)
        events += [envelope.event for envelope in step.events]
        effects += step.effects
    step = together.apply(CallsEnded(tuple(ends)))
    assert [envelope.event for envelope in step.events] == events
    assert list(step.effects) == effects
    assert step.state == apart.state


def test_a_call_that_has_ended_too_is_cancelled_in_vain_when_the_end_of_another_ends_the_turn() -> None:
    world = begun(stopping)
    step = world.apply(CallsEnded(DONE))
    events = [envelope.event for envelope in step.events if isinstance(envelope.event, ToolKilled | AgentAbort)]
    assert [type(event) for event in events] == [ToolKilled, ToolKilled, AgentAbort]
    assert [effect for effect in step.effects if not isinstance(effect, SetTimer | ClearTimer)] == [
        CancelCalls(("c4", "c5"))
    ]
    assert step.state.quarantined_calls == ()


def test_a_call_starts_when_one_of_several_makes_room_and_the_model_is_asked_when_all_are_done() -> None:
    world = begun(two_at_a_time)
    step = world.apply(CallsEnded(DONE[:2]))
    assert [type(effect) for effect in step.effects if isinstance(effect, StartCall | StartRequest)] == [StartCall]
    step = world.apply(CallsEnded(DONE[2:]))
    assert [type(effect) for effect in step.effects if isinstance(effect, StartCall | StartRequest)] == [StartRequest]
