"""`CheckedWorld`: a random session whose every step is checked against the invariants of a session.

The world that ships draws what happens and leaves it to its user what must hold; what holds for any plugins is ours to
check. So each test that plays sessions to see that the machine is right plays them here.
"""

from __future__ import annotations

from operator import is_

from msgspec.structs import astuple

from agentrail.core.machine.step import Step
from agentrail.hooks.hook_runner import Storable
from agentrail.testing import Choose, Scene, World
from agentrail.testing.probe_plugins import can_store
from agentrail.testing.world.outstanding import demand
from tests.kit import AnyInput
from tests.machinery.checks.state_invariants import Ledger
from tests.machinery.worlds.table_tally import Tally


class CheckedWorld(World):
    """A world that checks the invariants after every step, and counts the rows of the table that it reaches.

    With *seek*, inputs for rows of the table that the tally has seen least are drawn more often.
    """

    def __init__(
        self,
        scene: Scene,
        *,
        session_id: str = "s",
        storable: Storable = can_store,
        tally: Tally | None = None,
        seek: bool = False,
    ) -> None:
        super().__init__(scene, session_id=session_id, storable=storable)
        self.tally = tally if tally is not None else Tally()
        self.ledger = Ledger()
        self._seek = seek

    def go(self, choose: Choose) -> Step | None:
        """Draw an input and make the step; return `None` if there is no possible input."""
        if not self._seek:
            return super().go(choose)
        moves = self.moves()
        if not moves:
            return None
        weights = [move.weight for move in moves]
        if choose.percent(50):
            weight_of = self.tally.wanted
            weights = [move.weight * weight_of(self.state.phase, move.kind, apt=move.apt) for move in moves]
        move = choose.weighted(tuple(zip(weights, moves, strict=True)))
        return self.apply(move.make(choose), choose)

    def apply(self, input_: AnyInput, choose: Choose | None = None) -> Step:
        """Make a step with *input_*, perform its effects, and check the invariants; return the step."""
        old = self.state
        copy, length, tools = old.but(), len(old.history), dict(old.tools)
        step_ = super().apply(input_, choose)
        same = all(map(is_, astuple(old), astuple(copy)))
        demand(same and len(old.history) == length and dict(old.tools) == tools, "the state given was changed")
        self.tally.note(old, type(input_), step_)
        self.ledger.check(old, self.records[-1].arrival, step_, self.out)
        return step_


def checked_play(
    choose: Choose, scene: Scene, steps: int, *, tally: Tally | None = None, seek: bool = False
) -> CheckedWorld:
    """Play the session of *scene* for at most *steps* inputs, each step checked, and return its world."""
    world = CheckedWorld(scene, tally=tally, seek=seek)
    world.play(choose, steps)
    return world
