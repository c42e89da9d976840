"""`Dispatcher`: forks the workers, hands out the pieces, and gives pytest the reports."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Final, TypeAlias, cast

import pytest
from attrs import define, field

from tests.runner.messages import Ended, Passed, PieceReport, Reported
from tests.runner.pieces import Piece, function_of
from tests.runner.progress import Progress
from tests.runner.shared_state import NO_TEST, SharedState
from tests.runner.worker import Worker

Link: TypeAlias = "Connection[tuple[int, ...] | None, PieceReport | Ended]"

GRACE: Final = 10.0
"""Seconds that workers have for the end of what they run, when the run is cut short."""


@define
class WorkerHandle:
    """A worker, seen from here."""

    number: int
    """From 0 on; one that is forked in the place of a dead one has the same."""
    pid: int
    """Its process."""
    link: Link
    """Pieces go out, reports come in."""
    open_indexes: set[int] = field(factory=set[int])
    """Tests that it has been given, and has not reported."""
    has_ended: bool = False
    """Whether it has said that it has run its last test and ended its fixtures."""


class Dispatcher:
    """Runs the tests of one session in forked workers."""

    def __init__(self, session: pytest.Session, pieces: Sequence[Piece], workers: int) -> None:
        self._session = session
        self._waiting = deque(piece.indexes for piece in pieces)
        self._workers = min(workers, len(pieces))
        self._state = SharedState(self._workers)
        self._handles: dict[Link, WorkerHandle] = {}
        self._totals: dict[str, tuple[float, int]] = {}
        self._progress = Progress(session.config, sum(len(piece.indexes) for piece in pieces))
        self.over_budget: dict[str, float] = {}
        """Seconds of CPU of the tests that were over the budget."""
        self.left_running: list[str] = []
        """Threads that went on after the last test of their worker, and which test began each."""

    @property
    def seconds(self) -> dict[str, float]:
        """The mean time of one test of each function that ran."""
        return {name: total / count for name, (total, count) in self._totals.items()}

    def run(self) -> None:
        """Return when all tests have been reported, or the run is to stop."""
        for number in range(self._workers):
            self._fork(number)
        while self._handles:
            for link in wait(list(self._handles), self._progress.seconds_left()):
                handle = self._handles[cast("Link", link)]
                message = _received(handle.link)
                match message:
                    case None:
                        self._worker_ended(handle)
                    case Ended():
                        handle.has_ended = True
                        self._show(message.reports)
                        for index, thread in message.daemons:
                            test = "a fixture" if index is None else self._session.items[index].nodeid
                            self.left_running.append(f"{thread}, begun in {test}")
                    case PieceReport():
                        self._take(handle, message)
        left = sum(map(len, self._waiting))
        if left and not self._is_stopping():
            self._fail_here(f"{left} tests did not run: no worker is left")

    def end(self) -> None:
        """End the workers that are left: each ends its test and its fixtures, or is killed after a while."""
        self._state.stop()
        for handle in self._handles.values():
            with suppress(BrokenPipeError):  # it is dead
                handle.link.send(None)  # else it would wait for its next piece
        deadline = monotonic() + GRACE
        for handle in self._handles.values():
            while handle.link.poll(max(0.0, deadline - monotonic())):
                if _received(handle.link) is None:
                    break
            else:
                os.kill(handle.pid, signal.SIGKILL)
            os.waitpid(handle.pid, 0)
            handle.link.close()
        self._handles.clear()
        self._state.close()

    def _fork(self, number: int) -> None:
        """Fork a worker, and hand it a piece."""
        ours, theirs = Pipe()
        self._state.running(number, NO_TEST)
        pid = os.fork()
        if not pid:
            ours.close()
            # Else the others would not notice that the process that forked them is gone.
            for other in self._handles.values():
                other.link.close()
            Worker(self._session, theirs, number, self._state).run_and_exit()
        theirs.close()
        handle = WorkerHandle(number, pid, ours)
        self._handles[ours] = handle
        self._hand_out(handle)

    def _hand_out(self, handle: WorkerHandle) -> None:
        """Give the worker its next piece, or tell it that there is none."""
        piece = self._waiting.popleft() if self._waiting and not self._is_stopping() else None
        handle.open_indexes = set(piece or ())
        try:
            handle.link.send(piece)
        except BrokenPipeError:
            return  # it is dead: the end of its link says so

    def _is_stopping(self) -> bool:
        return bool(self._session.shouldstop or self._session.shouldfail)

    def _take(self, handle: WorkerHandle, message: PieceReport) -> None:
        self._show(message.reports)
        self._progress.add(len(message.done))
        handle.open_indexes -= set(message.done)
        items = self._session.items
        self.over_budget |= {items[index].nodeid: seconds for index, seconds in message.over_budget.items()}
        if self._is_stopping():
            self._state.stop()
        if message.is_piece_done:
            self._hand_out(handle)

    def _show(self, reports: Sequence[Passed | Reported]) -> None:
        for outcome in reports:
            if self._is_stopping():
                break
            self._session.config.hook.pytest_runtest_logreport(report=self._report_of(outcome))

    def _report_of(self, outcome: Passed | Reported) -> pytest.TestReport:
        config = self._session.config
        if isinstance(outcome, Reported):
            report: pytest.TestReport = config.hook.pytest_report_from_serializable(config=config, data=outcome.data)
            return report
        self._note(outcome.index, outcome.seconds)
        item = self._session.items[outcome.index]
        return pytest.TestReport(item.nodeid, item.location, {}, "passed", None, "call", duration=outcome.seconds)

    def _note(self, index: int, seconds: float) -> None:
        name = function_of(self._session.items[index].nodeid)
        total, count = self._totals.get(name, (0.0, 0))
        self._totals[name] = total + seconds, count + 1

    def _worker_ended(self, handle: WorkerHandle) -> None:
        """Take note that a worker has ended: in order, or in the middle of a test, which then has failed.

        What it had not reported is run again by another one, but for the test at which it died.
        """
        del self._handles[handle.link]
        handle.link.close()
        status = os.waitstatus_to_exitcode(os.waitpid(handle.pid, 0)[1])
        index = self._state.test_of(handle.number)
        if handle.has_ended and status == 0 and not handle.open_indexes:
            return
        problem = f"worker {handle.number} ended with status {status}"
        if index == NO_TEST and not handle.open_indexes:
            self._fail_here(
                f"{problem} while the fixtures of the session ended: nobody knows what became of the others"
            )
            return
        if index == NO_TEST:  # the next one would, too
            self._fail_here(f"{problem} while it ran no test: {len(handle.open_indexes)} tests did not run")
            return
        item = self._session.items[index]
        self._fail(item.nodeid, item.location, f"{problem} while it ran this test")
        rest = tuple(sorted(handle.open_indexes - {index}))
        if rest:
            self._waiting.appendleft(rest)
        if self._waiting and not self._is_stopping():
            self._fork(handle.number)

    def _fail_here(self, problem: str) -> None:
        self._fail("the runner", (__file__, None, "worker"), problem)

    def _fail(self, node_id: str, location: tuple[str, int | None, str], problem: str) -> None:
        report = pytest.TestReport(node_id, location, {}, "failed", problem, "call")
        self._session.config.hook.pytest_runtest_logreport(report=report)


def _received(link: Link) -> PieceReport | Ended | None:
    """Return the next message; `None` if the worker has ended."""
    try:
        return link.recv()
    except (EOFError, ConnectionResetError):
        return None
