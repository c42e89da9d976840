"""Checks what callers pass to a supervisor: names of a new session, filters of stored ones, counts."""

from __future__ import annotations

from typing import Final, cast

from agentrail.api.command_checks import check_flag, labels_of, name_of
from agentrail.core.machine.configuration import MAX_LABELS
from agentrail.core.vocabulary.state import State
from agentrail.errors import UsageError, WrongType
from agentrail.ports.journal import ALL_SESSIONS, SLOTS, SessionFilter, StoredSession
from agentrail.values.json import INT_MAX
from agentrail.values.untrusted_values import brief, number

FILTER_WANTED = "a `SessionFilter`, or nothing for all sessions"
EVERY_SLOT: Final = frozenset(range(SLOTS))
SLOTS_WANTED: Final = f"a `frozenset` of numbers from 0 to {SLOTS - 1}, or nothing for all slots"
LISTED_WANTED = "the last of the sessions that were listed before, or nothing for the first page"


def counted(name: str, value: object) -> int:
    """Return *value* if it is a whole number from 1 on; raise `WrongType` otherwise."""
    plain = number(value)
    if type(plain) is not int or plain < 1:
        raise WrongType(name, brief(value), "a whole number from 1 on")
    return plain


def named(state: State, tenant: object, owner: object, title: object, labels: object) -> State:
    """Return *state*, of a new session, with the names and labels that the caller of `spawn` gave."""
    if (tenant, owner, title, labels) == ("", "", "", ()):
        return state
    setup = state.setup.but(tenant=name_of("tenant", tenant), owner=name_of("owner", owner))
    kept_labels = labels_of("labels", labels)
    if len(kept_labels) > MAX_LABELS:
        raise UsageError("too-many-labels", len(kept_labels), MAX_LABELS)
    return state.but(setup=setup, title=name_of("title", title), labels=kept_labels)


def filter_of(value: object) -> SessionFilter:
    """Return *value* as a filter; raise `WrongType` if it, or one of its fields, is of a wrong type."""
    if value is None:
        return ALL_SESSIONS
    if not isinstance(value, SessionFilter):
        raise WrongType.of("wanted", value, FILTER_WANTED)
    for name in ("tenant", "owner", "label"):
        if getattr(value, name) is not None:
            name_of(name, getattr(value, name))
    for name in ("at_work", "ended"):
        if getattr(value, name) is not None:
            check_flag(name, getattr(value, name))
    slots = value.slots
    if slots is not None and not (type(cast("object", slots)) is frozenset and slots <= EVERY_SLOT):
        raise WrongType("slots", brief(slots), SLOTS_WANTED)
    due = value.due_before
    if due is not None and not (type(cast("object", due)) is int and abs(due) <= INT_MAX):
        raise WrongType("due_before", brief(due), "milliseconds since 1970")
    return value


def listed_of(value: object) -> StoredSession | None:
    """Return *value*, the last session of the previous page or `None`; raise `WrongType` for anything else."""
    if value is not None and not isinstance(value, StoredSession):
        raise WrongType.of("after", value, LISTED_WANTED)
    return value
