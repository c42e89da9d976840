"""Where actors are made to crash on purpose, around a step and before an effect, and where they are seen to go."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from agentrail.core.effects import AnyEffect
from agentrail.core.inputs import Arrival
from agentrail.core.state import State
from agentrail.core.step import Step, step
from agentrail.hooks.judge import Judge
from agentrail.runtime import session
from agentrail.runtime.children import Child
from agentrail.runtime.node import Node
from agentrail.runtime.performing import Performer
from agentrail.runtime.session import Session
from agentrail.testing.simulator.players import BrokenOnPurposeError
from agentrail.testing.simulator.stage import Stage
from agentrail.testing.simulator.virtual import swapped


@contextmanager
def breakable(stage: Stage) -> Generator[None]:
    """Have actors break as the faults say, and note in which order their supervisor ends them."""
    perform, finish = Performer.perform, Session.finish
    park, stop = Node.park, Node.stop

    def breaking_step(state: State, arrival: Arrival, judge: Judge) -> Step:
        stage.moment(state.session_id)
        given: object = arrival.input
        if stage.fires("message_poisoned"):
            stage.poison.append(given)
        if stage.fires("actor_breaks") or any(given is poison for poison in stage.poison):
            raise BrokenOnPurposeError("step")
        done = step(state, arrival, judge)
        if stage.fires("actor_breaks_behind"):
            raise BrokenOnPurposeError("step")
        return done

    def breaking_perform(performer: Performer, effect: AnyEffect) -> None:
        if stage.fires("effect_breaks"):
            raise BrokenOnPurposeError(type(effect).__name__)
        perform(performer, effect)

    async def noted_park(node: Node, child: Child) -> None:
        stage.ending.add(child.key)
        await park(node, child)

    async def noted_stop(node: Node, child: Child) -> None:
        stage.ending.add(child.key)
        await stop(node, child)

    def noted_finish(ended: Session, error: BaseException | None) -> None:
        if ended.session_id in stage.ending:
            stage.down.append(ended.session_id)
        finish(ended, error)

    with ExitStack() as swaps:
        swaps.enter_context(swapped(Node, "park", noted_park))
        swaps.enter_context(swapped(Node, "stop", noted_stop))
        swaps.enter_context(swapped(Session, "finish", noted_finish))
        swaps.enter_context(swapped(session, "step", breaking_step))
        swaps.enter_context(swapped(Performer, "perform", breaking_perform))
        yield
