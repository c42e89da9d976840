"""Deletes sessions and redacts records, each in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, cast

from agentrail.adapters.journals.packing import NO_CHECK, check_of, pack
from agentrail.adapters.journals.postgres.checked_rows import (
    RecordColumns,
    SessionHead,
    checked_records,
    load_records,
    session_head,
)
from agentrail.adapters.journals.postgres.database import Database
from agentrail.adapters.journals.postgres.server_tables import TABLES, as_stored, as_text
from agentrail.adapters.journals.postgres.session_list import ABOUT_COLUMNS, about_of
from agentrail.adapters.journals.redacting import about_redacted, kept_names, redacted
from agentrail.errors import BadRecord, SessionHeld
from agentrail.ports.journal import Record, Redaction

PAGE: Final = 100
"""The most records that are read at once."""

_TREE: Final = """with recursive tree (id) as (
    values (%b::bytea) union select about.session from agentrail.about join tree on about.parent = tree.id
)
select id, epoch, head, seq, "check" from agentrail.session
where id in (select id from tree) order by id for no key update"""

_HELD: Final = """select session.id, lease.holder, agentrail.time_left(lease.id, %b)
from agentrail.session join agentrail.lease on lease.id = session.lease
where session.id = any(%b) and session.held and agentrail.time_left(lease.id, %b) > 0 order by session.id limit 1"""


def delete_tree(db: Database, session_id: str, holder: str) -> int:
    """Delete a session and its sub-agents; return how many of them had records. Run it in a transaction."""
    heads = _locked(db, session_id)
    if not any(head.id == session_id for head in heads):
        return 0
    ids = [as_stored(head.id) for head in heads]
    check_not_held(db, ids, holder)
    for table in TABLES:
        db.run(f"delete from agentrail.{table} where {'id' if table == 'session' else 'session'} = any(%b)", (ids,))  # noqa: S608
    return sum(head.head > 0 for head in heads)


def _locked(db: Database, session_id: str) -> list[SessionHead]:
    return [session_head(row) for row in db.run(_TREE, (as_stored(session_id),))]


def check_not_held(db: Database, ids: Sequence[bytes], holder: str) -> None:
    """Raise `SessionHeld` if another holder than *holder* has a lease of one of the sessions *ids*."""
    stored = as_stored(holder)
    for row in db.run(_HELD, (stored, list(ids), stored)):
        taken_id, other, rest = cast("tuple[bytes, bytes, int]", row)
        raise SessionHeld(as_text(taken_id), as_text(other), max(rest, 1))


def redact_records(db: Database, session_id: str, span: tuple[int, int], note: Redaction, holder: str) -> int:
    """Redact the records of *span*, its ends included; return how many were changed. Run it in a transaction."""
    head = next((head for head in _locked(db, session_id) if head.id == session_id), None)
    if head is None:
        return 0
    stored_id = as_stored(session_id)
    check_not_held(db, (stored_id,), holder)
    db.run("update agentrail.session set epoch = nextval('agentrail.epoch') where id = %b", (stored_id,))
    db.run("delete from agentrail.snapshot where session = %b", (stored_id,))
    names = frozenset[str]()
    with suppress(BadRecord):  # damage outside of the range does not keep the texts of others
        for _, records in _pages(db, head, 1, head.head):
            names |= kept_names(records)
    count = 0
    before = NO_CHECK
    first, last = max(span[0], 1), min(span[1], head.head)
    if 1 < first <= last:
        before = checked_records(db, head, first - 1, first - 1)[0].check
    for rows, records in _pages(db, head, first, last):
        for row, record in zip(rows, records, strict=True):
            if record.redacted is None:
                _redact(db, row, redacted(record, note, names), before)
                count += 1
            before = row.check
        _redact_about(db, stored_id, records)
    _drop_unnamed_blobs(db, stored_id)
    return count


def _pages(
    db: Database, head: SessionHead, first: int, last: int
) -> Iterable[tuple[Sequence[RecordColumns], Sequence[Record]]]:
    for start in range(first, last + 1, PAGE):
        rows = checked_records(db, head, start, min(last, start + PAGE - 1))
        yield rows, load_records(db, head, rows)


def _redact(db: Database, row: RecordColumns, record: Record, before: bytes) -> None:
    packed = pack(record)
    names = " ".join(packed.blobs)
    for name, content in packed.blobs.items():  # long texts that are not personal, such as a system prompt
        query = "insert into agentrail.blob values (%b, %s, %b) on conflict do nothing"
        db.run(query, (as_stored(row.session), name, content))
    changed = row._replace(format=packed.format, blobs=names, body=packed.body)
    sealed = check_of(before + row.check, changed.outside, packed.body)
    query = """update agentrail.record set format = %s, blobs = %s, body = %b, sealed = %b
    where session = %b and number = %s"""
    db.run(query, (packed.format, names, packed.body, sealed, as_stored(row.session), row.number))


def _redact_about(db: Database, stored_id: bytes, records: Sequence[Record]) -> None:
    """Replace the title of a session by a mark, if one of *records* has given it."""
    query = f"select {ABOUT_COLUMNS} from agentrail.about where session = %b"  # noqa: S608
    for row in db.run(query, (stored_id,)):
        before = about_of(row)
        after = about_redacted(before, records)
        if after != before:
            db.run("update agentrail.about set title = %b where session = %b", (as_stored(after.title), stored_id))


def _drop_unnamed_blobs(db: Database, stored_id: bytes) -> None:
    """Delete the long texts that no record of a session names any more; it has no snapshot now."""
    query = """delete from agentrail.blob where session = %b and digest not in (
        select unnest(string_to_array(blobs, ' ')) from agentrail.record where session = %b and blobs <> ''
    )"""
    db.run(query, (stored_id, stored_id))
