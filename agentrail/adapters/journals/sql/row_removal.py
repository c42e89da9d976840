"""Deletes sessions, and replaces the texts of records by a mark; runs in a transaction of the writer.

The checksum of a record as it was stays in the column `checksum`, so that the records after it still follow. A redacted
record has a second one in `sealed`, over the checksum before it, that of the record as it was, and what is stored now.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

from agentrail.adapters.journals.packing import NO_CHECK, checksum_of, pack
from agentrail.adapters.journals.redacting import about_redacted, redacted
from agentrail.adapters.journals.sql import sql_tables
from agentrail.adapters.journals.sql.session_listing import read_about
from agentrail.adapters.journals.sql.sql_dialect import SqlConnection
from agentrail.adapters.journals.sql.sql_tables import SqlValue, as_stored, as_text
from agentrail.adapters.journals.sql.stored_rows import SessionColumns, checked_records, load_records
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import About, Redaction


def find_tree(db: SqlConnection, session_id: str) -> list[str]:
    """Return the ids of a session and of its sub-agents, at any depth."""
    tree: dict[str, None] = {session_id: None}
    parents = [session_id]
    while parents:
        query = "select session from ~about where parent {}"
        children = [as_text(child) for (child,) in db.run_among(query, list(map(as_stored, parents)))]
        parents = [child for child in children if child not in tree]
        tree.update(dict.fromkeys(parents))
    return list(tree)


def delete_rows(db: SqlConnection, sessions: Sequence[SessionColumns]) -> None:
    """Delete all rows of *sessions*."""
    keys: list[SqlValue] = [session.key for session in sessions]
    ids: list[SqlValue] = [session.stored_id for session in sessions]
    for table, choice in (("record", keys), ("snapshot", keys), ("blob", keys), ("about", ids), ("label", ids)):
        db.run_among(f"delete from ~{table} where session {{}}", choice)  # noqa: S608
        reach("ROWS_ERASED")
    db.run_among("delete from ~session where key {}", keys)


def redact_rows(
    db: SqlConnection, session: SessionColumns, span: tuple[int, int], note: Redaction, names: Collection[str]
) -> tuple[int, About | None]:
    """Redact the records of *span*, its ends included, with the *names* that are kept; drop the snapshot.

    Return how many were redacted, and what the session can be found by then if that has changed.
    """
    first, last = span
    if first > last:
        return 0, None
    previous_check = checked_records(db, session, first - 1, first - 1)[0].check if first > 1 else NO_CHECK
    rows = checked_records(db, session, first, last)
    records = load_records(db, session, rows)
    updates, blobs = list[tuple[SqlValue, ...]](), list[tuple[SqlValue, ...]]()
    for row, record in zip(rows, records, strict=True):
        if record.redacted is None:
            packed = pack(redacted(record, note, names))
            blob_names = " ".join(packed.blobs)
            # long texts that are not personal, such as a system prompt
            blobs += [(session.key, name, content) for name, content in packed.blobs.items()]
            changed = row._replace(format=packed.format, blobs=blob_names, body=packed.body)
            sealed = checksum_of(previous_check + row.check, changed.covered_columns, packed.body)
            updates.append((packed.format, blob_names, packed.body, sealed, session.key, row.number))
        previous_check = row.check
    about = read_about(db, session.stored_id)
    after = None if about is None else about_redacted(about, records)
    db.run("delete from ~snapshot where session = ?", (session.key,))
    if blobs:
        db.insert(sql_tables.BLOB, blobs, sql_tables.AS_IT_IS)
    for values in updates:
        statement = "update ~record set format = ?, blobs = ?, body = ?, sealed = ? where session = ? and number = ?"
        db.run(statement, values)
        reach("TEXTS_REPLACED")
    return len(updates), None if after == about else after


def drop_unnamed_blobs(db: SqlConnection, key: int) -> None:
    """Delete the long texts that no record of a session names any more; it has no snapshot now."""
    stored = {cast("str", name) for (name,) in db.run("select digest from ~blob where session = ?", (key,))}
    if stored:
        for (names,) in db.run("select blobs from ~record where session = ? and blobs <> ''", (key,)):
            stored.difference_update(cast("str", names).split())
    if stored:
        db.run_among("delete from ~blob where session = ? and digest {}", sorted(stored), (key,))
