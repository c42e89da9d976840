"""`Worker`: a forked process that runs the pieces that it is handed."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from time import monotonic
from typing import Final, NoReturn, TypeAlias, cast

import pytest

from tests.runner.budget import Budget, hold_to_budget
from tests.runner.finished_test import FinishedTest
from tests.runner.leftovers import Leftovers, Problem
from tests.runner.messages import Ended, Passed, PieceReport, Reported
from tests.runner.shared_state import NO_TEST, SharedState

Link: TypeAlias = "Connection[PieceReport | Ended, tuple[int, ...] | None]"

TELL_AFTER: Final = 1.0
"""Seconds after which a worker tells what it has, in the middle of a piece: people see that it goes on."""

AGAIN: Final = 3
"""How often a test over the budget is run again: the least time counts."""

REPORTERS: Final = ("terminalreporter", "lfplugin", "nfplugin", "stepwiseplugin")
"""Plugins of pytest that belong to the process that has forked the workers."""


class Worker:
    """Runs tests, and tells what became of them; a plugin of pytest in its process."""

    def __init__(self, session: pytest.Session, link: Link, number: int, state: SharedState) -> None:
        self._session = session
        self._link = link
        self._number = number
        self._state = state
        self._budget: Budget | None = None
        self._leftovers = Leftovers()
        self._test: list[pytest.TestReport] = []
        self._previous = ""
        self._failures = 0
        self._told_at = monotonic()

    def run_and_exit(self) -> NoReturn:
        """Run pieces until there is none, and end the process without what its parent has to do at its end."""
        status = 1
        try:
            self._be_alone()
            try:
                self._run_pieces()
            finally:
                self._session.config.hook.pytest_sessionfinish(session=self._session, exitstatus=0)
            left = [self._report_left(problem) for problem in self._leftovers.end()]
            self._link.send(Ended(left, self._leftovers.daemons()))
            status = 0
        except KeyboardInterrupt:
            pass  # its parent has it too, and shows it
        except BaseException:  # noqa: BLE001 - it is shown, and the parent says which test it was
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _run_pieces(self) -> None:
        with suppress(EOFError, BrokenPipeError):  # the parent is gone
            while (piece := self._link.recv()) is not None:
                self._run(piece)

    def _be_alone(self) -> None:
        """Let go of what belongs to the parent: its terminal, its reports, its captured output."""
        config = self._session.config
        plugins = config.pluginmanager
        for name in REPORTERS:
            plugins.unregister(name=name)
        for plugin in plugins.get_plugins():
            if type(plugin).__name__ == "LogXML":  # it has no name, and would write its file at the end of each worker
                plugins.unregister(plugin)
        capture = plugins.getplugin("capturemanager")
        if capture is not None:  # its file is the parent's: two processes would write at one position of it
            capture.stop_global_capturing()
            capture.start_global_capturing()
        plugins.register(self)
        if config.option.budget:
            self._budget = Budget(config.option.budget)
            plugins.register(self._budget)

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect what pytest reports of the test that runs."""
        self._test.append(report)

    def _run(self, piece: Sequence[int]) -> None:
        # After the last test all fixtures end but those of the session, which stay for the next piece.
        followers = [*(self._session.items[index] for index in piece[1:]), cast("pytest.Item", self._session)]
        tests: list[FinishedTest] = []
        if self._budget:
            self._budget.shared_seconds = 0.0
        for index, follower in zip(piece, followers, strict=True):
            if self._state.is_stopped:
                break
            self._state.running(self._number, index)
            tests.append(self._run_one(index, follower))
            self._leftovers.look(index)
            self._state.running(self._number, NO_TEST)
            if self._budget is None and monotonic() - self._told_at > TELL_AFTER:
                self._tell(tests, {}, (), is_piece_done=False)
                tests = []
        over = hold_to_budget(tests, self._budget) if self._budget else {}
        left = [self._report_left(problem) for problem in self._leftovers.end_piece()]
        self._tell(tests, over, left, is_piece_done=True)

    def _run_one(self, index: int, follower: pytest.Item) -> FinishedTest:
        item = self._session.items[index]
        cost, has_started = self._protocol(item, follower)
        run = FinishedTest(index, self._test, cost, has_started)
        if self._budget and run.has_passed and not has_started:
            self._run_again(run, item, follower, self._budget)
        for report in run.reports:
            if report.failed:
                self._failures += 1
                report.sections.append((f"worker {self._number}", self._circumstances()))
        if self._failures >= (self._session.config.option.maxfail or self._failures + 1):
            self._state.stop()
        self._previous = item.nodeid
        return run

    def _circumstances(self) -> str:
        """Return what repeats a failure that comes of what ran before."""
        seed = self._session.config.option.shuffle
        order = f", in the order of --shuffle {seed}" if seed else ""
        return f"the test before it was {self._previous or 'none'}{order}"

    def _run_again(self, run: FinishedTest, item: pytest.Item, follower: pytest.Item, budget: Budget) -> None:
        """Run a test that is over the *budget* again: it may have paid for an import, or waited for a cache."""
        for _ in range(AGAIN):
            if run.cost <= budget.seconds or not run.has_passed:
                return
            run.cost = min(run.cost, self._protocol(item, follower)[0])
            run.reports = self._test
        if run.cost > budget.seconds:
            run.cost = budget.as_at_the_beginning(run.cost)

    def _protocol(self, item: pytest.Item, follower: pytest.Item) -> tuple[float, bool]:
        """Run a test; return its CPU seconds, and whether it has started a process: both only if there is a budget."""
        self._test = []
        begun = self._budget.begin() if self._budget else None
        item.ihook.pytest_runtest_protocol(item=item, nextitem=follower)
        if self._budget is None or begun is None:
            return 0.0, False
        return self._budget.cost(begun), self._budget.has_started_a_process(item)

    def _tell(
        self, tests: Sequence[FinishedTest], over: Mapping[int, float], left: Sequence[Reported], *, is_piece_done: bool
    ) -> None:
        reports = [*(report for test in tests for report in self._reports_of(test)), *left]
        self._link.send(PieceReport(reports, [test.index for test in tests], over, is_piece_done))
        self._told_at = monotonic()

    def _report_left(self, problem: Problem) -> Reported:
        """Report an error of the test that has left something behind, or of this worker."""
        index, text = problem
        item = None if index is None else self._session.items[index]
        node_id = f"worker {self._number}" if item is None else item.nodeid
        location = (__file__, None, "leftovers") if item is None else item.location
        return self._reported(pytest.TestReport(node_id, location, {}, "failed", text, "teardown"))

    def _reports_of(self, test: FinishedTest) -> list[Passed | Reported]:
        if test.has_passed:
            return [Passed(test.index, sum(report.duration for report in test.reports))]
        return [self._reported(report) for report in test.reports]

    def _reported(self, report: pytest.TestReport) -> Reported:
        config = self._session.config
        return Reported(config.hook.pytest_report_to_serializable(config=config, report=report))
