"""Converts the tables of version 1, in the transaction in which the new ones are made.

The stored form of a record is the same, and so are the checksums of the chain of records: the server copies rows. An
agentrail that knows only version 1 finds none of its statements valid afterwards, so it writes nothing late.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, cast

from agentrail.adapters.journals.sql.sql_tables import SqlRow, as_text
from agentrail.ports.journal import SLOTS

OLD_TABLES: Final = ("session", "record", "blob", "about", "snapshot", "lease", "journal")
"""In the order in which the statements of version 1 lock them, as far as there is one."""

MOVED_ASIDE: Final = (
    "set local statement_timeout = 0",
    f"lock table {', '.join(f'agentrail.{table}' for table in OLD_TABLES)} in access exclusive mode",
    "drop function agentrail.time_left(bigint, bytea)",
    """drop index if exists agentrail.session_by_due, agentrail.session_at_work, agentrail.session_ended,
    agentrail.about_by_parent, agentrail.about_by_tenant, agentrail.about_by_owner, agentrail.about_by_label,
    agentrail.record_by_command""",
    *[
        f"alter table agentrail.{table} drop constraint if exists {table}_pkey"
        for table in OLD_TABLES
        if table != "journal"
    ],
    *[f"alter table agentrail.{table} rename to old_{table}" for table in OLD_TABLES],
)
"""Keep all others away from the tables, and free their names and those of their indexes."""

_KEYS: Final = "agentrail.session s on s.id = o.session"

CONVERTED: Final = (
    "insert into agentrail.lease (key, holder, until) select id, holder, until from agentrail.old_lease",
    f"""insert into agentrail.session
        (id, slot, epoch, lease, held, head, seq, checksum, due, at_work, ended, active)
    select id, get_byte(sha256(id), 0) % {SLOTS}, epoch, lease, held::integer, head, seq, "check", due,
        at_work::integer, ended::integer, active
    from agentrail.old_session order by id""",  # noqa: S608 - the slot is as `slot_of` says
    f"""insert into agentrail.record
        (session, number, epoch, seq, command, format, blobs, checksum, body, sealed)
    select s.key, o.number, o.epoch, o.seq, o.command, o.format, o.blobs, o."check", o.body, o.sealed
    from agentrail.old_record o join {_KEYS}""",  # noqa: S608
    f"""insert into agentrail.snapshot (session, number, behind, format, blobs, checksum, body)
    select s.key, o.number, o.behind, o.format, o.blobs, o."check", o.body
    from agentrail.old_snapshot o join {_KEYS}""",  # noqa: S608
    f"""insert into agentrail.blob (session, digest, content)
    select s.key, o.digest, o.content from agentrail.old_blob o join {_KEYS}""",  # noqa: S608
    """insert into agentrail.about (session, parent, tenant, owner, spec, title, labels, created)
    select session, parent, tenant, owner, spec, title, convert_to('[]', 'UTF8'), created from agentrail.old_about""",
    """insert into agentrail.label (label, session)
    select distinct label, session from agentrail.old_about, unnest(labels) as l (label)""",
)
"""Fill the new tables."""

DROPPED: Final = f"drop table {', '.join(f'agentrail.old_{table}' for table in OLD_TABLES)}"


def copy_labels(run: Callable[..., list[SqlRow]]) -> None:
    """Write the labels of each session in the form of today, in their order; *run* runs a statement with its values."""
    rows = run("select session, labels from agentrail.old_about where cardinality(labels) > 0")
    sessions, texts = list[bytes](), list[bytes]()
    for session, labels in cast("list[tuple[bytes, list[bytes]]]", rows):
        sessions.append(session)
        texts.append(json.dumps(list(map(as_text, labels))).encode())
    run(
        """update agentrail.about a set labels = w.labels
        from unnest(%b::bytea[], %b::bytea[]) as w (session, labels) where a.session = w.session""",
        sessions,
        texts,
    )


def rows_left_out(run: Callable[..., list[SqlRow]]) -> dict[str, int]:
    """Return how many rows of each old table have no new one, because they belong to no session."""
    left_out = dict[str, int]()
    for table in ("session", "about", "record", "snapshot", "blob"):
        query = f"select (select count(*) from agentrail.old_{table}) - (select count(*) from agentrail.{table})"  # noqa: S608
        ((count,),) = cast("list[tuple[int]]", run(query))
        if count:
            left_out[table] = count
    return left_out
