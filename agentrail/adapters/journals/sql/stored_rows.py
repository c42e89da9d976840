"""Reads the rows of a session, and checks its records against their checksums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, cast

from agentrail.adapters.journals.checksums import as_bytes, check_chain, checksum_of_snapshot, is_next
from agentrail.adapters.journals.packing import PackedRecord, UnpackError, unpack_snapshot
from agentrail.adapters.journals.record_loader import load_rows
from agentrail.adapters.journals.sql.sql_dialect import SqlConnection
from agentrail.adapters.journals.sql.sql_tables import RECORD, SESSION, as_stored, as_text
from agentrail.errors import BadRecord
from agentrail.ports.journal import Latest, Record, Snapshot


class SessionColumns(NamedTuple):
    """The row of a session: its claim, its last record, and what it is listed by."""

    key: int
    """Number of the session in the other tables."""
    stored_id: bytes
    slot: int
    epoch: int
    lease: int
    """Key of the lease of the last claim's holder."""
    is_held: int
    head: int
    seq: int
    check: bytes
    """Checksum of the last record."""
    due: int | None
    at_work: int
    ended: int
    active: int

    @property
    def id(self) -> str:
        """Id of the session."""
        return as_text(self.stored_id)

    @property
    def listing(self) -> tuple[int | None, int, int]:
        """The columns that are in an index."""
        return self.due, self.at_work, self.ended

    @property
    def numbers(self) -> Mapping[str, object]:
        """The columns that hold whole numbers, by name."""
        return {name: value for name, value in self._asdict().items() if name not in {"stored_id", "check"}}


class ChainedColumns(NamedTuple):
    """A row of the table `record`."""

    session: str
    number: int
    epoch: int
    seq: int
    command: str | None
    format: int
    blobs: str
    check: bytes
    body: bytes
    sealed: bytes | None
    """Checksum of what is stored now, if the record was redacted; `check` is that of the record as it was."""

    @property
    def covered_columns(self) -> bytes:
        """The columns from `session` to `blobs`; the checksum covers them together with the body."""
        return as_bytes(self[:7])

    def follows(self, previous: bytes) -> bool:
        """Whether the record is unchanged, and follows the record with the checksum *previous*."""
        return is_next(previous, self.covered_columns, self.body, self.check, self.sealed)


SESSION_COLUMNS: Final = ", ".join(SESSION.columns)

_SESSIONS: Final = f"select {SESSION_COLUMNS} from ~session where id {{}} order by id"  # noqa: S608

_FOUND_BY: Final = "select session from ~about where session {}"

_BETWEEN: Final = f"""select {", ".join(RECORD.columns[1:])}, sealed from ~record
where session = ? and number between ? and ? order by number"""  # noqa: S608

NOTHING_STORED: Final = Latest(None, ())
"""What a session that is not stored comes back from."""


def damage_of(numbers: Mapping[str, object]) -> str:
    """Return what is wrong with the *numbers* of a row; empty if nothing is. A column of SQLite takes any type."""
    for name, value in numbers.items():
        if type(value) is not int and (name != "due" or value is not None):
            return f"its row in the journal is damaged: `{name}` is no whole number"
    return ""


def check_numbers(session_id: str, numbers: Mapping[str, object]) -> None:
    """Raise `BadRecord` if the *numbers* of a session's row are damaged."""
    problem = damage_of(numbers)
    if problem:
        raise BadRecord(session_id, 0, problem)


def read_sessions(db: SqlConnection, ids: Sequence[bytes], lock: str = "") -> dict[str, SessionColumns]:
    """Return the rows of sessions by their ids; those that are not stored are left out."""
    # in the order of their ids, so that two who lock the same rows do not deadlock
    rows = db.run_among(_SESSIONS + lock, sorted(ids))
    return {session.id: session for session in map(SessionColumns._make, rows)}


def read_session(db: SqlConnection, session_id: str) -> SessionColumns | None:
    """Return the row of a session; `None` if it is not stored. Raise `BadRecord` if it is not found, or damaged."""
    stored_id = as_stored(session_id)
    row = read_sessions(db, (stored_id,)).get(session_id)
    if row is None and hidden_sessions(db, (stored_id,)):
        raise hidden(session_id)
    if row is not None:
        check_numbers(session_id, {"head": row.head})
    return row


