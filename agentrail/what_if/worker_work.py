"""`WorkerWork`: what a process of a back-test is given, and the process itself (`main`).

Both ways are pickles: they come from this very program, and hold the plugins of a caller, which no format of data can.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

import trio

from agentrail.adapters.python_file import load
from agentrail.errors import AgentrailError
from agentrail.insight.session_backtest import SessionBackTest
from agentrail.ports.journal import StoredSession
from agentrail.what_if.candidates import Candidate
from agentrail.what_if.recorded_sessions import open_sessions
from agentrail.what_if.tested_session import tested_session

LENGTH: Final = 8
"""How many bytes before an outcome say how long it is."""


class WorkerWork(NamedTuple):
    """Sessions for one process."""

    path: tuple[str, ...]
    """Where modules are looked for."""
    files: Mapping[str, str]
    """The modules of plugins that are found nowhere there, with their files."""
    candidate: bytes
    """The pickled `Candidate`: its modules must be there before it is read."""
    file: str
    """The journal or export."""
    sessions: tuple[StoredSession, ...]
    """The sessions."""
    beyond: bool
    """Whether to go on behind a first difference."""


def files_of(candidate: Candidate) -> dict[str, str]:
    """Return the files of the modules of plugins that cannot be imported by name, such as a file that a user named."""
    files: dict[str, str] = {}
    for name in candidate.modules:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None and not _can_import(name):
            files[name] = file
    return files


def _can_import(name: str) -> bool:
    module = sys.modules.pop(name, None)
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False
    finally:
        if module is not None:
            sys.modules[name] = module


def main() -> None:
    """Test the sessions of the work on standard input, and write each outcome to standard output."""
    work = cast("WorkerWork", pickle.loads(sys.stdin.buffer.read()))  # noqa: S301 - this program has written it
    sys.path[:] = work.path
    for file in work.files.values():
        load(Path(file))
    candidate = cast("Candidate", pickle.loads(work.candidate))  # noqa: S301 - this program has written it
    out = sys.stdout.buffer
    sys.stdout = sys.stderr  # what a plugin prints is no outcome
    try:
        trio.run(partial(_run, candidate, work, out))
    except (AgentrailError, KeyboardInterrupt, BrokenPipeError) as error:
        sys.exit(str(error))


async def _run(candidate: Candidate, work: WorkerWork, out: BinaryIO) -> None:
    async with open_sessions(work.file) as source:
        for stored in work.sessions:
            write_outcome(out, await tested_session(candidate, source, stored, beyond=work.beyond))


def write_outcome(out: BinaryIO, outcome: SessionBackTest) -> None:
    """Write *outcome*, with its length before it."""
    data = pickle.dumps(outcome)
    out.write(len(data).to_bytes(LENGTH, "big") + data)
    out.flush()
