"""`AboutTable`: owner, title and labels of sessions, in tables of their own, because they are seldom written.

Lists sessions by a filter: each condition has an index, and the list is read along one of them.

The statement names that index, so that it does not depend on what SQLite estimates. Of label, owner and tenant it is
the one that has the fewest sessions. The indexes of these three hold tenant, owner and end of each session too, so that
sessions for which the filter does not hold are passed over without a look at their rows.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias, cast

from agentrail.adapters.journals.redacting import about_redacted
from agentrail.adapters.journals.sqlite.tables import COLUMNS, LATEST, SessionRow, seal_of
from agentrail.ports.journal import About, Record, SessionFilter, StoredSession, about_after, has_ended, tells_about

UNSAID: Final = About()
"""What is said of a session before its first record."""

ABOUT_COLUMNS: Final = "session, tenant, owner, spec, title, labels, created, seal, ended"

SEALED: Final = 7
"""How many columns the seal covers: those before it."""


class AboutRow(NamedTuple):
    """A row of the table `about`; the labels are JSON.

    `ended` repeats what the session's row says, so that lists of ended or open sessions need not look there.
    """

    session: str
    tenant: str
    owner: str
    spec: str
    title: str
    labels: str
    created: int
    seal: bytes
    ended: int

    @property
    def is_whole(self) -> bool:
        """Whether the row is unchanged since it was written: whether its seal fits."""
        return self.seal == seal_of(self[:SEALED])

    @property
    def about(self) -> About:
        """The row as a value."""
        labels = cast("list[str]", json.loads(self.labels))
        return About(self.tenant, self.owner, self.spec, self.title, tuple(labels), self.created)


class AboutTable:
    """Collects changes of owner, title and labels while jobs run; writes them at the end of the transaction."""

    __slots__ = ("_changes", "_ended")

    def __init__(self) -> None:
        self._changes: dict[str, About] = {}
        self._ended: set[str] = set()

    def note(
        self, db: sqlite3.Connection, row: SessionRow, records: Sequence[Record], first: Callable[[], Record]
    ) -> None:
        """Collect the changes in *records*; *row* is that of their session, *first* reads the session's first record.

        A damaged row is made again from the first record, because each later change of labels contains all labels.
        """
        if has_ended(records[-1]):
            self._ended.add(row.id)
        telling = [record for record in records if tells_about(record)]
        if not telling:
            return
        about = self._changes.get(row.id)
        if about is None and row.head:
            stored = _about_row(db, row.id)
            about = about_after(first(), UNSAID) if stored is None else stored.about
        about = about or UNSAID
        for record in telling:
            about = about_after(record, about)
        self._changes[row.id] = about

    def redact(self, db: sqlite3.Connection, session_id: str, records: Sequence[Record]) -> None:
        """Replace the title of a session by a mark, if one of *records* has given it."""
        stored = _about_row(db, session_id)
        about = None if stored is None else about_redacted(stored.about, records)
        if stored is not None and about is not None and about != stored.about:
            self._changes[session_id] = about

    def write(self, db: sqlite3.Connection) -> None:
        """Write the collected changes; the rows of the sessions must have been written before."""
        changes, self._changes = self._changes, {}
        ended, self._ended = self._ended, set()
        for session_id, about in changes.items():
            before = _about_row(db, session_id)
            labels = json.dumps(about.labels, ensure_ascii=False)
            facts = (session_id, about.tenant, about.owner, about.spec, about.title, labels, about.created)
            db.execute(_WRITE, (*facts, seal_of(facts), session_id))
            old, new = set[str]() if before is None else set(before.about.labels), set(about.labels)
            db.executemany(_UNLABEL, [(label, session_id) for label in old - new])
            db.executemany(_LABEL, [(label, session_id) for label in new - old])
        for session_id in ended:
            stored = _about_row(db, session_id)
            db.execute("UPDATE about SET ended = 1 WHERE session = ?", (session_id,))
            labels_of = () if stored is None else stored.about.labels
            db.executemany(_END_LABEL, [(label, session_id) for label in labels_of])

    def undo(self) -> None:
        """Forget the collected changes, because the transaction is rolled back."""
        self._changes.clear()
        self._ended.clear()


def erase_about(db: sqlite3.Connection, session_id: str) -> None:
    """Erase the row and the labels of a session; if the row is damaged, all labels are searched."""
    stored = _about_row(db, session_id)
    if stored is None:
        db.execute("DELETE FROM label WHERE session = ?", (session_id,))
    else:
        db.executemany(_UNLABEL, [(label, session_id) for label in stored.about.labels])
    db.execute("DELETE FROM about WHERE session = ?", (session_id,))


_WRITE: Final = f"""INSERT OR REPLACE INTO about ({ABOUT_COLUMNS})
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ended FROM session WHERE id = ?"""  # noqa: S608

_UNLABEL: Final = "DELETE FROM label WHERE label = ? AND session = ?"
_LABEL: Final = "INSERT OR REPLACE INTO label SELECT ?, session, tenant, owner, ended FROM about WHERE session = ?"
_END_LABEL: Final = "UPDATE label SET ended = 1 WHERE label = ? AND session = ?"


def _about_row(db: sqlite3.Connection, session_id: str) -> AboutRow | None:
    """Return the stored row of a session; `None` if there is none, or it is damaged."""
    columns = db.execute(f"SELECT {ABOUT_COLUMNS} FROM about WHERE session = ?", (session_id,)).fetchone()  # noqa: S608
    row = None if columns is None else AboutRow._make(columns)
    return row if row is not None and row.is_whole else None


DAMAGED: Final = "the entry that names its last record has changed since it was written"
UNKNOWN: Final = "the entry that says whose it is, its title and its labels is lost, or has changed"

SqlValue: TypeAlias = str | int
"""A value that is bound to a place of a statement."""


class ListIndex(NamedTuple):
    """An index along which a list is read."""

    tables: str
    """The tables of the statement, the one with the index first."""
    holds: str
    """The condition that the index answers."""
    rank: str = "session.id"
    """The columns by which the index is sorted."""


SESSIONS: Final = "session {} LEFT JOIN about ON about.session = session.id"
LEADING: Final = "{} CROSS JOIN session ON session.id = lead.session LEFT JOIN about ON about.session = session.id"

EVERY: Final = ListIndex(SESSIONS.format(""), "1")
BY_DUE: Final = ListIndex(
    SESSIONS.format("INDEXED BY session_by_due"),
    "session.due IS NOT NULL AND session.at_work = 0 AND session.due <= ?",
    "session.due, session.id",
)
AT_WORK: Final = ListIndex(SESSIONS.format("INDEXED BY session_at_work"), "session.at_work = 1 AND ?")
BY_LABEL: Final = ListIndex(LEADING.format("label AS lead"), "lead.label = ?", "lead.session")
BY_OWNER: Final = ListIndex(
    LEADING.format("about AS lead INDEXED BY about_by_owner"), "lead.owner != '' AND lead.owner = ?", "lead.session"
)
BY_TENANT: Final = ListIndex(
    LEADING.format("about AS lead INDEXED BY about_by_tenant"), "lead.tenant != '' AND lead.tenant = ?", "lead.session"
)
BY_END: Final = ListIndex(SESSIONS.format("INDEXED BY session_by_end"), "session.ended = ?")

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

NO_SLOT: Final = -1
"""Keeps a list of slots from being empty: SQLite then has no use for the index that the statement names, and refuses.
"""

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


def conditions(session_filter: SessionFilter) -> Iterator[tuple[ListIndex, SqlValue]]:
    """Yield the conditions of *session_filter*, each as an index with its value; the most selective ones first."""
    if session_filter.at_work is not None:
        yield AT_WORK, int(session_filter.at_work)
    if session_filter.due_before is not None:
        yield BY_DUE, _stored_time(session_filter.due_before - 1)
    if session_filter.label is not None:
        yield BY_LABEL, session_filter.label
    if session_filter.owner is not None:
        yield BY_OWNER, session_filter.owner
    if session_filter.tenant is not None:
        yield BY_TENANT, session_filter.tenant
    if session_filter.ended is not None:
        yield BY_END, int(session_filter.ended)


def _leads(path: ListIndex, value: SqlValue, session_filter: SessionFilter) -> bool:
    """Whether the list can be read along *path*: its index has the value, and is sorted as wanted."""
    if session_filter.due_before is not None:
        return path is BY_DUE
    return bool(value) or path is BY_END


def path_of(db: sqlite3.Connection, session_filter: SessionFilter) -> ListIndex:
    """Return the path along which the sessions of *session_filter* are listed."""
    paths = [(path, value) for path, value in conditions(session_filter) if _leads(path, value, session_filter)]
    ones = [(path, value) for path, value in paths if path in OF_ONES]
    if not ones:
        return paths[0][0] if paths else EVERY
    if len(ones) == 1 or session_filter.at_work:
        return ones[0][0]
    for most in SIZES:
        counts = [_count(db, path, value, most) for path, value in ones]
        if min(counts) < most:
            return ones[counts.index(min(counts))][0]
    return ones[0][0]


def _count(db: sqlite3.Connection, path: ListIndex, value: SqlValue, most: int) -> int:
    """Return how many sessions the list of *path* has, up to *most*."""
    table = path.tables.partition(" CROSS JOIN")[0]
    query = f"SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {path.holds} LIMIT ?)"  # noqa: S608
    (count,) = db.execute(query, (value, most)).fetchone()
    return int(count)


def statement(
    session_filter: SessionFilter, path: ListIndex, after: StoredSession | None, limit: int
) -> tuple[str, list[SqlValue]]:
    """Return the statement that lists the sessions of *session_filter* after *after*, and the values for its places."""
    conditions_ = tuple(conditions(session_filter))
    otherwise = OTHERWISE_OF_ONES if path in OF_ONES else OTHERWISE
    holds = [
        path.holds if condition is path else otherwise.get(condition, condition.holds) for condition, _ in conditions_
    ]
    values = [value for _, value in conditions_]
    tables, order = path.tables, path.rank
    if session_filter.label is not None and path in (BY_OWNER, BY_TENANT):
        tables = tables.replace("CROSS JOIN session", f"{OTHER}CROSS JOIN session")
    if session_filter.at_work and path in OF_ONES:
        tables, order = BUSY + tables, "busy.id"
        holds.append("busy.at_work = 1 AND lead.session = busy.id")
    if after is not None:
        rank = session_filter.rank(after)
        holds.append(f"({order}) > ({', '.join('?' * len(order.split(', ')))})")
        values += (_stored_time(rank[0]), rank[1]) if path is BY_DUE else rank[1:]
    if session_filter.slots is not None:
        slots = (NO_SLOT, *sorted(session_filter.slots))
        holds.append(f"slot_of(session.id) IN ({', '.join(map(str, slots))})")
    where = " AND ".join((*holds, "session.head > 0"))
    text = f"SELECT {_COLUMNS} FROM {tables} WHERE {where} ORDER BY {order} LIMIT ?"  # noqa: S608
    return text, [*values, min(limit, LATEST)]


def _stored_time(at: int) -> int:
    """Return *at*, limited to the largest time that the column `due` can hold."""
    return max(-LATEST, min(at, LATEST))


def list_sessions(
    db: sqlite3.Connection, session_filter: SessionFilter, after: StoredSession | None, limit: int
) -> tuple[StoredSession, ...]:
    """Return summaries of up to *limit* of the sessions of *session_filter*, after *after*."""
    text, values = statement(session_filter, path_of(db, session_filter), after, limit)
    return tuple(map(_summary, db.execute(text, values).fetchall()))


_LAST_USED: Final = f"""SELECT {_COLUMNS} FROM session LEFT JOIN about ON about.session = session.id
WHERE session.id IN (SELECT id FROM {{}} WHERE head > 0 ORDER BY active DESC, id LIMIT ?)
ORDER BY session.active DESC, session.id"""  # noqa: S608
"""Only ids and times are sorted. An index of the times would make a commit 19 to 41 % longer."""

_OF_LABEL: Final = "(SELECT id, active, head FROM label CROSS JOIN session ON id = label.session WHERE label = ?)"


def list_last_used(db: sqlite3.Connection, label: str | None, limit: int) -> tuple[StoredSession, ...]:
    """Return summaries of the *limit* sessions that were used last, the last one first; with *label*, of those."""
    text = _LAST_USED.format("session" if label is None else _OF_LABEL)
    values = [*(() if label is None else (label,)), min(limit, LATEST)]
    return tuple(map(_summary, db.execute(text, values).fetchall()))


def _summary(columns: tuple[object, ...]) -> StoredSession:
    width = len(SessionRow._fields)
    row, about_row = SessionRow._make(columns[:width]), AboutRow._make(columns[width:])
    if not row.is_whole:
        return StoredSession(row.id, 0, row.due if type(row.due) is int else None, problem=DAMAGED)
    stored = StoredSession(row.id, row.head, row.due, bool(row.at_work), bool(row.ended), active=row.active)
    if not about_row.is_whole:
        return stored.but(problem=UNKNOWN, about=About())
    return stored.but(about=about_row.about)
