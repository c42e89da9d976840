"""A Hypothesis state machine that plays a whole session: Hypothesis draws the inputs, and shrinks a run that fails.

Subclass `SessionMachine`, give it plugins, and add rules and invariants of your own:

    class Spending(SessionMachine):
        plugins = (BudgetGuard(max_tokens=100),)

        @invariant()
        def never_spends_more(self) -> None:
            assert self.world.state.usage.total_tokens <= 100 + ONE_RESPONSE

    TestSpending = Spending.TestCase
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from agentrail.core.vocabulary.commands import (
    AbortSent,
    ApproveSent,
    PromptSent,
    RejectSent,
    RespondSent,
    SteerSent,
    StopSent,
)
from agentrail.core.vocabulary.state import Phase, State
from agentrail.hooks.plugin import Attachable
from agentrail.testing.world.choose import Choose
from agentrail.testing.world.next_inputs import Move, results
from agentrail.testing.world.random_setups import Scene, draw_scene
from agentrail.testing.world.world import World
from agentrail.values.content import Text
from agentrail.values.value import Value

PEOPLE = (PromptSent, SteerSent, AbortSent, ApproveSent, RejectSent, RespondSent, StopSent)
"""Inputs of users that have a rule of their own in the state machine; all other inputs of users share one."""


def _alive(machine: SessionMachine) -> bool:
    return machine.world.state.phase is not Phase.ENDED


def _waits(machine: SessionMachine) -> bool:
    return _alive(machine) and bool(machine.world.state.waiting_calls)


def _owed(machine: SessionMachine) -> bool:
    return any(True for _ in results(machine.world.out))


class SessionMachine(RuleBasedStateMachine):
    """State machine over one random session: users act, work ends, time passes; its records must replay at the end."""

    plugins: ClassVar[tuple[Attachable, ...]] = ()
    """Plugins that every session has, beside those that are drawn."""

    def __init__(self) -> None:
        super().__init__()
        self.world: World

    def scene(self, choose: Choose) -> Scene:
        """Draw the setup of the session; override this to choose tools, options or plugins yourself."""
        return draw_scene(choose, self.plugins)

    def world_of(self, scene: Scene) -> World:
        """Return the world of the session; override this for one that checks more after each step."""
        return World(scene)

    @property
    def state(self) -> State:
        """The state of the session now."""
        return self.world.state

    def make(self, data: st.DataObject, is_wanted: Callable[[type[Value]], bool]) -> None:
        """Draw an input whose class fulfils *is_wanted*, and make the step; no-op if there is none."""
        choose = _choose(data)
        moves: list[tuple[int, Move]] = [(move.weight, move) for move in self.world.moves() if is_wanted(move.kind)]
        if moves:
            self.world.apply(choose.weighted(moves).make(choose), choose)

    @initialize(data=st.data())
    def open(self, data: st.DataObject) -> None:
        """Draw the session and open it."""
        self.world = self.world_of(self.scene(_choose(data)))
        self.world.open()

    @precondition(_owed)
    @rule(data=st.data())
    def something_answers(self, data: st.DataObject) -> None:
        """Draw an input that an outstanding effect can cause, and make the step."""
        choose = _choose(data)
        owed = [(move.weight, move) for move in results(self.world.out)]
        self.world.apply(choose.weighted(owed).make(choose), choose)

    @precondition(_alive)
    @rule(data=st.data())
    def the_user_prompts(self, data: st.DataObject) -> None:
        """Call `prompt`."""
        self.make(data, lambda kind: kind is PromptSent)

    @precondition(_alive)
    @rule(data=st.data())
    def the_user_steers(self, data: st.DataObject) -> None:
        """Call `steer`."""
        self.make(data, lambda kind: kind is SteerSent)

    @precondition(_alive)
    @rule(data=st.data())
    def the_user_aborts(self, data: st.DataObject) -> None:
        """Call `abort`."""
        self.make(data, lambda kind: kind is AbortSent)

    @precondition(_waits)
    @rule(data=st.data())
    def the_user_decides(self, data: st.DataObject) -> None:
        """Call `approve`, `reject` or `respond`."""
        self.make(data, lambda kind: kind in (ApproveSent, RejectSent, RespondSent))

    @precondition(_alive)
    @rule(data=st.data())
    def somebody_calls(self, data: st.DataObject) -> None:
        """Draw an input that no other rule draws: a switch of model, a compaction, a result, a timer, a restart."""
        self.make(data, lambda kind: kind not in PEOPLE)

    @precondition(_alive)
    @rule(data=st.data())
    def the_user_stops(self, data: st.DataObject) -> None:
        """Call `stop`."""
        self.make(data, lambda kind: kind is StopSent)

    @precondition(lambda machine: not _alive(machine))
    @rule(text=st.text(max_size=5))
    def somebody_talks_to_an_ended_session(self, text: str) -> None:
        """Call `prompt` after the session has ended, and check that it is refused."""
        self.world.refuses(PromptSent((Text(text),)))

    def teardown(self) -> None:
        """Check that a replay of the session's records leads to the same state."""
        if hasattr(self, "world"):
            self.world.check_replay()


def _choose(data: st.DataObject) -> Choose:
    return Choose(lambda below: data.draw(st.integers(0, below - 1)))
