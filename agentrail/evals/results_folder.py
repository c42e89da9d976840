"""`ResultsFolder`: the results of experiments that are in a folder, newest first."""

from __future__ import annotations

from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Final, NamedTuple

from agentrail.errors import UsageError
from agentrail.evals.results import Results

MOST_FILES: Final = 500
"""The most files that are looked at, the newest first."""

MOST_BYTES: Final = 64 * 1024 * 1024
"""The longest file that is read."""


class StoredResults(NamedTuple):
    """Results in a folder."""

    file: str
    """Name of the file, without its ending."""
    at_ms: int
    """When it was written, in milliseconds since 1970."""
    results: Results
    """What is in it."""


class ResultsFolder:
    """Reads the files of results in a folder; a file that has not changed is read once. It blocks: use a thread."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        """The folder."""
        self._read: dict[str, tuple[tuple[int, int], StoredResults | None]] = {}
        """What each file had, by its name, with its time and size then; `None` if that was no results."""

    def results(self) -> tuple[StoredResults, ...]:
        """Return the results in the folder, newest first; files that are no results are left out.

        Raise `UsageError` if the folder cannot be read.
        """
        try:
            files = [(path, path.stat()) for path in self.path.glob("*.json") if path.is_file()]
        except OSError as error:
            raise UsageError("bad-evaluation", f"read the folder {self.path}", str(error.strerror)) from None
        files.sort(key=lambda item: item[1].st_mtime_ns, reverse=True)
        contents = {path.name: self._file(path, stat.st_mtime_ns, stat.st_size) for path, stat in files[:MOST_FILES]}
        self._read = contents
        return tuple(stored for _, stored in contents.values() if stored is not None)

    def _file(self, path: Path, time: int, size: int) -> tuple[tuple[int, int], StoredResults | None]:
        """Return what *path* has, with its *time* and *size*; from memory, if these are as before."""
        last = self._read.get(path.name)
        if last is not None and last[0] == (time, size):
            return last
        stored = None
        if size <= MOST_BYTES:
            with suppress(UsageError):  # another file of JSON: a folder has whatever its owner likes
                stored = StoredResults(path.stem, time // 1_000_000, Results.read(path))
        return (time, size), stored
