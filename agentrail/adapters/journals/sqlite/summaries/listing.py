"""Lists sessions by a filter: each condition has an index, and the list is read along one of them.

The statement names that index, so that it does not depend on what SQLite estimates. Of label, owner and tenant it is
the one that has the fewest sessions. The indexes of these three hold tenant, owner and end of each session too, so that
sessions for which the filter does not hold are passed over without a look at their rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from agentrail.adapters.journals.sqlite.summaries.about_table import ABOUT_COLUMNS, AboutRow
from agentrail.adapters.journals.sqlite.tables import COLUMNS, LATEST, SessionRow
from agentrail.ports.journal import About, SessionFilter, StoredSession

DAMAGED: Final = "the entry that names its last record has changed since it was written"
UNKNOWN: Final = "the entry that says whose it is, its title and its labels is lost, or has changed"

Value: TypeAlias = str | int
"""A value that is bound to a place of a statement."""


class Path(NamedTuple):
    """An index along which a list is read."""

    tables: str
    """The tables of the statement, the one with the index first."""
    holds: str
    """The condition that the index answers."""
    rank: str = "session.id"
    """The columns by which it is sorted."""


SESSIONS: Final = "session {} LEFT JOIN about ON about.session = session.id"
LEADING: Final = "{} CROSS JOIN session ON session.id = lead.session LEFT JOIN about ON about.session = session.id"

EVERY: Final = Path(SESSIONS.format(""), "1")
BY_DUE: Final = Path(
    SESSIONS.format("INDEXED BY session_by_due"),
    "session.due IS NOT NULL AND session.at_work = 0 AND session.due <= ?",
    "session.due, session.id",
)
AT_WORK: Final = Path(SESSIONS.format("INDEXED BY session_at_work"), "session.at_work = 1 AND ?")
BY_LABEL: Final = Path(LEADING.format("label AS lead"), "lead.label = ?", "lead.session")
BY_OWNER: Final = Path(
    LEADING.format("about AS lead INDEXED BY about_by_owner"), "lead.owner != '' AND lead.owner = ?", "lead.session"
)
BY_TENANT: Final = Path(
    LEADING.format("about AS lead INDEXED BY about_by_tenant"), "lead.tenant != '' AND lead.tenant = ?", "lead.session"
)
BY_END: Final = Path(SESSIONS.format("INDEXED BY session_by_end"), "session.ended = ?")

OF_ONES: Final = (BY_LABEL, BY_OWNER, BY_TENANT)
"""The paths along an index that holds tenant, owner and end of each session too."""

OTHERWISE: Final = {
    AT_WORK: "session.at_work = ?",
    BY_LABEL: "EXISTS (SELECT 1 FROM label WHERE label.label = ? AND label.session = session.id)",
    BY_OWNER: "about.owner = ?",
    BY_TENANT: "about.tenant = ?",
}
"""The condition of a path when the list is read along another one; the others need no other words."""

OTHERWISE_OF_ONES: Final = {
    AT_WORK: "session.at_work = ?",
    BY_LABEL: "other.label = ? AND other.session = lead.session",
    BY_OWNER: "lead.owner = ?",
    BY_TENANT: "lead.tenant = ?",
    BY_END: "lead.ended = ?",
}
"""The same, when the list is read along one of `OF_ONES`."""

OTHER: Final = "CROSS JOIN label AS other "
"""The labels, for a list that is read along an owner or tenant."""

BUSY: Final = "session AS busy INDEXED BY session_at_work CROSS JOIN "
"""The sessions at work, of which there are few: each of them is looked for in the list that is asked for."""

SIZES: Final = (1_000, 10_000)
"""Up to how many sessions are counted of each list, to find the shortest; if all have more, up to the next number.

