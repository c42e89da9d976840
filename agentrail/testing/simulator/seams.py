"""Where an actor is made to crash on purpose: before a step, behind it, and before an effect is carried out."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from agentrail.core.effects import AnyEffect
from agentrail.core.inputs import Arrival
from agentrail.core.state import State
from agentrail.core.step import Step, step
from agentrail.hooks.judge import Judge
from agentrail.runtime import session
from agentrail.runtime.performing import Performer
from agentrail.testing.simulator.players import BrokenOnPurposeError
from agentrail.testing.simulator.stage import Stage
from agentrail.testing.simulator.virtual import swapped


@contextmanager
def breakable(stage: Stage) -> Generator[None]:
    """Have actors break as the faults say."""
    perform = Performer.perform

    def breaking_step(state: State, arrival: Arrival, judge: Judge) -> Step:
        stage.moment(state.session_id)
        if stage.fires("actor_breaks"):
            raise BrokenOnPurposeError("step")
        done = step(state, arrival, judge)
        if stage.fires("actor_breaks_behind"):
            raise BrokenOnPurposeError("step")
        return done

    def breaking_perform(performer: Performer, effect: AnyEffect) -> None:
        if stage.fires("effect_breaks"):
            raise BrokenOnPurposeError(type(effect).__name__)
        perform(performer, effect)

    with ExitStack() as swaps:
        swaps.enter_context(swapped(session, "step", breaking_step))
        swaps.enter_context(swapped(Performer, "perform", breaking_perform))
        yield
