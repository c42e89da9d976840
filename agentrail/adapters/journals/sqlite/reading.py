"""What is read of a journal, by a connection of its own in a thread of its own; and what the writer has to look up."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Final, TypeVar

from agentrail.adapters.journals.packing import NO_CHECK, Packed, UnpackError, check_of, unpack
from agentrail.adapters.journals.sqlite.failures import RAISED, is_passing, rolled_back
from agentrail.adapters.journals.sqlite.opening import Connect, open_for_reading
from agentrail.adapters.journals.sqlite.tables import (
    COLUMNS,
    INDEXED,
    RECORD_COLUMNS,
    STRIDE,
    RecordRow,
    SessionRow,
)
from agentrail.adapters.journals.sqlite.worker import Job
from agentrail.errors import BadRecord, JournalError
from agentrail.ports.journal import Record, Snapshot, StoredAnswer, StoredSession, is_usable

T = TypeVar("T")

LOST: Final = "it is lost"
CHANGED: Final = "it has changed since it was written"


def session_row(connection: sqlite3.Connection, session_id: str) -> SessionRow | None:
    """Return the row of a session, `None` if there is none; raise `BadRecord` if it is damaged or lost."""
    found = connection.execute(f"SELECT {COLUMNS} FROM session WHERE id = ?", (session_id,)).fetchone()  # noqa: S608
    if found is None:
        query = f"SELECT 1 FROM record WHERE session = ? AND {INDEXED} LIMIT 1"  # noqa: S608
        if connection.execute(query, (session_id,)).fetchone() is None:
            return None
        raise BadRecord(session_id, 0, "what tells of its last record is lost")
    row = SessionRow._make(found)
    if not row.is_whole:
        raise BadRecord(session_id, 0, "what tells of its last record has changed since it was written")
    return row


def record_row(connection: sqlite3.Connection, row: SessionRow, number: int) -> RecordRow:
    """Return a record of the session that *row* is of; raise `BadRecord` if it is lost."""
    found = _record_rows(connection, row, number, number)
    if not found:
        raise BadRecord(row.id, number, LOST)
    return found[0]


def _record_rows(connection: sqlite3.Connection, row: SessionRow, first: int, last: int) -> list[RecordRow]:
    """Return the records from number *first* to *last*, those that there are, in their order."""
    slot = row.slot
    above = last + (1 - last) % STRIDE
    if above < row.head:
        query = f"SELECT slot FROM record WHERE session = ? AND number = ? AND {INDEXED}"  # noqa: S608
        (slot,) = connection.execute(query, (row.id, above)).fetchone() or (0,)
    wanted = {"session": row.id, "slot": slot, "first": first, "last": last}
    found = connection.execute(_GOING_BACK, wanted).fetchall()
    if len(found) <= last - first:  # the way back is damaged, and the records may be there
        found = connection.execute(_ONE_BY_ONE, wanted).fetchall()
    return [RecordRow._make(each) for each in found]


_GOING_BACK: Final = f"""WITH RECURSIVE chain (slot, number, back) AS (
    SELECT slot, number, back FROM record WHERE slot = :slot AND session = :session
    UNION ALL
    SELECT record.slot, record.number, record.back FROM chain JOIN record ON record.slot = chain.back
    WHERE chain.number > :first AND record.session = :session AND record.number = chain.number - 1
)
SELECT {RECORD_COLUMNS} FROM record WHERE slot IN (SELECT slot FROM chain WHERE number <= :last) ORDER BY number"""  # noqa: S608

_ONE_BY_ONE: Final = (
    f"SELECT {RECORD_COLUMNS} FROM record WHERE session = :session AND number BETWEEN :first AND :last ORDER BY number"  # noqa: S608
)


class Reader:
    """Reads, in one thread."""

    def __init__(self, path: Path, connect: Connect) -> None:
        self._path = path
        self._connect = connect
        self._connection: sqlite3.Connection | None = None

    # For the worker

    def serve(self, jobs: Sequence[Job[Reader, object]]) -> None:
        """Do *jobs*."""
        for job in jobs:
            try:
                job.do(self)
            except JournalError as error:
                job.error = error
            except RAISED as error:  # a damaged page is a damaged session
                damaged = job.about and not is_passing(error)
                job.error = BadRecord(job.about, 0, str(error)) if damaged else rolled_back(error, self._path)

    def rest(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # The jobs

    def read(self, session_id: str, after: int, limit: int) -> tuple[Record, ...]:
        """Return up to *limit* records behind number *after*, each checked."""
        return self._within(lambda db: _records(db, session_id, after, limit)) or ()

    def place(self, session_id: str, seq: int) -> int:
        """Return the number of the last record whose events all come up to *seq*."""
        return self._within(lambda db: _place(db, session_id, seq)) or 0

    def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return what was answered to a command id."""
        return self._within(lambda db: _answer(db, session_id, command))

    def sessions(self, after: str, limit: int) -> tuple[StoredSession, ...]:
        """Return what is known of up to *limit* sessions behind the id *after*."""
        query = f"SELECT {COLUMNS} FROM session WHERE id > ? AND head > 0 ORDER BY id LIMIT ?"  # noqa: S608
        found = self._within(lambda db: db.execute(query, (after, limit)).fetchall())
        return tuple(_stored(SessionRow._make(row)) for row in found or ())

    def snapshot(self, session_id: str) -> Snapshot | None:
        """Return the snapshot of a session; one that is damaged in any way is none."""
        with suppress(BadRecord, UnpackError, *RAISED):
            return self._within(lambda db: _snapshot(db, session_id))
        return None

    def _within(self, read: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return what *read* returns, all of it from one moment; `None`: there is no journal yet."""
        if self._connection is None:
            self._connection = open_for_reading(self._path, self._connect)
        db = self._connection
        if db is None:
            return None
        db.execute("BEGIN")
        try:
            return read(db)
        finally:
            db.execute("ROLLBACK")


def _records(db: sqlite3.Connection, session_id: str, after: int, limit: int) -> tuple[Record, ...]:
    row = session_row(db, session_id)
    head = 0 if row is None else row.head
    if row is None or after >= head or limit <= 0:
        return ()
    last = min(head, after + limit)
    found = _record_rows(db, row, max(after, 1), last)
    before = found.pop(0).check if after and found and found[0].number == after else NO_CHECK
    numbers = range(after + 1, last + 1)
    for number, each in zip_longest(numbers, found):
        if each is None or each.number != number:
            raise BadRecord(session_id, number, LOST)
        if not each.follows(before):
            raise BadRecord(session_id, number, CHANGED)
        before = each.check
    if last == head and before != row.check:
        raise BadRecord(session_id, head, CHANGED)
    return tuple(_record(db, each) for each in found)


def _record(db: sqlite3.Connection, row: RecordRow) -> Record:
    try:
        return unpack(Record, Packed(row.body, _blobs(db, row.blobs), row.format))
    except UnpackError as error:
        raise BadRecord(row.session, row.number, str(error)) from error


def _place(db: sqlite3.Connection, session_id: str, seq: int) -> int:
    row = session_row(db, session_id)
    low, high = 0, 0 if row is None else row.head
    while row is not None and low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if record_row(db, row, middle).seq <= seq else (low, middle - 1)
    return low


def _answer(db: sqlite3.Connection, session_id: str, command: str) -> StoredAnswer | None:
    query = "SELECT number FROM record WHERE session = ? AND command = ? ORDER BY number DESC LIMIT 1"
    found = db.execute(query, (session_id, command)).fetchone()
    if found is None:
        return None
    (record,) = _records(db, session_id, found[0] - 1, 1)
    return None if record.answer is None else StoredAnswer(record.arrival.input, record.answer)


def _snapshot(db: sqlite3.Connection, session_id: str) -> Snapshot | None:
    query = 'SELECT number, behind, format, blobs, "check", body FROM snapshot WHERE session = ?'
    found = db.execute(query, (session_id,)).fetchone()
    if found is None:
        return None
    number, behind, form, blobs, check, body = found
    row = session_row(db, session_id)
    if row is None or record_row(db, row, number).check != behind:
        return None
    if type(body) is not bytes or check_of(behind, repr((session_id, number, form, blobs)), body) != check:
        return None
    snapshot = unpack(Snapshot, Packed(body, _blobs(db, blobs), form))
    return snapshot if is_usable(snapshot, number) else None


def _blobs(db: sqlite3.Connection, names: str) -> dict[str, bytes]:
    """Return the blobs of these *names*; raise `UnpackError` if one is not there."""
    blobs: dict[str, bytes] = {}
    for name in names.split():
        found = db.execute("SELECT content FROM blob WHERE digest = ?", (name,)).fetchone()
        if found is None:
            problem = f"the blob {name} that it names is missing"
            raise UnpackError(problem)
        blobs[name] = found[0]
    return blobs


def _stored(row: SessionRow) -> StoredSession:
    if not row.is_whole:
        return StoredSession(row.id, 0, problem=f"what tells of its last record {CHANGED.removeprefix('it ')}")
    return StoredSession(row.id, row.head, row.due, bool(row.at_work), bool(row.ended))
