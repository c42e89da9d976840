"""Lists sessions by a filter, and reads what they can be found by."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final, cast

from agentrail.adapters.journals.sql.sql_dialect import SqlConnection
from agentrail.adapters.journals.sql.sql_tables import SqlRow, SqlValue, as_stored, as_text
from agentrail.adapters.journals.sql.stored_rows import damage_of, hidden, hidden_sessions
from agentrail.ports.journal import About, SessionFilter, StoredSession

LATEST: Final = 2**63 - 1
"""The latest time that a column holds; a later one is stored as this."""

ABOUT_COLUMNS: Final = "tenant, owner, spec, title, labels, created"

_NUMBERS: Final = ("head", "due", "at_work", "ended", "active", "created")

_LIST: Final = f"""select s.id, s.head, s.due, s.at_work, s.ended, s.active, {ABOUT_COLUMNS}
from ~about a join ~session s on s.id = a.session"""  # noqa: S608


def stored_time(milliseconds: int) -> int:
    """Return *milliseconds*, limited to the times that a column holds."""
    return max(-LATEST, min(milliseconds, LATEST))


def _conditions(session_filter: SessionFilter) -> Iterator[tuple[str, tuple[SqlValue, ...]]]:
    """Yield the conditions of a filter, each with its values."""
    yield "s.head > 0", ()
    for name in ("tenant", "owner"):
        text = cast("str | None", getattr(session_filter, name))
        if text is not None:
            # with the condition of the index, so that it is used
            yield f"a.{name} = ?" + (f" and length(a.{name}) > 0" if text else ""), (as_stored(text),)
    if session_filter.label is not None:
        yield "l.label = ?", (as_stored(session_filter.label),)
    if session_filter.due_before is not None:
        # a damaged one may have a fraction, after which no page could begin
        due = "s.due is not null and s.at_work = 0 and s.due <= ? and s.due = cast(s.due as bigint)"
        yield due, (stored_time(session_filter.due_before - 1),)
    if session_filter.slots is not None:
        yield f"s.slot in ({', '.join(map(str, sorted(session_filter.slots))) or 'null'})", ()
    for name in ("at_work", "ended"):
        flag = cast("bool | None", getattr(session_filter, name))
        if flag is not None:
            # few sessions are at work, so the index of ends is of no use for them
            plus = "+" if name == "ended" and session_filter.at_work else ""
            yield f"{plus}s.{name} = {int(flag)}", ()


def list_sessions(
    db: SqlConnection, session_filter: SessionFilter, after: StoredSession | None, limit: int
) -> tuple[StoredSession, ...]:
    """Return summaries of up to *limit* of the sessions that *session_filter* holds for, after *after*."""
    conditions = list(_conditions(session_filter))
    if session_filter.due_before is not None:
        order = "s.due, s.id"
    else:
        order = "s.id" if session_filter.at_work or session_filter.ended else "a.session"
        if session_filter.label is not None and order == "a.session":
            order = "l.session"
    if after is not None:
        due, session_id = session_filter.rank(after)
        stored_id = as_stored(session_id)
        if session_filter.due_before is None:
            conditions.append((f"{order} > ?", (stored_id,)))
        else:
            conditions.append(("(s.due, s.id) > (?, ?)", (stored_time(due), stored_id)))
    return _listed(db, conditions, order, limit, has_label=session_filter.label is not None)


def list_last_used(db: SqlConnection, label: str | None, limit: int) -> tuple[StoredSession, ...]:
    """Return summaries of the *limit* sessions that were used last, the last one first; with *label*, of those."""
    conditions = list(_conditions(SessionFilter(label=label)))
    return _listed(db, conditions, "s.active desc, s.id", limit, has_label=label is not None)


def find_summary(db: SqlConnection, session_id: str) -> StoredSession | None:
    """Return the summary of a session; `None` if it has no records. Raise `BadRecord` if it is only not found."""
    stored_id = as_stored(session_id)
    among = (("s.head > 0", ()), ("a.session = ?", (stored_id,)))
    for summary in _listed(db, among, "a.session", 1, has_label=False):
        return summary
    if hidden_sessions(db, (stored_id,)):
        raise hidden(session_id)
    return None


def _listed(
    db: SqlConnection,
    conditions: Sequence[tuple[str, tuple[SqlValue, ...]]],
    order: str,
    limit: int,
    *,
    has_label: bool,
) -> tuple[StoredSession, ...]:
    among = f"{_LIST} join ~label l on l.session = a.session" if has_label else _LIST
    statement = f"{among} where {' and '.join(text for text, _ in conditions)} order by {order} limit ?"
    values = [value for _, values in conditions for value in values]
    return tuple(map(_summary, db.run(statement, (*values, min(limit, LATEST)))))


def _summary(columns: SqlRow) -> StoredSession:
    stored_id, *numbers, created = *columns[:6], columns[-1]
    problem = damage_of(dict(zip(_NUMBERS, (*numbers, created), strict=True)))
    head, due, at_work, ended, active = map(_number, numbers)
    return StoredSession(
        as_text(stored_id),
        head or 0,
        due,
        bool(at_work),
        bool(ended),
        problem,
        about_of(columns[6:]),
        active or 0,
    )


def _number(stored: object) -> int | None:
    """Return a whole number as it is stored; `None` for anything else, so that no session hides the others."""
    return stored if type(stored) is int else None


def about_of(columns: SqlRow) -> About:
    """Return what the `ABOUT_COLUMNS` of a row say."""
    tenant, owner, spec, title = map(as_text, columns[:4])
    return About(tenant, owner, spec, title, _labels_of(columns[4]), _number(columns[5]) or 0)


def _labels_of(stored: object) -> tuple[str, ...]:
    """Return the labels of a row; none if it is damaged, so that one session does not hide the list of the others."""
    try:
        labels: object = json.loads(as_text(stored))
    except ValueError:
        return ()
    items = cast("list[object]", labels) if isinstance(labels, list) else []
    return tuple(label for label in items if isinstance(label, str))


def about_row(stored_id: bytes, parent: str | None, about: About) -> tuple[SqlValue, ...]:
    """Return the values of the columns `ABOUT` of a session."""
    texts = map(as_stored, (about.tenant, about.owner, about.spec, about.title))
    labels = json.dumps(about.labels).encode()
    return stored_id, None if parent is None else as_stored(parent), *texts, labels, stored_time(about.created)


def read_about(db: SqlConnection, stored_id: bytes) -> About | None:
    """Return what a session can be found by; `None` if it has no records."""
    rows = db.run(f"select {ABOUT_COLUMNS} from ~about where session = ?", (stored_id,))  # noqa: S608
    return about_of(rows[0]) if rows else None
