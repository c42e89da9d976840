"""Simulates a whole supervisor in virtual time from one seed: its sessions, callers, subscribers, journal and faults.

    report = Simulator(plugins=[MyPlugin()]).check(seed=7)

In both modes no rule of `RULES` may ever be broken. In the mode `safety` the faults never stop. In the mode `liveness`
they stop at the end of the last life, and then every session must come to rest. The same seed gives the same run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext
from functools import partial
from typing import ClassVar, Final

from agentrail.adapters.journals.memory import MemoryJournal
from agentrail.errors import BadChoice
from agentrail.hooks.plugin import Attachable
from agentrail.testing.simulator.callers import DOINGS
from agentrail.testing.simulator.canary import logs_read
from agentrail.testing.simulator.environment import Environment
from agentrail.testing.simulator.fault_kinds import BY_NAME, RUNS
from agentrail.testing.simulator.outage_rules import outages_watched
from agentrail.testing.simulator.patches import breakable, watched
from agentrail.testing.simulator.process_life import Life
from agentrail.testing.simulator.rules import BrokenInvariant
from agentrail.testing.simulator.run_settings import draw_temper
from agentrail.testing.simulator.virtual import NothingMovesError, run
from agentrail.values.argument_checks import checked
from agentrail.values.value import Value

MODES: Final = ("safety", "liveness")
SECONDS: Final = 12.0
"""Length of one life of the process, in virtual seconds."""
PROGRAM: Final = "agentrail.testing.simulator"
"""Name of the module that runs simulations from the command line."""


class Report(Value, gc=True):
    """The result of one simulation."""

    seed: int
    """Seed of the run."""
    mode: str
    """Mode of the run: `safety` or `liveness`."""
    digest: str
    """A hash of everything that happened; two runs from the same seed have the same one."""
    problem: BrokenInvariant | None
    """The first rule that was broken, and how; `None` if none was."""
    faults: Counter[str]
    """How often each fault has fired."""
    doings: Counter[str]
    """How often callers did each action."""
    records: int
    """How many records were written."""
    lives: int
    """How many lives the process had."""
    lines: tuple[str, ...] = ()
    """The trace of the run, line by line; empty unless it was asked for."""
    program: str = PROGRAM
    """Name of the module that repeats the run."""

    @property
    def command(self) -> str:
        """The shell command that repeats the run."""
        return f"python -m {self.program} --seed {self.seed} --mode {self.mode} --trace"


class SimulationFailedError(AssertionError):
    """A rule was broken in a simulation."""

    def __init__(self, report: Report) -> None:
        super().__init__(f"seed {report.seed}, {report.mode}: {report.problem}\nrepeat it: {report.command}")
        self.report = report


class Simulator:
    """Runs simulations: whole supervisors, each from one seed."""

    program: ClassVar[str] = PROGRAM
    """Name of the module that repeats a run from the command line."""

    @checked
    def __init__(
        self,
        mode: str = "safety",
        *,
        plugins: Iterable[Attachable] = (),
        faults: Iterable[str] | None = None,
        seconds: float = SECONDS,
    ) -> None:
        if mode not in MODES:
            raise BadChoice.among("mode", mode, MODES)
        self.mode = mode
        self._plugins = tuple(plugins)
        self._faults = tuple(BY_NAME) if faults is None else tuple(faults)
        self._runs = RUNS if faults is None else 100
        for name in self._faults:
            if name not in BY_NAME:
                raise BadChoice.among("faults", name, BY_NAME)
        self._seconds = seconds

    def check(self, seed: int) -> Report:
        """Run one simulation; raise `SimulationFailedError` if a rule was broken."""
        report = self.run(seed)
        if report.problem is not None:
            raise SimulationFailedError(report)
        return report

    def environment(self, seed: int) -> Environment:
        """Return the stage of a run; override this for one whose parts check more."""
        return Environment(seed, self._faults, self._runs)

    def run(self, seed: int, *, trace: bool = False) -> Report:
        """Run one simulation and return its report; with *trace*, the report has what happened, line by line."""
        environment = self.environment(seed)
        if trace:
            environment.verdict.lines = []
        others = (doing.name for doing in DOINGS if doing.name != "prompt")
        environment.temper = draw_temper(environment.choice("temper"), others)
        environment.auditor.canary = environment.temper.canary
        reading = logs_read(environment.verdict) if environment.temper.canary else nullcontext()
        choose = environment.choice("run")
        disk = MemoryJournal(encode=choose.percent(10), keep=None)
        lives = choose.pick((1, 1, 2, 3))
        life_count = 0
        with breakable(environment), watched(environment), outages_watched(environment), reading:
            while life_count < lives and environment.verdict.problem is None:
                life_count += 1
                last = life_count == lives
                life = Life(environment, disk, life_count, self._plugins)
                calm = last and self.mode == "liveness"
                main = partial(life.run, seconds=self._seconds, last=last, calm=calm)
                try:
                    run(choose.below(2**32), environment.watch, main, logs=environment.temper.canary)
                except NothingMovesError:
                    text = "the supervisor never ends: nothing moves any more, or time stands still"
                    environment.demand(holds=False, rule="rest", text=text)
                environment.watch.day += choose.below(60)
                if environment.fires("clock_turned_back"):
                    environment.watch.turn_back(choose.below(7200))
        verdict = environment.verdict
        records = sum(book.records for book in environment.auditor.books.values())
        return Report(
            seed,
            self.mode,
            verdict.digest,
            verdict.problem,
            environment.chaos.counts,
            environment.doings,
            records,
            life_count,
            tuple(verdict.lines or ()),
            self.program,
        )
