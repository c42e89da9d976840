"""`Deletions`: the deletions that the writer has begun, done in pieces after its commits."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Generic, TypeVar

from agentrail.adapters.journals.sqlite.deletion.erasing import erase_some, is_marked
from agentrail.adapters.journals.sqlite.deletion.vacuum import Round


class DeletionProgress(Enum):
    """The state of a deletion."""

    DONE = "nothing of the session is left"
    GOES_ON = "there is more to do"
    WAITS = "it has to wait, because another program reads the file"


W_contra = TypeVar("W_contra", contravariant=True)


class DeletionJob(Generic[W_contra]):
    """A job of the writer itself, for which no task waits: a piece of the deletions."""

    about = ""
    creates = False
    is_unwanted = False

    def __init__(self, run: Callable[[W_contra], None]) -> None:
        self._run = run
        self.error: Exception | None = None

    def do(self, holder: W_contra) -> None:
        """Do the next piece of the deletions."""
        self._run(holder)


class Deletions:
    """Erases the rows of all sessions that are marked, then cleans the file, then removes the marks."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._round: Round | None = None
        self._waits = False
        self._error: Exception | None = None
        self._marked = False

    @property
    def is_due(self) -> bool:
        """Whether there is a piece to do. After a failure there is none until `progress` has raised the error."""
        return self._marked and self._error is None

    @property
    def in_transaction(self) -> bool:
        """Whether the next piece changes rows, so that it must run in a transaction."""
        return self._round is None or self._round.in_transaction

    def begin(self, db: sqlite3.Connection) -> None:
        """Check whether any sessions are marked, by this process or an earlier one, and start from the beginning."""
        self._round, self._error = None, None
        self._marked = is_marked(db)

    def expect(self) -> None:
        """Note that a mark is about to be committed."""
        self._error = None
        self._marked = True

    def do_piece(self, db: sqlite3.Connection, descriptor: int) -> int:
        """Do the next piece; return the approximate number of bytes of rows that it has erased."""
        if self._round is not None:
            self._waits = not self._round.go_on()
            if self._round.is_done:
                self.begin(db)
            return 0
        erased = erase_some(db)
        if erased is None:
            self._round = Round(db, self._path, descriptor)
        return erased or 0

    def hinder(self, error: Exception) -> None:
        """Note that a piece has failed with *error*, which `progress` raises; the cleaning of the file starts again."""
        self._round, self._error = None, error

    def progress(self, db: sqlite3.Connection, mark: int) -> DeletionProgress:
        """Return the state of the deletion with the number *mark*; raise the error of a failed piece, once."""
        hindered, self._error = self._error, None
        if hindered is not None:
            raise hindered
        if not is_marked(db, mark):
            return DeletionProgress.DONE
        return DeletionProgress.WAITS if self._waits else DeletionProgress.GOES_ON
