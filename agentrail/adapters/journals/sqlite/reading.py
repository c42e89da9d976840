"""Reads a journal, with its own connection in its own thread; the writer uses some of the functions too."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from agentrail.adapters.journals.checksums import check_of_snapshot, checked_chain
from agentrail.adapters.journals.packing import (
    PackedRecord,
    UnpackError,
    unpack_snapshot,
)
from agentrail.adapters.journals.record_loader import load_rows
from agentrail.adapters.journals.sqlite.deletion.erasing import refuse_deleting
from agentrail.adapters.journals.sqlite.error_mapping import RAISED, in_reading, is_passing, is_stopped
from agentrail.adapters.journals.sqlite.opening import Connect, open_for_reading
from agentrail.adapters.journals.sqlite.session_summaries import DAMAGED, list_last_used, list_sessions
from agentrail.adapters.journals.sqlite.tables import (
    COLUMNS,
    INDEXED,
    RECORD_COLUMNS,
    STRIDE,
    RecordRow,
    SessionRow,
)
from agentrail.adapters.journals.sqlite.writer_lock import FileUse
from agentrail.adapters.journals.writer_thread import JobStoppedError, WriterJob
from agentrail.errors import AgentrailError, BadRecord
from agentrail.ports.journal import Latest, Record, SessionFilter, Snapshot, StoredAnswer, StoredSession

log = logging.getLogger("agentrail.journal")

T = TypeVar("T")

PAGE: Final = 256
"""The most records that one query reads while a session's records are searched for a command."""

MAX_SOUND: Final = 10_000
"""The most sessions that `Sound` remembers; beyond it the oldest one is forgotten, and checked again when needed."""

STEPS: Final = 100_000
"""After how many steps of its virtual machine SQLite asks whether a query is still wanted: about a millisecond."""

REINDEX: Final = (
    "and each of them is looked for in all of its records; when no process uses the journal, "
    "`sqlite3 <its file> 'REINDEX record_by_command'` makes the index anew"
)


def session_row(connection: sqlite3.Connection, session_id: str) -> SessionRow | None:
    """Return the row of a session; `None` if there is no such session.

    Raise `BadRecord` if it is damaged or lost, `SessionBeingDeleted` if the session is being deleted.
    """
    columns = connection.execute(f"SELECT {COLUMNS} FROM session WHERE id = ?", (session_id,)).fetchone()  # noqa: S608
    if columns is None:
        refuse_deleting(connection, session_id)
        query = f"SELECT 1 FROM record WHERE session = ? AND {INDEXED} LIMIT 1"  # noqa: S608
        if connection.execute(query, (session_id,)).fetchone() is None:
            return None
        raise BadRecord(session_id, 0, "the entry that names its last record is lost")
    row = SessionRow._make(columns)
    if not row.is_whole:
        raise BadRecord(session_id, 0, DAMAGED)
    return row


def checked_rows(connection: sqlite3.Connection, row: SessionRow, first: int, last: int) -> list[RecordRow]:
    """Return the records of a session from number *first* to *last*; raise `BadRecord` if one is damaged or lost."""
    return checked_chain(row, _find_rows(connection, row, max(first - 1, 1), last), first, last)


def _find_rows(connection: sqlite3.Connection, row: SessionRow, first: int, last: int) -> list[RecordRow]:
    """Return the records from number *first* to *last*, without checking them.

    They are found by going back from record to record, from the next one that the index has. If that fails, all records
    from the previous one in the index on are searched.
    """
    slot = row.slot
    following = last + (1 - last) % STRIDE
    if following < row.head:
        (slot,) = connection.execute(_IN_INDEX, (row.id, following)).fetchone() or (0,)
    count = last - first + 1
    parameters = {"session": row.id, "slot": slot, "first": first, "last": last, "count": count}
    rows: list[tuple[object, ...]] = []
    with suppress(*RAISED):  # the way back leads through later records: a damaged page among them breaks it
        rows = connection.execute(_GOING_BACK, parameters).fetchall()
    if len(rows) < count:
        rows = connection.execute(_FORWARD, parameters).fetchall()
    return [RecordRow._make(columns) for columns in rows]


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


