"""What the databases do differently: how they connect, bind lists of values, number claims, and fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol

from agentrail.adapters.journals.sql.sql_tables import InsertedColumns, SqlRow, SqlValue
from agentrail.errors import AgentrailError


class CleaningState(Enum):
    """How far the cleaning of the files is after a removal."""

    DONE = "no byte of what was removed is left"
    GOES_ON = "there is more to do"
    WAITS = "it has to wait, because another program reads the file"


class SqlConnection(Protocol):
    """A connection to a database, used by one thread.

    A statement has a `?` for each value, and a `~` before the name of each table.
    """

    def begin(self) -> bool:
        """Begin a transaction; return whether the tables may have changed since the last one ended.

        One that writes keeps other writers away: from all tables, or from the rows that it selects with `for_update`.
        """
        ...

    def commit(self) -> None:
        """End the transaction."""
        ...

    def rollback(self) -> None:
        """Undo the transaction; no-op if there is none."""
        ...

    def run(self, statement: str, values: Sequence[SqlValue] = ()) -> list[SqlRow]:
        """Run one statement, and return its rows."""
        ...

    def run_among(self, statement: str, choice: Sequence[SqlValue], values: Sequence[SqlValue] = ()) -> list[SqlRow]:
        """Run a statement with a `{}`, which stands after a column that is to be one of *choice*; *values* precede."""
        ...

    def insert(self, into: InsertedColumns, rows: Sequence[Sequence[SqlValue]], otherwise: str = "") -> None:
        """Insert *rows*; *otherwise* is the clause for those that are there already."""
        ...

    def make_table(self, definition: str) -> None:
        """Make a table that not all journals have, by its definition, unless it is there."""
        ...

    def draw_epochs(self, count: int) -> list[int]:
        """Return numbers for so many claims: each is above those of all claims that have been committed."""
        ...

    def now(self, at: int) -> int:
        """Return the time of the server in milliseconds since 1970, or *at* if there is no server."""
        ...

    def show_lease(self, key: int) -> None:
        """Show other processes that the process with the lease *key* lives: this one."""
        ...

    def has_lessee(self, key: int) -> bool:
        """Return whether a process may live that has the lease *key*; if not, the lease has ended."""
        ...

    def was_written(self, size: int) -> None:
        """Note that *size* bytes of records are in the transaction."""
        ...

    def mark_removal(self) -> int:
        """Note that the transaction removes what may leave bytes in a file; return a mark for `cleaning_state`."""
        ...

    def cleaning_state(self, mark: int) -> CleaningState:
        """Return how far the cleaning is that *mark* asks for; raise `JournalError` if it has failed."""
        ...

    def rest(self) -> None:
        """Do what was postponed until the callers were answered."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class SqlDialect(Protocol):
    """A database in which journals can be."""

    @property
    def for_update(self) -> str:
        """Clause of a select that keeps its rows from being changed by others."""
        ...

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What statements raise."""
        ...

    @property
    def writers(self) -> int:
        """How many connections write; the sessions are divided among them."""
        ...

    @property
    def readers(self) -> int:
        """How many connections read."""
        ...

    def connect(self) -> SqlConnection:
        """Connect for writing; make the tables if they are missing."""
        ...

    def connect_to_read(self, is_unwanted: Callable[[], bool]) -> SqlConnection | None:
        """Connect for reading; return `None` if there is no journal yet.

        A query that runs while *is_unwanted* returns true may be ended by an error.
        """
        ...

    def failure(self, error: Exception, session_id: str) -> AgentrailError:
        """Return the journal's error for *error* of a write before its commit: nothing was written.

        *session_id* is the session that it concerned; empty if none, or several.
        """
        ...

    def read_failure(self, error: Exception, session_id: str) -> AgentrailError:
        """Return the journal's error for *error* of a read; *session_id* is empty if it concerned no session."""
        ...

    def commit_failure(self, error: Exception) -> AgentrailError | None:
        """Return the journal's error for *error* of a commit; `None` if it is to be found out what has become of it."""
        ...

    def is_passing(self, error: Exception) -> bool:
        """Whether *error* is temporary, and not caused by the values that were to be written."""
        ...
