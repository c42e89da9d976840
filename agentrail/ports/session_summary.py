"""What a journal keeps of a session beside its records, made from each record: its summary, and whose it is."""

from __future__ import annotations

from msgspec import UNSET

from agentrail.core.vocabulary.changes import NO_CHANGE
from agentrail.ports.journal import About, Record, StoredSession
from agentrail.values.events.life import SessionEnded


def about_after(record: Record, before: About) -> About:
    """Return what is said of a session after *record*; *before*: the same before it."""
    opening = record.opening
    if record.number == 1:
        before = About(created=record.arrival.at)
    if opening is not None:
        setup = opening.setup
        before = About(setup.tenant, setup.owner, setup.spec, opening.title, opening.labels, record.arrival.at)
    title, labels = record.change.title, record.change.labels
    if title is not UNSET:
        before = before.but(title=title)
    return before if labels is UNSET else before.but(labels=labels)


def tells_about(record: Record) -> bool:
    """Whether `about_after` returns something else after *record* than before."""
    change = record.change
    if record.number == 1 or record.opening is not None:
        return True
    return change is not NO_CHANGE and not (change.title is UNSET and change.labels is UNSET)


def stored_session(record: Record, about: About) -> StoredSession:
    """Return the summary of the session whose last record is *record*."""
    return StoredSession(
        record.session_id,
        record.number,
        record.due,
        record.at_work,
        has_ended(record),
        about=about,
        active=record.arrival.at,
    )


def has_ended(record: Record) -> bool:
    """Whether the session has ended for good with *record*."""
    return bool(record.events) and type(record.events[-1].event) is SessionEnded  # always a session's last


def parent_of(record: Record) -> str | None:
    """Return the id of the parent if *record* is the first one of a sub-agent; `None` otherwise."""
    path = () if record.opening is None else record.opening.setup.path
    return path[-2] if path else None
