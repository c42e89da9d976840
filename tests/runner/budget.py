"""`Budget`: what a test of `make test` may cost.

It may not start a process, and its CPU time is bounded: its own with that of its fixtures, and an equal share of what
the fixtures of its file took. On a slower machine, or beside other work, each second of CPU does less: the budget
grows with the time of a fixed loop, which is measured at the beginning, and again for a test that is over it. What is
over it at first is run again, as it may have paid for an import. What is over it then is listed at the end of the run,
and fails if it is far over it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Sequence
from multiprocessing import util
from typing import Final, ParamSpec

import pytest

from tests.runner.finished_test import FinishedTest
from tests.runner.speed import slowness

P = ParamSpec("P")

STARTS: Final = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen"})
"""Audit events of a process that is started."""

FAR_OVER: Final = 3.0
"""A test that takes so many times its budget fails; one that takes less is listed, as the time of one test varies."""


class Budget:
    """Measures the tests of one worker; a plugin of pytest there."""

    def __init__(self, seconds: float) -> None:
        self._slowness = slowness()
        self.seconds = seconds * self._slowness
        """What a test may take on this machine, as it was at the beginning."""
        self.shared_seconds = 0.0
        """What fixtures of files took in the piece that runs."""
        self._started = False
        self._starting_fixtures: set[str] = set()
        self._in_shared = False
        sys.addaudithook(self._hear)
        # `multiprocessing` starts processes by a function without an audit event.
        util.spawnv_passfds = self._noted(util.spawnv_passfds)

    def _noted(self, start: Callable[P, int]) -> Callable[P, int]:
        """Return *start*, a function that starts a process, such that a call of it is noted."""

        def noted(*args: P.args, **options: P.kwargs) -> int:
            self._started = True
            return start(*args, **options)

        return noted

    def _hear(self, event: str, args: tuple[object, ...]) -> None:
        if event in STARTS:
            self._started = True

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> Generator[None, object, object]:
        """Measure a fixture that several tests share."""
        if fixturedef.scope == "function" or self._in_shared:
            return (yield)
        self._in_shared = True
        started, self._started = self._started, False
        before = time.process_time()
        try:
            return (yield)
        finally:
            self.shared_seconds += time.process_time() - before
            self._in_shared = False
            if self._started:
                self._starting_fixtures.add(fixturedef.argname)
            self._started |= started

    def begin(self) -> tuple[float, float]:
        """Begin a test; `cost` takes what is returned."""
        self._started = False
        return time.process_time(), self.shared_seconds

    def cost(self, begun: tuple[float, float]) -> float:
        """Return the CPU seconds of the test since `begin`, without fixtures that several tests share."""
        return time.process_time() - begun[0] - (self.shared_seconds - begun[1])

    def as_at_the_beginning(self, cost: float) -> float:
        """Return *cost*, measured just now, for the machine at the beginning: other work may have begun since."""
        return cost / max(slowness() / self._slowness, 1.0)

    def has_started_a_process(self, item: pytest.Item) -> bool:
        """Whether *item*, which has begun last, started a process, or a fixture did that it shares with others."""
        names = item.fixturenames if isinstance(item, pytest.Function) else ()
        return self._started or not self._starting_fixtures.isdisjoint(names)

    def problem(self, test: FinishedTest, share: float) -> str | None:
        """Return why *test*, which has a *share* of its file's fixtures, fails; `None` if it does not."""
        if test.has_started_a_process:
            return "it started a process: mark it `long`, as `make test` runs what needs none"
        if test.cost + share <= FAR_OVER * self.seconds:
            return None
        return (
            f"it took {test.cost:.2f} s of CPU, and {share:.2f} s for its share of the fixtures of its file, "
            f"where {self.seconds:.2f} s are allowed: make it smaller, or mark it `long`"
        )


def hold_to_budget(tests: Sequence[FinishedTest], budget: Budget) -> dict[int, float]:
    """Have each of the *tests* of a piece fail that has passed and was far over the *budget*, or started a process.

    Return the seconds of those that were over it, by their places in the list of all tests.
    """
    share = budget.shared_seconds / len(tests) if tests else 0.0
    passed = [test for test in tests if test.has_passed]
    for test in passed:
        problem = budget.problem(test, share)
        if problem:
            report = next(report for report in test.reports if report.when == "call")
            report.outcome = "failed"
            report.longrepr = problem
    return {test.index: test.cost + share for test in passed if test.cost + share > budget.seconds}