def hidden_sessions(db: SqlConnection, ids: Sequence[bytes]) -> set[str]:
    """Return which of *ids*, of which no row was found in this transaction, are stored all the same.

    What they can be found by is in a table of its own. If only that has them, an index of the sessions is damaged: one
    would be taken for new, and begun once more.
    """
    return {as_text(cast("bytes", stored_id)) for (stored_id,) in db.run_among(_FOUND_BY, ids)}


def hidden(session_id: str) -> BadRecord:
    """Return the error about a session of `hidden_sessions`."""
    return BadRecord(session_id, 0, "an index of the journal is damaged, and does not find it; `REINDEX` mends that")


def checked_records(db: SqlConnection, end: SessionColumns, first: int, last: int) -> list[ChainedColumns]:
    """Return the records of a session from number *first* to *last*; raise `BadRecord` if one is damaged or lost."""
    session_id, records = end.id, list[ChainedColumns]()
    for number, epoch, seq, command, *others in db.run(_BETWEEN, (end.key, max(first - 1, 1), last)):
        text = None if command is None else as_text(command)
        records.append(ChainedColumns._make((session_id, number, epoch, seq, text, *others)))
    return check_chain(end, records, first, last)


def load_records(db: SqlConnection, end: SessionColumns, rows: Sequence[ChainedColumns]) -> tuple[Record, ...]:
    """Return the records of consecutive rows of a session; raise `BadRecord` if one cannot be read."""
    blobs = _BlobsOfSession(db, end.key)

    def packed(row: ChainedColumns) -> PackedRecord:
        return PackedRecord(row.body, blobs.named(row.blobs), row.format)

    return load_rows(rows, packed, partial(checked_records, db, end))


def read_records(db: SqlConnection, end: SessionColumns, first: int, last: int) -> tuple[Record, ...]:
    """Return the records of a session from number *first* to *last*, as far as there are so many."""
    last = min(last, end.head)
    return load_records(db, end, checked_records(db, end, first, last)) if first <= last else ()


class _BlobsOfSession:
    """The long texts of a session; each is read once."""

    def __init__(self, db: SqlConnection, key: int) -> None:
        self._db = db
        self._key = key
        self._contents: dict[str, bytes] = {}

    def named(self, names: str) -> Mapping[str, bytes]:
        """Return the blobs by name; *names* are separated by spaces. Raise `UnpackError` if one is missing."""
        wanted_names = names.split()
        missing = [name for name in wanted_names if name not in self._contents]
        if missing:
            query = "select digest, content from ~blob where session = ? and digest {}"
            self._contents.update(cast("list[tuple[str, bytes]]", self._db.run_among(query, missing, (self._key,))))
        for name in wanted_names:
            if name not in self._contents:
                problem = f"the blob {name} that it names is missing"
                raise UnpackError(problem)
        return {name: self._contents[name] for name in wanted_names}


def read_latest(db: SqlConnection, end: SessionColumns, upto: int | None, limit: int) -> Latest:
    """Return the snapshot of a session, and up to *limit* of the records that follow it, up to *upto*."""
    last = end.head if upto is None else min(upto, end.head)
    snapshot: Snapshot | None = None
    with suppress(BadRecord, UnpackError):  # it is damaged: the caller folds the records instead
        snapshot = _read_snapshot(db, end, last)
    first = 1 if snapshot is None else snapshot.number + 1
    return Latest(snapshot, read_records(db, end, first, min(last, first + limit - 1)))


def _read_snapshot(db: SqlConnection, end: SessionColumns, last: int) -> Snapshot | None:
    """Return the snapshot of a session; `None` if it has none, a damaged one, or one of a record after *last*."""
    query = (
        "select number, record_checksum, format, blobs, checksum, body from ~snapshot where session = ? and number <= ?"
    )
    for row in db.run(query, (end.key, last)):
        number, record_checksum, form, blobs, check, body = cast("tuple[int, bytes, int, str, bytes, bytes]", row)
        # the types are checked too: one changed bit can turn a blob into text
        if type(body) is not bytes or type(record_checksum) is not bytes:
            return None
        if checksum_of_snapshot(record_checksum, (end.id, number, form, blobs), body) != check:
            return None
        if checked_records(db, end, number, number)[0].check != record_checksum:
            return None
        snapshot = unpack_snapshot(PackedRecord(body, _BlobsOfSession(db, end.key).named(blobs), form))
        return snapshot if snapshot.number == number else None
    return None
