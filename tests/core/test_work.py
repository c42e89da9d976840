"""The time in which a session works: what counts, when it is written, and what a restart loses of it."""

from __future__ import annotations

from attrs import frozen

from agentrail import Plugin, State
from agentrail.core.machine.forking import branch
from agentrail.core.machine.step import COUNTED_EVERY
from agentrail.core.vocabulary.inputs import ElsewhereUsed, SubagentEnded, SubagentReported, SubagentStarted
from agentrail.plugins import WorkTime
from agentrail.testing import Holder
from agentrail.tools import ok
from tests.core.driving import answer, apply_all, ask_for_calls, back, call, hello, session
from tests.kit import NOTHING_USED, ApproveSent, ToolReturned
from tests.machinery.worlds.checked_world import CheckedWorld

CHILD = "s.c3"


@frozen
class Counts(Plugin):
    """Wants to know how long the session has worked."""

    @property
    def declarations(self) -> tuple[WorkTime]:
        return (WorkTime(),)


def counted(state: State) -> tuple[int, int | None]:
    return state.worked_ms, state.working_since_ms


def after(world: CheckedWorld, ms: int) -> CheckedWorld:
    world.now += ms
    return world


def parent() -> CheckedWorld:
    """Return a session with a sub-agent in the background, whose turn has ended."""
    world = session(Counts())
    ask_for_calls(world, call("keep"))
    apply_all(world, SubagentStarted(CHILD, "c3", "helper", "help", background=True), ToolReturned("c3", 1, ok("runs")))
    answer(after(world, 500), text="done")
    return world


def test_a_turn_counts_from_its_begin_to_its_end() -> None:
    world = session(Counts())
    began = after(world, 5_000).now
    world.apply(hello())
    assert counted(world.state) == (0, began)
    answer(after(world, COUNTED_EVERY - 1), text="done")
    assert counted(world.state) == (999, None)
    assert (world.state.worked(world.now + 10_000), world.state.turn) == (999, None)


def test_a_long_stretch_is_counted_on_the_way() -> None:
    world = session(Counts())
    began = world.now
    world.apply(hello())
    answer(after(world, COUNTED_EVERY - 1), call("read"))
    assert counted(world.state) == (0, began)
    (running,) = world.out.live_calls
    world.apply(ToolReturned(running, 1, ok("tea")))
    answer(after(world, 1), call("read", "b"))
    assert counted(world.state) == (COUNTED_EVERY, began + COUNTED_EVERY)


def test_the_time_in_which_all_calls_wait_for_a_person_does_not_count() -> None:
    world = session(Counts(), Holder(frozenset({"write"}), None, None))
    world.apply(hello())
    answer(after(world, 300), call("write"))
    assert counted(world.state) == (300, None)
    (held,) = world.state.waiting_calls
    assert held.hold is not None
    after(world, 60_000).apply(ApproveSent(held.hold.approval_id))
    assert counted(world.state) == (300, world.now)


def test_a_sub_agent_counts_until_it_waits_for_a_person_and_its_own_do_too() -> None:
    world = parent()
    began = world.now - 500
    assert world.state.turn is None
    assert world.state.worked(world.now + 400) == 900
    works_below = SubagentReported(CHILD, waits=True, works=True)
    after(world, 600).apply(works_below)
    assert counted(world.state)[1] is not None
    after(world, 400).apply(works_below.but(works=False))
    assert counted(world.state) == (world.now - began, None)
    so_far = world.state.worked_ms
    after(world, 9_000).apply(works_below.but(waits=False))
    after(world, 100).apply(SubagentEnded(CHILD, ok("found")))
    assert counted(world.state) == (so_far + 100, None)


def test_a_turn_that_waits_for_the_person_of_its_sub_agent_does_not_count() -> None:
    world = session(Counts())
    began = world.now
    ask_for_calls(world, call("keep"))
    world.apply(SubagentStarted(CHILD, "c3", "helper", "help"))
    after(world, 300).apply(SubagentReported(CHILD, waits=True, works=False))
    assert counted(world.state) == (world.now - began, None)


def test_a_clock_that_is_set_back_counts_nothing() -> None:
    world = session(Counts())
    world.apply(hello())
    began = world.now
    assert world.state.worked(began - 7_000) == 0
    world.now -= 7_000
    answer(world, text="done")
    assert counted(world.state) == (0, None)


def test_the_time_until_a_session_is_back_does_not_count() -> None:
    world = session(Counts())
    world.apply(hello())
    answer(after(world, 2_000), call("read"))
    assert counted(world.state) == (2_000, world.now)
    after(world, 3_600_000).apply(back(world))
    assert counted(world.state) == (2_000, world.now)


def test_a_fork_has_worked_as_long_and_begins_anew() -> None:
    world = session(Counts())
    world.apply(hello())
    answer(after(world, 2_000), call("read"))
    assert counted(branch(world.state, "fork")) == (2_000, None)


def test_what_others_worked_is_kept_apart() -> None:
    world = session(Counts())
    world.apply(ElsewhereUsed(NOTHING_USED, 700))
    assert (world.state.shared_worked_ms, world.state.worked(world.now)) == (700, 0)
