"""Stored sessions of a stranger: each checksum fits, and what they cover is not what agentrail would have written."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from agentrail.adapters.journals.archive_reader import check_of_end, outside
from agentrail.adapters.journals.packing import NO_CHECK, PackedRecord, checksum_of, pack
from agentrail.adapters.journals.sql.stored_rows import ChainedColumns
from agentrail.codec.versions import FORMAT
from agentrail.journals import SqliteJournal
from tests.kit import prompted, run_of

HOLE: Final = b'"a place to fill"'
"""A text in the body of a record, in place of which others are put."""


def body_with(filling: bytes, number: int = 1) -> bytes:
    """Return the body of a record that has *filling* among the names of its effects."""
    body = pack(prompted("s", number).but(effects=(HOLE.strip(b'"').decode(),))).body
    assert body.count(HOLE) == 1
    return body.replace(HOLE, filling)


def write_archive(path: Path, bodies: Sequence[bytes], session_id: str = "s") -> None:
    """Write an export file of a session whose records have these *bodies*."""
    check, lines = NO_CHECK, [b'{"kind":"agentrail export","version":1,"session":"%b"}' % session_id.encode()]
    for body in bodies:
        check = checksum_of(check, outside(FORMAT, session_id), body)
        lines.append(b'{"check":"%b","format":%d,"record":%b}' % (check.hex().encode(), FORMAT, body))
    end = check_of_end(check, session_id, len(bodies)).hex().encode()
    path.write_bytes(b"\n".join([*lines, b'{"check":"%b","end":%d}' % (end, len(bodies)), b""]))


async def write_database(path: Path, bodies: Sequence[PackedRecord]) -> None:
    """Write a journal with a session `s` whose records have these *bodies*."""
    journal = SqliteJournal(path, sync="normal")
    await journal.append(await journal.claim("s", "test"), 0, run_of("s", 1, len(bodies)))
    await journal.close()
    with closing(sqlite3.connect(path)) as db, db:
        check = NO_CHECK
        for number, packed in enumerate(bodies, 1):
            query = "SELECT epoch, seq, format FROM record WHERE number = ?"
            epoch, seq, form = db.execute(query, (number,)).fetchone()
            names = " ".join(packed.blobs)
            row = ChainedColumns("s", number, epoch, seq, None, form, names, b"", packed.body, None)
            check = checksum_of(check, row.covered_columns, row.body)
            query = "UPDATE record SET body = ?, blobs = ?, checksum = ? WHERE number = ?"
            db.execute(query, (row.body, row.blobs, check, number))
            db.executemany("INSERT OR IGNORE INTO blob SELECT key, ?, ? FROM session", packed.blobs.items())
        db.execute("UPDATE session SET checksum = ?", (check,))
