"""Carries out the calls that read, in a thread of its own; each sees the tables as they are at one moment."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from agentrail.adapters.journals.sql.session_listing import find_summary, list_last_used, list_sessions
from agentrail.adapters.journals.sql.sql_dialect import SqlConnection, SqlDialect
from agentrail.adapters.journals.sql.sql_tables import SqlRow, as_stored, as_text
from agentrail.adapters.journals.sql.stored_rows import NOTHING_STORED, read_latest, read_records, read_session
from agentrail.adapters.journals.writer_thread import JobStoppedError, WriterJob
from agentrail.errors import AgentrailError
from agentrail.ports.journal import Latest, Record, SessionFilter, StoredAnswer, StoredSession

T = TypeVar("T")


class SqlReader:
    """Carries out calls one by one, in its thread."""

    def __init__(self, dialect: SqlDialect) -> None:
        self._dialect = dialect
        self._connection: SqlConnection | None = None
        self._job: WriterJob[SqlReader] | None = None

    # The methods of `JobHandler`, which the worker calls

    def serve(self, jobs: Sequence[WriterJob[SqlReader]]) -> None:
        """Run *jobs*; an exception is stored in its job, and raised in the task that waits for it."""
        for job in jobs:
            self._job = job
            try:
                job.do(self)
            except AgentrailError as error:
                job.error = error
            except self._dialect.errors as error:
                job.error = self._dialect.read_failure(error, job.session_id)
            if job.error is not None and job.is_unwanted:
                job.error = JobStoppedError()

    def rest(self) -> None:
        """No-op: a reader has nothing to do between jobs."""

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # The jobs

    def read(self, session_id: str, after: int, limit: int) -> tuple[Record, ...]:
        """Return up to *limit* records after number *after*; raise `BadRecord` if one is damaged."""

        def read(db: SqlConnection) -> tuple[Record, ...]:
            end = read_session(db, session_id)
            return () if end is None else read_records(db, end, after + 1, after + limit)

        return self._within(read) or ()

    def record_of_seq(self, session_id: str, seq: int) -> int:
        """Return the number of the last record that has no event with a number above *seq*."""

        def find(db: SqlConnection) -> int:
            end = read_session(db, session_id)
            if end is None:
                return 0
            query = "select number from ~record where session = ? and seq <= ? order by number desc limit 1"
            rows = db.run(query, (end.key, seq))
            return cast("int", rows[0][0]) if rows else 0

        return self._within(find) or 0

    def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return the command and answer stored under a command id; `None` if there is none."""

        def find(db: SqlConnection) -> StoredAnswer | None:
            end = read_session(db, session_id)
            if end is None:
                return None
            query = "select number from ~record where session = ? and command = ? order by number desc limit 1"
            for (number,) in db.run(query, (end.key, as_stored(command))):
                for record in read_records(db, end, cast("int", number), cast("int", number)):
                    return None if record.answer is None else StoredAnswer(record.arrival.input, record.answer)
            return None

        return self._within(find)

    def sessions(
        self, session_filter: SessionFilter, after: StoredSession | None, limit: int
    ) -> tuple[StoredSession, ...]:
        """Return summaries of up to *limit* of the sessions that *session_filter* holds for, after *after*."""
        return self._within(lambda db: list_sessions(db, session_filter, after, limit)) or ()

    def summary(self, session_id: str) -> StoredSession | None:
        """Return the summary of a session; `None` if it has no records. Raise `BadRecord` if it is only not found."""
        return self._within(lambda db: find_summary(db, session_id))

    def last_used(self, label: str | None, limit: int) -> tuple[StoredSession, ...]:
        """Return summaries of the *limit* sessions that were used last, the last one first; with *label*, of those."""
        return self._within(lambda db: list_last_used(db, label, limit)) or ()

    def ids_from(self, beginning: str) -> tuple[str, ...]:
        """Return the ids of all sessions with records whose ids begin so, sorted."""
        first = as_stored(beginning)
        query = "select id from ~session where id >= ? and id < ? and head > 0 order by id"
        values = (first, first + b"\xff")  # no UTF-8 has this byte
        return tuple(as_text(stored_id) for (stored_id,) in self._within(lambda db: db.run(query, values)) or ())

    def latest(self, session_id: str, upto: int | None, limit: int) -> Latest:
        """Return the snapshot of a session, and up to *limit* of the records that follow it, up to *upto*."""

        def read(db: SqlConnection) -> Latest:
            end = read_session(db, session_id)
            return NOTHING_STORED if end is None else read_latest(db, end, upto, limit)

        return self._within(read) or NOTHING_STORED

    def holders(self) -> tuple[str, ...]:
        """Return the holders of sessions whose leases last now."""

        def read(db: SqlConnection) -> tuple[str, ...]:
            query = """select key, holder from ~lease where until > ?
            and exists (select 1 from ~session s where s.held = 1 and s.lease = lease.key) order by holder"""
            rows = db.run(query, (db.now(time.time_ns() // 1_000_000),))
            return tuple(dict.fromkeys(as_text(holder) for key, holder in rows if db.has_lessee(cast("int", key))))

        return self._within(read) or ()

    def rows(self, statement: str) -> list[SqlRow]:
        """Return the rows of a statement of the database's own; none if there is no journal yet."""
        return self._within(lambda db: db.run(statement)) or []

    def _within(self, query: Callable[[SqlConnection], T]) -> T | None:
        """Return the result of *query*, run in one transaction; `None` if there is no journal yet."""
        if self._connection is None:
            self._connection = self._dialect.connect_to_read(self._is_unwanted)
        db = self._connection
        if db is None:
            return None
        try:
            db.begin()
            return query(db)
        finally:
            self._end(db)

    def _is_unwanted(self) -> bool:
        """Whether nobody waits any more for what is read."""
        return self._job is not None and self._job.is_unwanted

    def _end(self, db: SqlConnection) -> None:
        """End the transaction; close the connection if it is broken, so that the next call opens another."""
        try:
            db.rollback()
        except self._dialect.errors:
            self.close()
