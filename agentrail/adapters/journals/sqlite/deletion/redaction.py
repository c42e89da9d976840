"""Replaces the texts of stored records by a mark, a few records in each transaction.

The checksum of the record as it was stays in the column `check`, so that the records after it still follow. A redacted
record has a second one in `sealed`, over the checksum before it, that of the record as it was, and what is stored now.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence
from typing import Final

from agentrail.adapters.journals.packing import check_of, pack
from agentrail.adapters.journals.redacting import redacted
from agentrail.adapters.journals.sqlite.deletion.erasing import ERASED, drop_unused_blobs
from agentrail.adapters.journals.sqlite.tables import RecordRow, SessionRow
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import Record, Redaction

REDACTED: Final = "#redacted"
"""The text of the mark for which the file is cleaned; no id of a session begins so."""

AT_ONCE: Final = 16
"""How many records are redacted in one transaction."""


def redact_some(
    db: sqlite3.Connection,
    row: SessionRow,
    before: bytes,
    stored: Sequence[tuple[RecordRow, Record]],
    note: Redaction,
    names: Collection[str],
) -> int:
    """Redact the consecutive records *stored*, which follow the checksum *before*; return how many were changed.

    *names* is the result of `kept_names`.
    """
    count = 0
    for stored_row, record in stored:
        if record.redacted is None:
            _redact(db, stored_row, redacted(record, note, names), before)
            count += 1
        before = stored_row.check
    _drop_snapshot(db, row)
    reach("TEXTS_REPLACED")
    return count


def drop_unnamed_blobs(db: sqlite3.Connection, row: SessionRow) -> None:
    """Erase the long texts that no record names any more. It reads all records of the session, so it is done once."""
    _drop_snapshot(db, row)  # a snapshot may have been written between two transactions of the redaction
    drop_unused_blobs(db, row.id, row.slot)


def _drop_snapshot(db: sqlite3.Connection, row: SessionRow) -> None:
    db.execute("DELETE FROM snapshot WHERE session = ?", (row.id,))


def _redact(db: sqlite3.Connection, row: RecordRow, record: Record, before: bytes) -> None:
    packed = pack(record)
    names = " ".join(packed.blobs)
    for name, content in packed.blobs.items():  # long texts that are not personal, such as a system prompt
        db.execute("INSERT OR IGNORE INTO blob VALUES (?, ?)", (name, content))
        db.execute("INSERT OR IGNORE INTO blob_use VALUES (?, ?)", (name, row.session))
    changed = row._replace(format=packed.format, blobs=names, body=packed.body)
    sealed = check_of(before + row.check, changed.outside, packed.body)
    query = "UPDATE record SET format = ?, blobs = ?, body = ?, sealed = ? WHERE slot = ?"
    db.execute(query, (packed.format, names, packed.body, sealed, row.slot))


def mark_cleaning(db: sqlite3.Connection) -> int:
    """Add a mark, so that the file is cleaned of the replaced texts; return the number of the mark."""
    values = (REDACTED, ERASED)
    number = db.execute("INSERT INTO deleting (session, slot, epoch) VALUES (?, ?, 0)", values).lastrowid
    return number or 0
