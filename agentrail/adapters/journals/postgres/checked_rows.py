"""Reads rows of the tables, and checks the records among them against their checksums."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple, cast

from agentrail.adapters.journals.checksums import as_bytes, checked_chain, is_next
from agentrail.adapters.journals.packing import PackedRecord, UnpackError
from agentrail.adapters.journals.postgres.database import Database
from agentrail.adapters.journals.postgres.server_tables import as_stored, as_text
from agentrail.adapters.journals.record_loader import load_rows
from agentrail.ports.journal import Record


class SessionHead(NamedTuple):
    """The claim of a session, and its last record."""

    id: str
    epoch: int
    head: int
    seq: int
    check: bytes


class RecordColumns(NamedTuple):
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

    @property
    def outside(self) -> bytes:
        """The columns from `session` to `blobs`; the checksum covers them together with the body."""
        return as_bytes(self[:7])

    def follows(self, before: bytes) -> bool:
        """Whether the record is unchanged, and follows the record with the checksum *before*."""
        return is_next(before, self.outside, self.body, self.check, self.sealed)


RECORD_COLUMNS: Final = 'number, epoch, seq, command, format, blobs, "check", body, sealed'

_HEADS: Final = 'select id, epoch, head, seq, "check" from agentrail.session where id = any(%b)'

_BETWEEN: Final = f"""select {RECORD_COLUMNS} from agentrail.record
where session = %b and number between %b and %b order by number"""  # noqa: S608


def read_heads(db: Database, session_ids: Sequence[str]) -> dict[str, SessionHead]:
    """Return the heads of the sessions that there are."""
    rows = db.run(_HEADS, (list(map(as_stored, session_ids)),))
    return {head.id: head for head in map(session_head, rows)}


def session_head(columns: Sequence[object]) -> SessionHead:
    """Return the head in a row of the table `session`, whose first column is the id."""
    session_id, epoch, head, seq, check = cast("tuple[bytes, int, int, int, bytes]", tuple(columns))
    return SessionHead(as_text(session_id), epoch, head, seq, check)


def read_head(db: Database, session_id: str) -> SessionHead | None:
    """Return the head of a session; `None` if there is no such session."""
    return read_heads(db, (session_id,)).get(session_id)


def checked_records(db: Database, head: SessionHead, first: int, last: int) -> list[RecordColumns]:
    """Return the records of a session from number *first* to *last*; raise `BadRecord` if one is damaged or lost."""
    rows = [_record_columns(head.id, row) for row in db.run(_BETWEEN, (as_stored(head.id), max(first - 1, 1), last))]
    return checked_chain(head, rows, first, last)


def _record_columns(session_id: str, columns: Sequence[object]) -> RecordColumns:
    number, epoch, seq, command, form, blobs, check, body, sealed = cast(
        "tuple[int, int, int, bytes | None, int, str, bytes, bytes, bytes | None]", tuple(columns)
    )
    text = None if command is None else as_text(command)
    return RecordColumns(session_id, number, epoch, seq, text, form, blobs, check, body, sealed)


def load_records(db: Database, head: SessionHead, rows: Sequence[RecordColumns]) -> tuple[Record, ...]:
    """Return the records of consecutive rows of a session; raise `BadRecord` if one cannot be read."""
    return load_rows(rows, partial(_packed_record, db), partial(checked_records, db, head))


def _packed_record(db: Database, row: RecordColumns) -> PackedRecord:
    return PackedRecord(row.body, read_blobs(db, row.session, row.blobs), row.format)


def read_blobs(db: Database, session_id: str, names: str) -> dict[str, bytes]:
    """Return the blobs of a session by name; *names* are separated by spaces. Raise `UnpackError` if one is missing."""
    digests = names.split()
    if not digests:
        return {}
    query = "select digest, content from agentrail.blob where session = %b and digest = any(%s)"
    rows = db.run(query, (as_stored(session_id), digests))
    blobs = dict(cast("list[tuple[str, bytes]]", rows))
    for name in digests:
        if name not in blobs:
            problem = f"the blob {name} that it names is missing"
            raise UnpackError(problem)
    return blobs
