"""Lists sessions by a filter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from agentrail.adapters.journals.postgres.database import Database
from agentrail.adapters.journals.postgres.server_tables import as_stored, as_text
from agentrail.ports.journal import SLOTS, About, SessionFilter, StoredSession

LATEST: Final = 2**63 - 1
"""The latest time that a column holds; a later one is stored as this."""

ABOUT_COLUMNS: Final = "tenant, owner, spec, title, labels, created"

_LIST: Final = f"""select id, head, due, at_work, ended, active, {ABOUT_COLUMNS}
from agentrail.session join agentrail.about on session = id where head > 0"""  # noqa: S608


def stored_time(at: int) -> int:
    """Return *at*, limited to the times that a column holds."""
    return max(-LATEST, min(at, LATEST))


def conditions(session_filter: SessionFilter) -> Iterator[tuple[str, object]]:
    """Yield the conditions of a filter, each with its value, if it has one."""
    for name in ("tenant", "owner"):
        text = cast("str | None", getattr(session_filter, name))
        if text is not None:
            yield f"{name} = %b" + (f" and {name} <> ''" if text else ""), as_stored(text)
    if session_filter.label is not None:
        yield "labels @> array[%b::bytea]", as_stored(session_filter.label)
    if session_filter.due_before is not None:
        yield "due is not null and not at_work and due <= %s", stored_time(session_filter.due_before - 1)
    if session_filter.slots is not None:
        yield (
            f"get_byte(sha256(id), 0) %% {SLOTS} = any(%b::bigint[])",
            sorted(session_filter.slots),
        )  # as `slot_of` says
    # written into the statement, so that the planner sees that a partial index holds them
    for name in ("at_work", "ended"):
        flag = cast("bool | None", getattr(session_filter, name))
        if flag is not None:
            yield name if flag else f"not {name}", None


def list_sessions(
    db: Database, session_filter: SessionFilter, after: StoredSession | None, limit: int
) -> tuple[StoredSession, ...]:
    """Return summaries of up to *limit* of the sessions that *session_filter* holds for, after *after*."""
    holds, values = [""], list[object]()
    for condition, value in conditions(session_filter):
        holds.append(condition)
        if "%" in condition:
            values.append(value)
    order = "id" if session_filter.due_before is None else "due, id"
    if after is not None:
        rank = session_filter.rank(after)
        if session_filter.due_before is None:
            holds.append("id > %b")
        else:
            holds.append("(due, id) > (%s, %b)")
            values.append(stored_time(rank[0]))
        values.append(as_stored(rank[1]))
    text = f"{_LIST}{' and '.join(holds)} order by {order} limit %s"
    return tuple(map(_summary, db.run(text, (*values, min(limit, LATEST)))))


def list_last_used(db: Database, label: str | None, limit: int) -> tuple[StoredSession, ...]:
    """Return summaries of the *limit* sessions that were used last, the last one first; with *label*, of those."""
    holds, values = ["", *[condition for condition, _ in conditions(SessionFilter(label=label))]], list[object]()
    if label is not None:
        values.append(as_stored(label))
    text = f"{_LIST}{' and '.join(holds)} order by active desc, id limit %s"
    return tuple(map(_summary, db.run(text, (*values, min(limit, LATEST)))))


def _summary(columns: tuple[object, ...]) -> StoredSession:
    session_id, head, due, at_work, ended, active = cast("tuple[bytes, int, int | None, bool, bool, int]", columns[:6])
    return StoredSession(as_text(session_id), head, due, at_work, ended, about=about_of(columns[6:]), active=active)


def about_of(columns: tuple[object, ...]) -> About:
    """Return what the `ABOUT_COLUMNS` of a row say."""
    tenant, owner, spec, title, labels, created = cast("tuple[bytes, bytes, bytes, bytes, list[bytes], int]", columns)
    return About(as_text(tenant), as_text(owner), as_text(spec), as_text(title), tuple(map(as_text, labels)), created)
