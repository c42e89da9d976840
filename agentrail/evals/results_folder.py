"""`ResultsFolder`: the results of experiments that are in a folder, newest first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Final, Generic, TypeVar

from agentrail.errors import UsageError
from agentrail.evals.results import Results

T = TypeVar("T")

MOST_FILES: Final = 500
"""The most files that are looked at, the newest first."""

MOST_BYTES: Final = 64 * 1024 * 1024
"""The longest file that is read."""


class ResultsFolder(Generic[T]):
    """Summarises the files of results in a folder, each once as long as it does not change. It blocks: use a thread.

    Only the summaries stay in memory: results have the replies of all runs.
    """

    def __init__(self, path: str | PathLike[str], summarize: Callable[[str, int, Results], T]) -> None:
        self.path = Path(path)
        """The folder."""
        self._summarize = summarize
        """Returns the summary of results, given the name of their file, without its ending, and when it was written."""
        self._summaries: dict[str, tuple[tuple[int, int], T | None]] = {}
        """The summary of each file by its name, with its time and size then; `None` if that was no results."""

    def summaries(self) -> tuple[T, ...]:
        """Return the summaries, newest first; files that are no results are left out.

        Raise `UsageError` if the folder cannot be read.
        """
        try:
            files = [(path, path.stat()) for path in self.path.glob("*.json") if path.is_file()]
        except OSError as error:
            raise UsageError("bad-evaluation", f"read the folder {self.path}", str(error.strerror)) from None
        files.sort(key=lambda item: item[1].st_mtime_ns, reverse=True)
        self._summaries = {
            path.name: self._summary(path, (stat.st_mtime_ns, stat.st_size)) for path, stat in files[:MOST_FILES]
        }
        return tuple(summary for _, summary in self._summaries.values() if summary is not None)

    def results(self, file: str) -> Results:
        """Return the results in *file*, the name of one without its ending; raise `UsageError` if it has none now."""
        return Results.read(self.path / f"{file}.json")

    def _summary(self, path: Path, version: tuple[int, int]) -> tuple[tuple[int, int], T | None]:
        """Return the summary of *path* with its *version*, time and size; from memory, if these are as before."""
        last = self._summaries.get(path.name)
        if last is not None and last[0] == version:
            return last
        summary = None
        if version[1] <= MOST_BYTES:
            # another file of JSON, or a name that is no text: a folder has whatever its owner likes
            with suppress(UsageError, UnicodeEncodeError):
                path.name.encode()
                summary = self._summarize(path.stem, version[0] // 1_000_000, Results.read(path))
        return version, summary
