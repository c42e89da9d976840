"""PostgreSQL: a server that processes on several machines use, with a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, LiteralString, cast

import psycopg

from agentrail.adapters.journals.postgres.binary_arrays import BinaryArray, array_of
from agentrail.adapters.journals.postgres.database import Target
from agentrail.adapters.journals.postgres.server_tables import SCHEMA, add_table, check_tables, defined
from agentrail.adapters.journals.postgres.sqlstates import in_statement, is_lost, is_outage
from agentrail.adapters.journals.sql.sql_dialect import CleaningState
from agentrail.adapters.journals.sql.sql_tables import InsertedColumns, SqlRow, SqlValue
from agentrail.errors import AgentrailError, NothingWritten

BEGINNING: Final = "begin isolation level read committed; set local idle_in_transaction_session_timeout = 5000"
"""Begins a transaction that writes; it ends, and its locks with it, in seconds if this process or its line stops."""

READING: Final = "begin isolation level repeatable read read only"
"""Begins a transaction in which all statements see the tables as they were at the first one."""


class PostgresConnection:
    """A connection to the server; opened when it is needed, and again after a loss."""

    def __init__(self, target: Target, *, is_reading: bool) -> None:
        self._target = target
        self._beginning: LiteralString = READING if is_reading else BEGINNING
        self._connection: psycopg.Connection[SqlRow] | None = None
        self._now: int | None = None

    def begin(self) -> bool:
        """Begin a transaction; return true, because other processes may have written meanwhile."""
        self._now = None
        was_open = self._connection is not None
        try:
            self._open().execute(self._beginning)
        except psycopg.Error as error:
            if not was_open or not is_lost(error):
                raise
            self.close()  # the line was lost since the last transaction, so nothing is lost with it
            self._open().execute(self._beginning)
        return True

    def commit(self) -> None:
        """End the transaction."""
        self._open().execute("commit")

    def rollback(self) -> None:
        """Undo the transaction; drop a connection that is broken."""
        connection = self._connection
        if connection is not None and (connection.broken or connection.closed):
            self.close()
        elif connection is not None:
            connection.execute("rollback")

    def run(self, statement: str, values: Sequence[object] = ()) -> list[SqlRow]:
        """Run one statement, and return its rows."""
        return self._execute(_translated(statement), values)

    def run_among(self, statement: str, choice: Sequence[SqlValue], values: Sequence[SqlValue] = ()) -> list[SqlRow]:
        """Run a statement with a `{}` in place of the choice."""
        return self._execute(_translated(statement.format("= any(?)")), (*values, list(choice))) if choice else []

    def insert(self, into: InsertedColumns, rows: Sequence[Sequence[SqlValue]], otherwise: str = "") -> None:
        """Insert *rows* with one statement, which is given a list for each column."""
        self._execute(_insertion(into, otherwise), arrays_of(into.types, rows))

    def make_table(self, definition: str) -> None:
        """Make a table by its *definition*, unless it is there."""
        add_table(self._open(), definition)

    def draw_epochs(self, count: int) -> list[int]:
        """Return numbers for so many claims."""
        rows = self.run("select nextval('~epoch') from generate_series(1, ?)", (count,))
        return [cast("int", number) for (number,) in rows]

    def now(self, at: int) -> int:  # noqa: ARG002 - the server has a clock
        """Return the time of the server in milliseconds since 1970; in one transaction it is asked once."""
        if self._now is None:
            ((now,),) = self.run("select ~now_ms()")
            self._now = cast("int", now)
        return self._now

    def show_lease(self, key: int) -> None:
        """No-op: processes on several machines see of each other only what is in the tables."""

    def has_lessee(self, key: int) -> bool:  # noqa: ARG002 - a process on another machine may have any of them
        """Return true: the lease lasts for its time."""
        return True

    def was_written(self, size: int) -> None:
        """No-op: the server looks after its log itself."""

    def mark_removal(self) -> int:
        """Return a mark that stands for nothing: the files of a server are for its operator to clean."""
        return 0

    def cleaning_state(self, mark: int) -> CleaningState:  # noqa: ARG002 - there is nothing to clean
        """Return that there is nothing to do."""
        return CleaningState.DONE

    def rest(self) -> None:
        """No-op: the server looks after its files itself."""

    def close(self) -> None:
        """Close the connection; the next transaction opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _execute(self, statement: bytes, values: Sequence[object]) -> list[SqlRow]:
        cursor = self._open().execute(statement, values, binary=True)
        return cursor.fetchall() if cursor.description is not None else []

    def _open(self) -> psycopg.Connection[SqlRow]:
        if self._connection is None:
            self._connection = self._target.connect()
            try:
                check_tables(self._connection, str(self._target))
            except BaseException:
                self.close()
                raise
        return self._connection


def arrays_of(types: Sequence[str], rows: Sequence[Sequence[object]]) -> list[BinaryArray]:
    """Return an array for each column of *rows*, which have columns of *types*."""
    columns = zip(*rows, strict=True) if rows else [()] * len(types)
    return [array_of(type_, column) for type_, column in zip(types, columns, strict=True)]


@cache
def _translated(statement: str) -> bytes:
    return statement.replace("~", f"{SCHEMA}.").replace("?", "%b").encode()


@cache
def _insertion(into: InsertedColumns, otherwise: str) -> bytes:
    types = [defined(type_) for type_ in into.types]
    lists = ", ".join(f"%b::{type_}[]" for type_ in types)
    columns = ", ".join(into.columns)
    return f"insert into {SCHEMA}.{into.table} ({columns}) select * from unnest({lists}) {otherwise}".encode()  # noqa: S608


class PostgresDialect:
    """The PostgreSQL database at *url*, like `postgresql://user:password@host:5432/database`."""

    for_update: str = " for no key update"
    writers: int = 2
    """While the server works on the transaction of one, the other makes the records of the next."""
    readers: int = 4

    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, url: str) -> None:
        self._target = Target(url)
        self.url = str(self._target)
        """Where the database is, without the password."""

    def connect(self) -> PostgresConnection:
        """Return a connection for writing, which is opened by its first transaction."""
        return PostgresConnection(self._target, is_reading=False)

    def connect_to_read(self, is_unwanted: Callable[[], bool]) -> PostgresConnection:
        """Return a connection for reading, which is opened by its first transaction."""
        del is_unwanted  # a query that runs at the server is not ended
        return PostgresConnection(self._target, is_reading=True)

    def failure(self, error: Exception, session_id: str) -> AgentrailError:
        """Return the journal's error for *error* of a write before its commit."""
        database_error = cast("psycopg.Error", error)
        if is_lost(database_error):
            return NothingWritten(" ".join(str(error).split()))
        return in_statement(database_error, f"write to session `{session_id}`" if session_id else "write", self.url)

    def read_failure(self, error: Exception, session_id: str) -> AgentrailError:
        """Return the journal's error for *error* of a read."""
        about = f"what it holds of session `{session_id}`" if session_id else "what it holds"
        return in_statement(cast("psycopg.Error", error), f"read {about}", self.url)

    def commit_failure(self, error: Exception) -> AgentrailError | None:
        """Return the journal's error for *error* of a commit; `None` if its answer was lost."""
        return None if is_lost(cast("psycopg.Error", error)) else self.failure(error, "")

    def is_passing(self, error: Exception) -> bool:
        """Whether *error* is temporary, and not caused by the values that were to be written."""
        return is_outage(cast("psycopg.Error", error))
