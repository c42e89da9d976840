"""Deletes sessions from the tables of a journal: marks them in one transaction, and erases their rows in small ones.

The mark takes a session's row from the table `session` and puts its id into the table `deleting`. From then on all
calls about the session are refused, and its records are erased from the last one back. When no row is left, the mark
names only a digest of the id. It stays until the pages are cleaned (`cleaning`), so that a process that opens the
journal after a crash goes on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from agentrail.adapters.journals.sqlite.session_summaries import erase_about
from agentrail.errors import SessionBeingDeleted
from agentrail.ports.failpoints import reach

MAX_RECORDS: Final = 64
"""The most records, or blobs, that are erased in one transaction."""

MAX_BYTES: Final = 512 * 1024
"""Bytes of records, or blobs, after which a transaction erases no more."""

LAST: Final = 2**63 - 1
"""The highest number of a mark."""

ERASED: Final = -1
"""The slot of a mark whose session has no rows any more."""


def refuse_deleting(db: sqlite3.Connection, session_id: str) -> None:
    """Raise `SessionBeingDeleted` if the session is marked."""
    if marks_of(db, session_id) is not None:
        raise SessionBeingDeleted(session_id)


def tree_of(db: sqlite3.Connection, session_id: str) -> list[str]:
    """Return the ids of a stored session and of its sub-agents, at any depth; empty if it is not stored."""
    session_ids = [name for (name,) in db.execute(_TREE, (session_id,))]
    return session_ids if session_id in session_ids else []


_TREE: Final = """WITH RECURSIVE tree (id) AS (
    VALUES (?) UNION SELECT child.session FROM child JOIN tree ON child.parent = tree.id
)
SELECT id FROM tree WHERE id IN (SELECT id FROM session)"""


def marks_of(db: sqlite3.Connection, session_id: str) -> tuple[int, int] | None:
    """Return the highest number of a mark, and the number of marks; `None` if *session_id* is not marked.

    The sub-agents were marked together with the session, and marks are handled in order.
    """
    query = "SELECT 1 FROM deleting WHERE session IN (?, ?) LIMIT 1"
    if db.execute(query, (session_id, _digest(session_id))).fetchone() is None:
        return None
    row: tuple[int, int] = db.execute("SELECT max(number), count(*) FROM deleting").fetchone()
    return row


def mark(db: sqlite3.Connection, names: Sequence[str]) -> int:
    """Mark sessions for deletion and take their rows away; return the number of the last mark."""
    number = 0
    for name in names:
        query = "INSERT INTO deleting (session, slot, epoch) SELECT id, slot, epoch FROM session WHERE id = ?"
        number = db.execute(query, (name,)).lastrowid or 0
        db.execute("DELETE FROM session WHERE id = ?", (name,))
    db.execute("UPDATE journal SET epoch = max(epoch, (SELECT max(epoch) FROM deleting))")
    reach("DELETION_MARKED")
    return number


def is_marked(db: sqlite3.Connection, number: int = LAST) -> bool:
    """Whether a mark with a number up to *number* is left; without *number*, whether any mark is."""
    return db.execute("SELECT 1 FROM deleting WHERE number <= ? LIMIT 1", (number,)).fetchone() is not None


def erase_some(db: sqlite3.Connection) -> int | None:
    """Erase some rows of the first marked session; return the approximate bytes erased, `None` if no row is left."""
    rows = db.execute("SELECT number, session, slot FROM deleting WHERE slot <> ? ORDER BY number LIMIT 1", (ERASED,))
    row: tuple[int, str, int] | None = rows.fetchone()
    if row is None:
        return None
    number, session_id, slot = row
    erased = _erase_records(db, number, session_id, slot) or _erase_blobs(db, session_id)
    if not erased:
        db.execute("DELETE FROM snapshot WHERE session = ?", (session_id,))
        db.execute("DELETE FROM child WHERE session = ?", (session_id,))
        erase_about(db, session_id)
        db.execute("UPDATE deleting SET session = ?, slot = ? WHERE number = ?", (_digest(session_id), ERASED, number))
    reach("ROWS_ERASED")
    return erased


def _erase_records(db: sqlite3.Connection, number: int, session_id: str, slot: int) -> int:
    """Erase some of a session's records, from the one at *slot* back; return the bytes erased, 0 if none is left."""
    parameters = {"session": session_id, "slot": slot, "most": MAX_RECORDS}
    rows: list[tuple[int, int, int]] = db.execute(_LAST, parameters).fetchall() if slot else []
    if slot and not rows:  # the chain of records is broken: search all records for those of the session
        rows = db.execute(_ANY, parameters).fetchall()
    erased = 0
    for at, back, size in rows:
        if erased > MAX_BYTES:
            break
        db.execute("DELETE FROM record WHERE slot = ?", (at,))
        erased += size + 1  # at least 1: 0 would mean that no record is left
        slot = back
    if erased:
        db.execute("UPDATE deleting SET slot = ? WHERE number = ?", (slot, number))
    return erased