class Sound:
    """The sessions whose index of command ids was found complete since the journal was opened."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        """Remember a session; forget the oldest one if there are too many."""
        self._names[name] = None
        if len(self._names) > MAX_SOUND:
            del self._names[next(iter(self._names))]

    def clear(self) -> None:
        """Forget all sessions, so that each is checked again."""
        self._names.clear()


class JournalReader:
    """Carries out all reading calls, in the reader's thread."""

    def __init__(self, path: Path, connect: Connect) -> None:
        self._path = path
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._sound = Sound()
        self._file = FileUse(path)
        self._job: WriterJob[JournalReader] | None = None

    # The methods of `JobHandler`, which the worker calls

    def serve(self, jobs: Sequence[WriterJob[JournalReader]]) -> None:
        """Run *jobs*; an exception is stored in its job, and raised in the task that waits for it."""
        for job in jobs:
            self._job = job
            try:
                job.do(self)
            except AgentrailError as error:
                job.error = error
            except RAISED as error:  # a damaged page is reported as a damaged session
                damaged = job.about and not is_passing(error)
                job.error = BadRecord(job.about, 0, str(error)) if damaged else in_reading(error, self._path)
            if job.error is not None and job.is_unwanted:
                job.error = JobStoppedError()

    def rest(self) -> None:
        """No-op: a reader has nothing to do between jobs."""

    def close(self) -> None:
        """Close the connection and end the use of the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._sound.clear()
        self._file.end()

    # The jobs

    def read(self, session_id: str, after: int, limit: int) -> tuple[Record, ...]:
        """Return up to *limit* records after number *after*; raise `BadRecord` if one is damaged."""
        return self._within(lambda db: _records(db, session_id, after, limit)) or ()

    def record_of_seq(self, session_id: str, seq: int) -> int:
        """Return the number of the last record that has no event with a number above *seq*."""
        return self._within(lambda db: _place(db, session_id, seq)) or 0

    def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return the command and answer stored under a command id; `None` if there is none."""
        return self._within(lambda db: _answer(db, self._sound, session_id, command))

    def sessions(self, wanted: SessionFilter, after: StoredSession | None, limit: int) -> tuple[StoredSession, ...]:
        """Return summaries of up to *limit* of the *wanted* sessions, after *after*."""
        return self._within(lambda db: list_sessions(db, wanted, after, limit)) or ()

    def last_used(self, label: str | None, limit: int) -> tuple[StoredSession, ...]:
        """Return summaries of the *limit* sessions that were used last, the last one first; with *label*, of those."""
        return self._within(lambda db: list_last_used(db, label, limit)) or ()

    def latest(self, session_id: str, upto: int | None, limit: int) -> Latest:
        """Return the snapshot of a session, and up to *limit* of the records that follow it, up to *upto*."""
        return self._within(lambda db: _latest(db, session_id, upto, limit)) or NOTHING_STORED

    def other_writer(self) -> str | None:
        """Return the process that has the file open for writing, if there is one."""
        self._within(lambda _: None)
        return self._file.other_writer()

    def _within(self, query: Callable[[sqlite3.Connection], T]) -> T | None:
        """Return the result of *query*, run in one read transaction; `None` if there is no journal yet."""
        if self._connection is None:
            self._connection = open_for_reading(self._path, self._connect, self._file)
            if self._connection is not None:
                self._connection.set_progress_handler(self._is_unwanted, STEPS)
        db = self._connection
        if db is None:
            return None
        db.execute("BEGIN")
        try:
            return query(db)
        finally:
            # SQLite ends the transaction after some errors; a `ROLLBACK` would then raise, and hide the error
            if db.in_transaction:
                db.execute("ROLLBACK")

    def _is_unwanted(self) -> bool:
        """Whether SQLite is to end the query that runs: its progress handler, called every so many `STEPS`."""
        return self._job is not None and self._job.is_unwanted


def _records(db: sqlite3.Connection, session_id: str, after: int, limit: int) -> tuple[Record, ...]:
    row = session_row(db, session_id)
    return () if row is None else _between(db, row, after + 1, after + limit)


def _between(db: sqlite3.Connection, row: SessionRow, first: int, last: int) -> tuple[Record, ...]:
    """Return the records of a session from number *first* to *last*, as far as there are so many."""
    last = min(last, row.head)
    return load_records(db, row, checked_rows(db, row, first, last)) if first <= last else ()


def first_record(db: sqlite3.Connection, row: SessionRow) -> Record:
    """Return the first record of a session; raise `BadRecord` if it is damaged or lost."""
    return load_records(db, row, checked_rows(db, row, 1, 1))[0]


def load_records(db: sqlite3.Connection, row: SessionRow, rows: Sequence[RecordRow]) -> tuple[Record, ...]:
    """Return the records of consecutive rows of a session; raise `BadRecord` if one cannot be read."""

    def find(first: int, last: int) -> Sequence[RecordRow]:
        with suppress(*RAISED):
            return checked_rows(db, row, first, last)
        return ()

    return load_rows(rows, partial(_packed_record, db), find)


def _packed_record(db: sqlite3.Connection, row: RecordRow) -> PackedRecord:
    """Return the stored record of a row with its blobs; raise `UnpackError` if one is missing."""
    return PackedRecord(row.body, _blobs(db, row.blobs), row.format)


def _place(db: sqlite3.Connection, session_id: str, seq: int) -> int:
    row = session_row(db, session_id)
    if row is None:
        return 0
    low, high, step = row.head, row.head, 1
    while low and _seq(db, row, low) > seq:  # searched from the end, because most subscribers have missed only a little
        low, high, step = max(low - step, 0), low - 1, 2 * step
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _seq(db, row, middle) <= seq else (low, middle - 1)
    return low


def _seq(db: sqlite3.Connection, row: SessionRow, number: int) -> int:
    """Return the number of the last event up to record *number*; raise `BadRecord` if that is damaged or lost."""
    (record_row,) = checked_rows(db, row, number, number)
    return record_row.seq


