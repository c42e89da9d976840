"""A log of what tools really did, apart from the journal; each line is on disk before its tool goes on."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class Run(NamedTuple):
    """One execution of a tool."""

    tool: str
    key: str
    ended: bool


class Witness:
    """Writes the log, and reads it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opened = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def note(self, what: str, tool: str, key: str) -> None:
        """Write a line, and wait until it is on disk."""
        os.write(self._opened, f"{json.dumps((what, tool, key))}\n".encode())
        os.fsync(self._opened)

    def runs(self) -> list[Run]:
        return runs(self._path)


def runs(path: Path) -> list[Run]:
    """Return the executions in the order of their starts; `ended` is false for one that was cut short."""
    if not path.exists():
        return []
    found_runs: list[Run] = []
    for what, tool, key in _lines(path.read_text().splitlines()):
        if what == "start":
            found_runs.append(Run(tool, key, ended=False))
        else:
            largest = max(index for index, run in enumerate(found_runs) if run.key == key)
            found_runs[largest] = Run(tool, key, ended=True)
    return found_runs


def _lines(lines: Iterable[str]) -> Iterable[tuple[str, str, str]]:
    for line in lines:
        what, tool, key = json.loads(line)
        yield what, tool, key