_LAST: Final = """WITH RECURSIVE chain (slot, back, size, count) AS (
    SELECT slot, back, length(body), 1 FROM record WHERE slot = :slot AND session = :session
    UNION ALL
    SELECT record.slot, record.back, length(record.body), count + 1 FROM chain JOIN record ON record.slot = chain.back
    WHERE record.session = :session AND count < :most
)
SELECT slot, back, size FROM chain"""

_ANY: Final = """SELECT slot, slot - 1, length(body) FROM record
WHERE session = :session AND slot <= :slot ORDER BY slot DESC LIMIT :most"""


def _erase_blobs(db: sqlite3.Connection, session_id: str) -> int:
    """Erase some of the blobs that only this session uses; return the bytes erased."""
    erased = 0
    query = "SELECT digest FROM blob_use WHERE session = ? LIMIT ?"
    for (digest,) in db.execute(query, (session_id, MAX_RECORDS)).fetchall():
        if erased > MAX_BYTES:
            break
        erased += _erase_blob(db, session_id, digest) + 1
    return erased


def drop_unused_blobs(db: sqlite3.Connection, session_id: str, slot: int) -> None:
    """Erase the blobs that no record of a session names any more, unless another session uses them.

    *slot* is that of its last record. A snapshot of the session must be gone.
    """
    query = "SELECT digest FROM blob_use WHERE session = ?"
    uses = {digest for (digest,) in db.execute(query, (session_id,))}
    if not uses:
        return
    for (names,) in db.execute(_NAMED, {"session": session_id, "slot": slot}):
        uses.difference_update(names.split())
    for digest in sorted(uses):
        _erase_blob(db, session_id, digest)


_NAMED: Final = """WITH RECURSIVE chain (number, back, blobs) AS (
    SELECT number, back, blobs FROM record WHERE slot = :slot AND session = :session
    UNION ALL
    SELECT record.number, record.back, record.blobs FROM chain JOIN record ON record.slot = chain.back
    WHERE record.session = :session AND record.number < chain.number
)
SELECT blobs FROM chain WHERE blobs <> ''"""
"""The numbers have to fall: in a file that another program has changed, the chain of `back` may be a circle."""


def _erase_blob(db: sqlite3.Connection, session_id: str, digest: str) -> int:
    """Note that a session no longer uses a blob; if no session does, erase it. Return the bytes erased."""
    db.execute("DELETE FROM blob_use WHERE digest = ? AND session = ?", (digest, session_id))
    if db.execute("SELECT 1 FROM blob_use WHERE digest = ? LIMIT 1", (digest,)).fetchone() is not None:
        return 0
    (size,) = db.execute("SELECT length(content) FROM blob WHERE digest = ?", (digest,)).fetchone() or (0,)
    db.execute("DELETE FROM blob WHERE digest = ?", (digest,))
    return int(size)


def _digest(session_id: str) -> str:
    """Return the digest that names a session whose rows are gone: the file must no longer contain its id."""
    return f"#{blake2b(session_id.encode(errors='backslashreplace'), digest_size=16).hexdigest()}"