def _answer(db: sqlite3.Connection, sound: Sound, session_id: str, command: str) -> StoredAnswer | None:
    """Return the answer stored under a command id, by the index or, if that may be incomplete, by a scan of records."""
    with suppress(BadRecord, *RAISED):  # the index is damaged, or the record that it names is
        slot_row = db.execute(_BY_COMMAND, (session_id, command)).fetchone()
        if slot_row is None and session_id in sound:
            return None
        row = session_row(db, session_id)
        record_row = None if row is None or slot_row is None else _indexed_row(db, row, slot_row[0])
        if row is not None and record_row is not None and record_row.command == command:
            return _answer_of(db, row, record_row)
    row = session_row(db, session_id)
    record_row = None if row is None else _search_command(db, sound, row, command)
    return None if row is None or record_row is None else _answer_of(db, row, record_row)


_BY_COMMAND: Final = "SELECT number FROM record WHERE session = ? AND command = ? ORDER BY number DESC LIMIT 1"

_COMMANDS: Final = """SELECT command, rowid FROM record INDEXED BY record_by_command
WHERE session = ? AND command IS NOT NULL"""


def _indexed_row(db: sqlite3.Connection, row: SessionRow, number: object) -> RecordRow:
    """Return record *number*, which the index named; raise `BadRecord` if there cannot be such a record."""
    if type(number) is not int or not 0 < number <= row.head:
        raise BadRecord(row.id, 0, "the number of a record has changed since it was written")
    (record_row,) = checked_rows(db, row, number, number)
    return record_row


def _answer_of(db: sqlite3.Connection, row: SessionRow, record_row: RecordRow) -> StoredAnswer | None:
    (record,) = load_records(db, row, [record_row])
    return None if record.answer is None else StoredAnswer(record.arrival.input, record.answer)


def _search_command(db: sqlite3.Connection, sound: Sound, row: SessionRow, command: str) -> RecordRow | None:
    """Return the record of a command by a search of all records of its session, which are checked.

    A missing entry in the index proves nothing, because a row of the index may be lost or changed. So the first search
    for a command that is not in the index goes through all records. If the index turns out to be complete, the session
    is added to *sound*, and the index is trusted from then on.
    """
    sought: RecordRow | None = None
    commands: set[tuple[str, int]] = set()
    for first in range(1, row.head + 1, PAGE):
        for record_row in checked_rows(db, row, first, min(row.head, first + PAGE - 1)):
            if record_row.command is not None:
                commands.add((record_row.command, record_row.slot))
                sought = record_row if record_row.command == command else sought
    indexed: set[tuple[str, int]] | None = None
    try:
        indexed = set(db.execute(_COMMANDS, (row.id,)).fetchall())
    except RAISED as error:
        if is_stopped(error):
            raise
    if indexed == commands:
        sound.add(row.id)
    else:
        log.error("session %s: the index of its command ids is damaged, %s", row.id, REINDEX)
    return sought


NOTHING_STORED: Final = Latest(None, ())
"""What a session that is not stored comes back from."""


def _latest(db: sqlite3.Connection, session_id: str, upto: int | None, limit: int) -> Latest:
    row = session_row(db, session_id)
    if row is None:
        return NOTHING_STORED
    last = row.head if upto is None else min(upto, row.head)
    snapshot: Snapshot | None = None
    # the snapshot or a record that it needs is damaged: the caller folds the records instead
    with suppress(BadRecord, UnpackError, *RAISED):
        snapshot = _snapshot(db, row, last)
    first = 1 if snapshot is None else snapshot.number + 1
    return Latest(snapshot, _between(db, row, first, min(last, first + limit - 1)))


def _snapshot(db: sqlite3.Connection, row: SessionRow, last: int) -> Snapshot | None:
    """Return the snapshot of a session; `None` if it has none, a damaged one, or one of a record after *last*."""
    query = 'SELECT number, behind, format, blobs, "check", body FROM snapshot WHERE session = ? AND number <= ?'
    columns = db.execute(query, (row.id, last)).fetchone()
    if columns is None:
        return None
    number, behind, form, blobs, check, body = columns
    if type(body) is not bytes or type(behind) is not bytes:
        return None
    if check_of_snapshot(behind, (row.id, number, form, blobs), body) != check:
        return None
    if checked_rows(db, row, number, number)[0].check != behind:
        return None
    snapshot = unpack_snapshot(PackedRecord(body, _blobs(db, blobs), form))
    return snapshot if snapshot.number == number else None


def _blobs(db: sqlite3.Connection, names: str) -> dict[str, bytes]:
    """Return the blobs by name; *names* are separated by spaces. Raise `UnpackError` if one is missing."""
    blobs: dict[str, bytes] = {}
    for name in names.split():
        columns = db.execute("SELECT content FROM blob WHERE digest = ?", (name,)).fetchone()
        if columns is None:
            problem = f"the blob {name} that it names is missing"
            raise UnpackError(problem)
        blobs[name] = columns[0]
    return blobs