If all have still more, the list of the label is read, because its sessions need not be looked for in another one.
"""

_COLUMNS: Final = ", ".join(
    (
        *(f"session.{name}" for name in COLUMNS.split(", ")),
        *(f"about.{name}" for name in ABOUT_COLUMNS.split(", ")),
    )
)


def conditions(wanted: SessionFilter) -> Iterator[tuple[Path, Value]]:
    """Yield what *wanted* asks for, with the value for each: the paths that find the fewest sessions first."""
    if wanted.at_work is not None:
        yield AT_WORK, int(wanted.at_work)
    if wanted.due_before is not None:
        yield BY_DUE, _stored_time(wanted.due_before - 1)
    if wanted.label is not None:
        yield BY_LABEL, wanted.label
    if wanted.owner is not None:
        yield BY_OWNER, wanted.owner
    if wanted.tenant is not None:
        yield BY_TENANT, wanted.tenant
    if wanted.ended is not None:
        yield BY_END, int(wanted.ended)


def _leads(path: Path, value: Value, wanted: SessionFilter) -> bool:
    """Whether a list can be read along *path*: the index has the value, and the order that is wanted."""
    if wanted.due_before is not None:
        return path is BY_DUE
    return bool(value) or path is BY_END


def path_of(db: sqlite3.Connection, wanted: SessionFilter) -> Path:
    """Return the path along which the *wanted* sessions are listed."""
    paths = [(one, value) for one, value in conditions(wanted) if _leads(one, value, wanted)]
    ones = [(one, value) for one, value in paths if one in OF_ONES]
    if not ones:
        return paths[0][0] if paths else EVERY
    if len(ones) == 1 or wanted.at_work:
        return ones[0][0]
    for most in SIZES:
        counts = [_count(db, one, value, most) for one, value in ones]
        if min(counts) < most:
            return ones[counts.index(min(counts))][0]
    return ones[0][0]


def _count(db: sqlite3.Connection, path: Path, value: Value, most: int) -> int:
    """Return how many sessions the list of *path* has, up to *most*."""
    table = path.tables.partition(" CROSS JOIN")[0]
    query = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {path.holds} LIMIT ?)"  # noqa: S608
    (count,) = db.execute(query, (value, most)).fetchone()
    return int(count)


def statement(wanted: SessionFilter, path: Path, after: StoredSession | None, limit: int) -> tuple[str, list[Value]]:
    """Return the statement that lists the *wanted* sessions after *after*, and the values for its places."""
    asked = tuple(conditions(wanted))
    otherwise = OTHERWISE_OF_ONES if path in OF_ONES else OTHERWISE
    holds = [path.holds if one is path else otherwise.get(one, one.holds) for one, _ in asked]
    values = [value for _, value in asked]
    tables, order = path.tables, path.rank
    if wanted.label is not None and path in (BY_OWNER, BY_TENANT):
        tables = tables.replace("CROSS JOIN session", f"{OTHER}CROSS JOIN session")
    if wanted.at_work and path in OF_ONES:
        tables, order = BUSY + tables, "busy.id"
        holds.append("busy.at_work = 1 AND lead.session = busy.id")
    if after is not None:
        rank = wanted.rank(after)
        holds.append(f"({order}) > ({', '.join('?' * len(order.split(', ')))})")
        values += (_stored_time(rank[0]), rank[1]) if path is BY_DUE else rank[1:]
    where = " AND ".join((*holds, "session.head > 0"))
    text = f"SELECT {_COLUMNS} FROM {tables} WHERE {where} ORDER BY {order} LIMIT ?"  # noqa: S608
    return text, [*values, min(limit, LATEST)]


def _stored_time(at: int) -> int:
    """Return a time as the column `due` can hold it: one that it cannot hold is stored as the latest."""
    return max(-LATEST, min(at, LATEST))


def listed(
    db: sqlite3.Connection, wanted: SessionFilter, after: StoredSession | None, limit: int
) -> tuple[StoredSession, ...]:
    """Return summaries of up to *limit* of the *wanted* sessions, after *after*."""
    text, values = statement(wanted, path_of(db, wanted), after, limit)
    return tuple(map(_summary, db.execute(text, values).fetchall()))


def _summary(found: tuple[object, ...]) -> StoredSession:
    width = len(SessionRow._fields)
    row, said = SessionRow._make(found[:width]), AboutRow._make(found[width:])
    if not row.is_whole:
        return StoredSession(row.id, 0, row.due if type(row.due) is int else None, problem=DAMAGED)
    stored = StoredSession(row.id, row.head, row.due, bool(row.at_work), bool(row.ended), active=row.active)
    if not said.is_whole:
        return stored.but(problem=UNKNOWN, about=About())
    return stored.but(about=said.about)
