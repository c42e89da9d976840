"""Carries out reading calls, and those of operators, each in a transaction that sees the sessions at one moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar, cast

import psycopg

from agentrail.adapters.journals.checksums import check_of_snapshot
from agentrail.adapters.journals.packing import PackedRecord, UnpackError, unpack_snapshot
from agentrail.adapters.journals.postgres.checked_rows import (
    SessionHead,
    checked_records,
    load_records,
    read_blobs,
    read_head,
)
from agentrail.adapters.journals.postgres.database import Database, Target
from agentrail.adapters.journals.postgres.removal import delete_tree, redact_records
from agentrail.adapters.journals.postgres.server_tables import as_stored, as_text
from agentrail.adapters.journals.postgres.session_list import list_last_used, list_sessions
from agentrail.adapters.journals.postgres.sqlstates import in_statement
from agentrail.adapters.journals.writer_thread import WriterJob
from agentrail.errors import AgentrailError, BadRecord
from agentrail.ports.journal import Latest, Record, Redaction, SessionFilter, Snapshot, StoredAnswer, StoredSession

T = TypeVar("T")

SNAPSHOT_OF_TABLES: Final = "isolation level repeatable read read only"
"""How a call reads: all of its statements see the tables as they were at the first one."""

HOLDING: Final = """select holder from agentrail.lease where until > agentrail.now_ms()
and exists (select from agentrail.session s where s.held and s.lease = lease.id) order by holder"""


class PostgresReader:
    """Carries out calls one by one, in its thread."""

    def __init__(self, target: Target) -> None:
        self._db = Database(target)

    # The methods of `JobHandler`, which the worker calls

    def serve(self, jobs: Sequence[WriterJob[PostgresReader]]) -> None:
        """Run *jobs*; an exception is stored in its job, and raised in the task that waits for it."""
        for job in jobs:
            try:
                job.do(self)
            except AgentrailError as error:
                job.error = error
            except psycopg.Error as error:
                about = f"what it holds of session `{job.about}`" if job.about else "what it holds"
                job.error = in_statement(error, f"read {about}", str(self._db.target))

    def rest(self) -> None:
        """No-op: a reader has nothing to do between jobs."""

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    # The jobs

    def read(self, session_id: str, after: int, limit: int) -> tuple[Record, ...]:
        """Return up to *limit* records after number *after*; raise `BadRecord` if one is damaged."""
        return self._within(lambda db, head: _between(db, head, after + 1, after + limit), session_id) or ()

    def record_of_seq(self, session_id: str, seq: int) -> int:
        """Return the number of the last record that has no event with a number above *seq*."""
        query = "select number from agentrail.record where session = %b and seq <= %s order by number desc limit 1"
        rows = self._db.run(query, (as_stored(session_id), seq))
        return cast("int", rows[0][0]) if rows else 0

    def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return the command and answer stored under a command id; `None` if there is none."""
        query = "select number from agentrail.record where session = %b and command = %b order by number desc limit 1"
        rows = self._db.run(query, (as_stored(session_id), as_stored(command)))
        if not rows:
            return None
        number = cast("int", rows[0][0])
        records = self._within(lambda db, head: _between(db, head, number, number), session_id)
        if not records or records[0].answer is None:
            return None
        return StoredAnswer(records[0].arrival.input, records[0].answer)

    def sessions(
        self, session_filter: SessionFilter, after: StoredSession | None, limit: int
    ) -> tuple[StoredSession, ...]:
        """Return summaries of up to *limit* of the sessions that *session_filter* holds for, after *after*."""
        return list_sessions(self._db, session_filter, after, limit)

    def last_used(self, label: str | None, limit: int) -> tuple[StoredSession, ...]:
        """Return summaries of the *limit* sessions that were used last, the last one first; with *label*, of those."""
        return list_last_used(self._db, label, limit)

    def holders(self) -> tuple[str, ...]:
        """Return the holders of sessions whose leases last."""
        return tuple([as_text(cast("bytes", holder)) for (holder,) in self._db.run(HOLDING)])

    def latest(self, session_id: str, upto: int | None, limit: int) -> Latest:
        """Return the snapshot of a session, and up to *limit* of the records that follow it, up to *upto*."""
        return self._within(lambda db, head: _latest(db, head, upto, limit), session_id) or Latest(None, ())

    def delete(self, session_id: str, holder: str) -> int:
        """Delete a session and its sub-agents; return how many of them had records."""
        with self._db.transaction():
            return delete_tree(self._db, session_id, holder)

    def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        """Redact the records from *first* to *last*; return how many."""
        with self._db.transaction():
            return redact_records(self._db, session_id, (first, last), note, holder)

    def _within(self, query: Callable[[Database, SessionHead], T], session_id: str) -> T | None:
        """Return the result of *query* about a session; `None` if there is no such session."""
        with self._db.transaction(SNAPSHOT_OF_TABLES):
            head = read_head(self._db, session_id)
            return None if head is None else query(self._db, head)


def _between(db: Database, head: SessionHead, first: int, last: int) -> tuple[Record, ...]:
    """Return the records of a session from number *first* to *last*, as far as there are so many."""
    last = min(last, head.head)
    return load_records(db, head, checked_records(db, head, first, last)) if first <= last else ()


def _latest(db: Database, head: SessionHead, upto: int | None, limit: int) -> Latest:
    last = head.head if upto is None else min(upto, head.head)
    snapshot: Snapshot | None = None
    with suppress(BadRecord, UnpackError):  # it is damaged: the caller folds the records instead
        snapshot = _snapshot(db, head, last)
    first = 1 if snapshot is None else snapshot.number + 1
    return Latest(snapshot, _between(db, head, first, min(last, first + limit - 1)))


def _snapshot(db: Database, head: SessionHead, last: int) -> Snapshot | None:
    """Return the snapshot of a session; `None` if it has none, a damaged one, or one of a record after *last*."""
    query = """select number, behind, format, blobs, "check", body from agentrail.snapshot
    where session = %b and number <= %s"""
    rows = db.run(query, (as_stored(head.id), last))
    if not rows:
        return None
    number, behind, form, blobs, check, body = cast("tuple[int, bytes, int, str, bytes, bytes]", rows[0])
    if check_of_snapshot(behind, (head.id, number, form, blobs), body) != check:
        return None
    if checked_records(db, head, number, number)[0].check != behind:
        return None
    snapshot = unpack_snapshot(PackedRecord(body, read_blobs(db, head.id, blobs), form))
    return snapshot if snapshot.number == number else None
