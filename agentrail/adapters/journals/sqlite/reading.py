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
from agentrail.adapters.journals.sqlite.files import FileUse
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


def checked(connection: sqlite3.Connection, row: SessionRow, first: int, last: int) -> list[RecordRow]:
    """Return the records of a session from number *first* to *last*; raise `BadRecord` if one is damaged or lost."""
    found = _found(connection, row, max(first - 1, 1), last)
    before = found.pop(0).check if first > 1 and found and found[0].number == first - 1 else NO_CHECK
    for number, each in zip_longest(range(first, last + 1), found):
        if each is None or each.number != number:
            raise BadRecord(row.id, number, LOST)
        if not each.follows(before):
            raise BadRecord(row.id, number, CHANGED)
        before = each.check
    if last == row.head and before != row.check:
        raise BadRecord(row.id, row.head, CHANGED)
    return found


def _found(connection: sqlite3.Connection, row: SessionRow, first: int, last: int) -> list[RecordRow]:
    """Return the records that there are from number *first* to *last*: from the next one that is in the index, back."""
    slot = row.slot
    following = last + (1 - last) % STRIDE
    if following < row.head:
        (slot,) = connection.execute(_IN_INDEX, (row.id, following)).fetchone() or (0,)
    count = last - first + 1
    wanted = {"session": row.id, "slot": slot, "first": first, "last": last, "count": count}
    found: list[tuple[object, ...]] = []
    with suppress(*RAISED):  # a page behind what is wanted may be damaged, and the way back leads over it
        found = connection.execute(_GOING_BACK, wanted).fetchall()
    if len(found) < count:
        found = connection.execute(_FORWARD, wanted).fetchall()
    return [RecordRow._make(each) for each in found]


_IN_INDEX: Final = f"SELECT rowid FROM record WHERE session = ? AND number = ? AND {INDEXED}"  # noqa: S608

_GOING_BACK: Final = f"""WITH RECURSIVE chain (slot, number, back) AS (
    SELECT rowid, number, back FROM record WHERE rowid = :slot AND session = :session
    UNION ALL
    SELECT record.rowid, record.number, record.back FROM chain JOIN record ON record.rowid = chain.back
    WHERE chain.number > :first AND record.session = :session AND record.number = chain.number - 1
)
SELECT {RECORD_COLUMNS} FROM record WHERE rowid IN (SELECT slot FROM chain WHERE number <= :last) ORDER BY number"""  # noqa: S608

_FORWARD: Final = f"""SELECT {RECORD_COLUMNS} FROM record
WHERE session = :session AND number BETWEEN :first AND :last AND rowid >= ifnull((
    SELECT rowid FROM record WHERE session = :session AND number <= :first AND {INDEXED} ORDER BY number DESC LIMIT 1
), 0)
ORDER BY rowid LIMIT :count"""  # noqa: S608


class Reader:
    """Reads, in one thread."""

    def __init__(self, path: Path, connect: Connect) -> None:
        self._path = path
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._file = FileUse(path)

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
        self._file.end()

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
            self._connection = open_for_reading(self._path, self._connect, self._file)
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
    if row is None or after >= row.head or limit <= 0:
        return ()
    return tuple(_record(db, each) for each in checked(db, row, after + 1, min(row.head, after + limit)))


def _record(db: sqlite3.Connection, row: RecordRow) -> Record:
    try:
        return unpack(Record, Packed(row.body, _blobs(db, row.blobs), row.format))
    except UnpackError as error:
        raise BadRecord(row.session, row.number, str(error)) from error


def _place(db: sqlite3.Connection, session_id: str, seq: int) -> int:
    row = session_row(db, session_id)
    if row is None:
        return 0
    low, high = 0, row.head
    while low < high:
        middle = (low + high + 1) // 2
        (found,) = checked(db, row, middle, middle)
        low, high = (middle, high) if found.seq <= seq else (low, middle - 1)
    return low


def _answer(db: sqlite3.Connection, session_id: str, command: str) -> StoredAnswer | None:
    query = "SELECT number FROM record WHERE session = ? AND command = ? ORDER BY number DESC LIMIT 1"
    found = db.execute(query, (session_id, command)).fetchone()
    if found is None:
        return None
    row = session_row(db, session_id)
    if row is None or type(found[0]) is not int or not 0 < found[0] <= row.head:
        raise BadRecord(session_id, 0, "the number of a record has changed since it was written")
    (each,) = checked(db, row, found[0], found[0])
    record = _record(db, each)
    return None if record.answer is None else StoredAnswer(record.arrival.input, record.answer)


def _snapshot(db: sqlite3.Connection, session_id: str) -> Snapshot | None:
    query = 'SELECT number, behind, format, blobs, "check", body FROM snapshot WHERE session = ?'
    found = db.execute(query, (session_id,)).fetchone()
    if found is None:
        return None
    number, behind, form, blobs, check, body = found
    if type(body) is not bytes or type(behind) is not bytes:
        return None
    if check_of(behind, repr((session_id, number, form, blobs)), body) != check:
        return None
    row = session_row(db, session_id)
    if row is None or checked(db, row, number, number)[0].check != behind:
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
