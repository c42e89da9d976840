"""`run_workers`: tests the sessions of a file in several processes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import trio

from agentrail.errors import OutsideError
from agentrail.insight.session_backtest import SessionBackTest
from agentrail.ports.journal import StoredSession
from agentrail.what_if.candidates import Candidate
from agentrail.what_if.worker_work import LENGTH, WorkerWork, files_of

COMMAND: Final = "from agentrail.what_if.worker_work import main; main()"

TakeOutcome = Callable[[SessionBackTest], bool]
"""Function that takes the outcome of a session, and returns whether to go on."""


def can_send(candidate: Candidate) -> bool:
    """Whether other processes can be given *candidate*: not if a plugin is of the main program, or cannot be stored."""
    if "__main__" in candidate.modules:
        return False
    try:
        pickle.dumps(candidate)
    except Exception:  # noqa: BLE001 - the objects of plugins may raise anything
        return False
    return True


async def run_workers(
    candidate: Candidate, file: str, stored: Sequence[StoredSession], take: TakeOutcome, count: int, *, beyond: bool
) -> None:
    """Test the sessions *stored* of *file* in *count* processes, until *take* returns that it is enough."""
    rows: list[list[StoredSession]] = [[] for _ in range(count)]
    # The longest first, each to whoever has least to do.
    for summary in sorted(stored, key=lambda summary: summary.head, reverse=True):
        min(rows, key=lambda row: sum(other.head for other in row)).append(summary)
    packed, files = pickle.dumps(candidate), files_of(candidate)
    statuses: list[int] = []
    async with trio.open_nursery() as nursery:  # noqa: TID251 - none of its tasks raises

        def take_or_end(outcome: SessionBackTest) -> None:
            if not take(outcome):
                nursery.cancel_scope.cancel()

        async def run(work: WorkerWork) -> None:
            status = await _run_worker(work, take_or_end)
            if status:
                statuses.append(status)
                nursery.cancel_scope.cancel()

        for row in rows:
            if row:
                nursery.start_soon(run, WorkerWork(tuple(sys.path), files, packed, file, tuple(row), beyond))
    if statuses:
        raise OutsideError("backtest-ended", statuses[0])


async def _run_worker(work: WorkerWork, take: Callable[[SessionBackTest], None]) -> int:
    """Have a process do *work*, and return its exit status."""
    process = await trio.lowlevel.open_process(
        [sys.executable, "-P", "-c", COMMAND],  # `-P`: no code of the current folder stands in for a module
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for this process, which ends the others
    )
    try:
        await _exchange(process, work, take)
        return await process.wait()
    finally:
        # Cancelled, the wait would be left, and the process with it.
        # tests/what_if/test_backtest.py::test_processes_find_the_same
        with trio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _exchange(process: trio.Process, work: WorkerWork, take: Callable[[SessionBackTest], None]) -> None:
    """Send the work, and take the outcomes until there are no more."""
    assert process.stdin is not None  # noqa: S101 - both are pipes
    assert process.stdout is not None  # noqa: S101
    data = b""
    with suppress(trio.BrokenResourceError):  # it has ended already: its status says so
        async with process.stdin:
            await process.stdin.send_all(pickle.dumps(work))
    async for piece in process.stdout:
        data += piece
        while len(data) >= LENGTH and len(data) >= (end := LENGTH + int.from_bytes(data[:LENGTH], "big")):
            take(pickle.loads(data[LENGTH:end]))  # noqa: S301 - a process of this program has written it
            data = data[end:]
