"""Mutants of the transition table: rows blanked, phases and effects removed, effects swallowed, illegal rows opened.

A promise is a phase or effect that a row allows. First each test of the machine is run once, and the promises that it
reaches are noted: it is then run against the mutants of these. Promises that no test reaches are looked for in random
sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, TypeVar

from attrs import frozen

import agentrail.testing.world.world as worlds
import tests.cells.bench as benches
from agentrail import State
from agentrail.core.machine import step as machine
from agentrail.core.machine.step import Step, step
from agentrail.core.machine.table import TABLE, TableRule
from agentrail.hooks.hook_runner import HookRunner
from agentrail.testing import Choose
from agentrail.values.value import Value
from property_tests.mutants.suite import Test, fails, steps
from property_tests.narrow import narrow_paths
from property_tests.volume import run_one
from tests.kit import AnyInput, Arrival, Phase
from tests.machinery.worlds.checked_world import CheckedWorld
from tests.machinery.worlds.table_tally import Tally

Kind: TypeAlias = type[Value]
Promise: TypeAlias = tuple[Phase, Kind, object]
Table: TypeAlias = Mapping[Phase, Mapping[Kind, TableRule]]
Machine: TypeAlias = Callable[[State, Arrival, HookRunner], Step]
T = TypeVar("T")

MOST_SEEDS: Final = 10_000


class Same(Choose):
    """Source of choices that makes `CheckedWorld.apply` repeat a recorded arrival: the same time and random number."""

    __slots__ = ("_arrival", "_world")

    def __init__(self, world: CheckedWorld, arrival: Arrival) -> None:
        super().__init__(lambda _: round(arrival.random * 10))
        self._arrival = arrival
        self._world = world

    def pick(self, options: Sequence[T]) -> T:
        """Return the milliseconds from now to the recorded time."""
        return self._arrival.at - self._world.now  # type: ignore[return-value]  # a time is what is asked for


class Reach:
    """Notes which tests reach which promises of the table."""

    def __init__(self) -> None:
        self.by: dict[Promise, list[Test]] = {}
        self.found: set[Promise] = set()

    def step(self, state: State, arrival: Arrival, hook_runner: HookRunner) -> Step:
        """Make the step, and note the promises that it reaches."""
        done = step(state, arrival, hook_runner)
        self.found |= set(reached(state, arrival, done))
        return done

    def watch(self, test: Test) -> None:
        """Run *test*, and note it for each promise that it reaches."""
        self.found = set()
        test[1]()
        for promise in self.found:
            self.by.setdefault(promise, []).append(test)


def reached(state: State, arrival: Arrival, done: Step) -> Iterator[Promise]:
    """Yield the promises that a step reaches: its row (as `Value`), the phase it led to, and each effect."""
    row = (state.phase, type(arrival.input))
    yield (*row, Value)
    if any(ruling.hook == "on_event" and ruling.critical for ruling in done.rulings):
        return  # a critical `on_event` may have aborted: its effects belong to the row of an abort
    yield (*row, done.state.phase)
    for effect in done.effects:
        yield (*row, type(effect))


def promises() -> list[Promise]:
    """Return every promise of the table; `Value` stands for the row itself."""
    return [
        (phase, kind, promise)
        for phase, rules in TABLE.items()
        for kind, rule in rules.items()
        if rule.to
        for promise in (
            Value,
            *sorted(rule.to, key=lambda to: to.value),
            *sorted(rule.may, key=lambda may: may.__name__),
        )
    ]


def reach() -> Reach:
    """Run all tests of the machine once, and return what they reach."""
    found = Reach()
    _install(TABLE, found.step)
    for test in steps():
        found.watch(test)
    _install(TABLE, step)
    return found


def worlds_for(wanted: set[Promise]) -> dict[Promise, Test]:
    """Play random sessions until each promise in *wanted* was reached; return for each a test that reaches it."""
    found: dict[Promise, Test] = {}
    apply = CheckedWorld.apply

    def watched(world: CheckedWorld, given: AnyInput, choose: Choose | None = None) -> Step:
        before = world.state
        done = apply(world, given, choose)
        for promise in set(reached(before, world.records[-1].arrival, done)) & wanted - set(found):
            found[promise] = (f"a world of {len(world.records)} steps", _driven(world, len(world.records)))
        return done

    replace(CheckedWorld, "apply", watched)
    tally = Tally()
    narrow_paths(tally)
    for seed in range(MOST_SEEDS):
        if len(found) == len(wanted):
            break
        run_one(seed, tally)
    replace(CheckedWorld, "apply", apply)
    return found


def _driven(world: CheckedWorld, steps: int) -> Callable[[], None]:
    """Return a test that repeats the first *steps* inputs of *world*, and checks all invariants after each."""

    def test() -> None:
        again = CheckedWorld(world.scene)
        again.hook_runner = world.hook_runner
        again.state = again.first = world.first
        for record in world.records[:steps]:
            again.apply(record.arrival.input, Same(again, record.arrival))

    return test


# The mutants


ROW_OPENED: Final = "row opened"


def with_rule(phase: Phase, kind: Kind, rule: TableRule) -> Table:
    """Return the table with *rule* for one phase and kind of input."""
    return {**TABLE, phase: {**TABLE[phase], kind: rule}}


def broken(phase: Phase, kind: Kind, promise: object) -> Table:
    """Return the table without one promise; with `Value` as the promise, the whole row is blank."""
    rule = TABLE[phase][kind]
    if promise is Value:
        return with_rule(phase, kind, TableRule(frozenset(), frozenset(), rule.why))
    return with_rule(phase, kind, TableRule(rule.to - {promise}, rule.may - {promise}, rule.why))


def swallowing(phase: Phase, kind: Kind, effect: object) -> Machine:
    """Return a machine that never asks for an effect in a row that promises it."""

    def swallow(state: State, arrival: Arrival, hook_runner: HookRunner) -> Step:
        done = step(state, arrival, hook_runner)
        if state.phase is not phase or type(arrival.input) is not kind:
            return done
        return done.but(effects=tuple(asked for asked in done.effects if type(asked) is not effect))

    return swallow


def replace(owner: object, name: str, new: object) -> None:
    """Set the attribute *name* of *owner* to *new*."""
    setattr(owner, name, new)


def _install(table: Table, machine_step: Machine) -> None:
    replace(machine, "TABLE", table)
    for owner in (benches, worlds):
        replace(owner, "step", machine_step)


@frozen
class Outcome:
    """A mutant of the table, and the test that failed; `None` if none did."""

    group: str
    name: str
    by: str | None


def outcomes() -> Iterator[Outcome]:
    """Yield each mutant of the table with the test, or the random session, that fails with it."""
    known = reach().by
    refusals = [test for test in steps() if "test_no_state_takes" in test[0]]
    left: list[Broken] = []
    for mutant in mutants():
        killer = mutant.killer(refusals if mutant.group == ROW_OPENED else known.get(mutant.promise, ()))
        if killer is None:
            left.append(mutant)
        else:
            yield Outcome(mutant.group, mutant.name, killer)
    sessions = worlds_for({mutant.promise for mutant in left})
    for mutant in left:
        found = sessions.get(mutant.promise)
        yield Outcome(mutant.group, mutant.name, mutant.killer([found] if found is not None else []))


@frozen
class Broken:
    """One mutant of the table."""

    group: str
    promise: Promise
    table: Table = TABLE
    step: Machine = step

    @property
    def name(self) -> str:
        """How a report names it."""
        phase, kind, promise = self.promise
        what = (
            ""
            if promise is Value
            else promise.value
            if isinstance(promise, Phase)
            else getattr(promise, "__name__", "")
        )
        return f"{phase.value} × {kind.__name__} {what}".strip()

    def killer(self, tests: Sequence[Test]) -> str | None:
        """Return the first of *tests* that notices."""
        _install(self.table, self.step)
        try:
            return next((name for name, test in tests if fails(test)), None)
        finally:
            _install(TABLE, step)


def mutants() -> Iterator[Broken]:
    """Yield every mutant of the table."""
    for promised in promises():
        group = _group(promised[2])
        yield Broken(group, promised, broken(*promised))
        if group == "promise dropped":
            yield Broken("effect swallowed", promised, step=swallowing(*promised))
    for phase, rules in TABLE.items():
        for kind, rule in rules.items():
            if not rule.to:
                opened = with_rule(phase, kind, TableRule(frozenset(Phase), frozenset(), rule.why))
                yield Broken(ROW_OPENED, (phase, kind, Value), opened)


def _group(promise: object) -> str:
    if promise is Value:
        return "row blanked"
    return "move dropped" if isinstance(promise, Phase) else "promise dropped"
