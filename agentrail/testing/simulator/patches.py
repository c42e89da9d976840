"""Wraps functions of the runtime: to make actors crash on purpose, and to note sessions and timers for the checks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager

import trio

from agentrail.core.machine.step import Step, step
from agentrail.core.vocabulary.effects import AnyEffect
from agentrail.core.vocabulary.inputs import Arrival
from agentrail.core.vocabulary.state import State
from agentrail.errors import AgentrailError
from agentrail.hooks.hook_runner import HookRunner
from agentrail.ports import journal
from agentrail.runtime.actor import journal_log, session
from agentrail.runtime.actor.effect_runner import EffectRunner
from agentrail.runtime.actor.journal_log import SNAPSHOT_EVERY
from agentrail.runtime.actor.session import Session
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.replies import relieve
from agentrail.runtime.shared.timers import Key, Timers
from agentrail.runtime.supervision.children import Child
from agentrail.runtime.supervision.supervisor import SupervisorNode
from agentrail.testing.simulator.environment import Environment
from agentrail.testing.simulator.faulty_parts import BrokenOnPurposeError
from agentrail.testing.simulator.virtual import swapped


@contextmanager
def breakable(environment: Environment) -> Generator[None]:
    """Within this block, actors crash when faults fire, and the order in which a supervisor ends them is noted."""
    perform, finish = EffectRunner.perform, Session.finish
    park, stop = SupervisorNode.park, SupervisorNode.stop

    def breaking_step(state: State, arrival: Arrival, hook_runner: HookRunner) -> Step:
        environment.strike(state.session_id)
        input_: object = arrival.input
        if environment.fires("message_poisoned"):
            environment.poison.append(input_)
        if environment.fires("actor_breaks") or any(input_ is poison for poison in environment.poison):
            raise BrokenOnPurposeError("step")
        step_ = step(state, arrival, hook_runner)
        if environment.fires("actor_breaks_behind"):
            raise BrokenOnPurposeError("step")
        return step_

    def breaking_perform(effect_runner: EffectRunner, effect: AnyEffect) -> None:
        if environment.fires("effect_breaks"):
            raise BrokenOnPurposeError(type(effect).__name__)
        perform(effect_runner, effect)

    async def noted_park(node: SupervisorNode, child: Child) -> None:
        environment.ending.add(child.key)
        await park(node, child)

    async def noted_stop(node: SupervisorNode, child: Child) -> None:
        environment.ending.add(child.key)
        await stop(node, child)

    def noted_finish(ended: Session, error: BaseException | None) -> None:
        if ended.session_id in environment.ending:
            environment.down.append(ended.session_id)
        finish(ended, error)

    with ExitStack() as swaps:
        swaps.enter_context(swapped(SupervisorNode, "park", noted_park))
        swaps.enter_context(swapped(SupervisorNode, "stop", noted_stop))
        swaps.enter_context(swapped(Session, "finish", noted_finish))
        swaps.enter_context(swapped(session, "step", breaking_step))
        swaps.enter_context(swapped(EffectRunner, "perform", breaking_perform))
        yield


@contextmanager
def watched(environment: Environment) -> Generator[None]:
    """Within this block, the stage notes living sessions and set timers, and chooses how often snapshots are kept."""
    run = Session.run

    def noted_relieve(session_id: str, letters: Iterable[Letter], stuck: AgentrailError) -> None:
        environment.relieved[session_id] += 1
        relieve(session_id, letters, stuck)

    async def noted_run(begun: Session) -> None:
        environment.actors[begun.session_id] = begun
        await run(begun)

    with ExitStack() as swaps:
        swaps.enter_context(swapped(journal_log, "SNAPSHOT_EVERY", environment.temper.snapshots))
        if environment.temper.snapshots < SNAPSHOT_EVERY:
            swaps.enter_context(swapped(journal, "MAX_KEPT", 0))
        swaps.enter_context(swapped(Session, "run", noted_run))
        swaps.enter_context(swapped(session, "relieve", noted_relieve))
        swaps.enter_context(_timed(environment))
        yield


@contextmanager
def _timed(environment: Environment) -> Generator[None]:
    """Within this block, note each timer that is set; check of each that fires that it was set and is not early."""
    set_timer, clear_timer, clear_all = Timers.set, Timers.clear, Timers.clear_all

    def noted_set(timers: Timers, key: Key, due: float, fire: Callable[[], None]) -> None:
        mine = object()

        def fires() -> None:
            now = trio.current_time()
            environment.demand(
                environment.timers.pop(key, None) is mine, "timers", "{} fires, and was cleared or set anew", key
            )
            environment.demand(now >= due, "timers", "{} fires {:.3f} s before its time", key, due - now)
            fire()

        environment.timers[key] = mine
        set_timer(timers, key, due, fires)

    def noted_clear(timers: Timers, key: Key) -> None:
        environment.timers.pop(key, None)
        clear_timer(timers, key)

    def noted_clear_all(timers: Timers, owner: str) -> None:
        for key in [key for key in environment.timers if key[0] == owner]:
            del environment.timers[key]
        clear_all(timers, owner)

    with ExitStack() as swaps:
        swaps.enter_context(swapped(Timers, "set", noted_set))
        swaps.enter_context(swapped(Timers, "clear", noted_clear))
        swaps.enter_context(swapped(Timers, "clear_all", noted_clear_all))
        yield
