"""Stored JSON of older formats is converted to the newest; an event of a newer one is an `UnknownEvent`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from agentrail.codec.decode_error import MisfitError
from agentrail.values.events import EVENTS
from agentrail.values.events.plugins import UnknownEvent
from agentrail.values.json import FrozenObject, Json
from agentrail.values.value import TAG

FORMAT: Final = 6
"""Number of the newest format, in which records and snapshots are written."""

Upcaster: TypeAlias = Callable[[Json], Json]


def _from_4(data: Json) -> Json:
    """Convert a change of format 4, which has all suspended runs, to one that replaces all of them."""
    if not isinstance(data, Mapping):
        return data
    change = data.get("change")
    if not isinstance(change, Mapping) or "suspended" not in change:
        return data
    suspended = {"begins": True, "put": change["suspended"]}
    return {**data, "change": {**change, "suspended": suspended}}


_REMOVED_IN_6: Final = frozenset({"altered", "by_tool", "due", "shown"})
"""The fields of a state by which the machine of format 5 followed the prompt cache, and hooks that were due."""

RENAMED_IN_6: Final[Mapping[str, str]] = MappingProxyType(
    {
        "opening": "is_starting",
        "stopping": "stop_reason",
        "crashed": "quarantine_cause",
        "used_model": "last_request_model",
        "spares": "fallbacks",
        "priced": "priced_models",
        "gone_tools": "removed_tools",
        "found": "found_tools",
        "seats": "plugins",
        "gone_plugins": "removed_plugins",
        "changes": "plugin_changes",
        "deafness": "listener_failures",
        "last_reply": "last_text",
        "measured": "token_count",
        "crowded": "tokens_after_compaction",
        "compact_wanted": "compaction_reason",
        "compact_by": "compaction_cause",
        "paused": "is_paused",
        "taking": "next_prompt",
        "suspended": "suspended_runs",
        "in_doubt": "in_doubt_calls",
        "quarantined": "quarantined_calls",
        "lingering": "lingering_calls",
        "jobs": "background_jobs",
        "seq": "last_seq",
        "serial": "last_id",
        "turns": "turn_count",
        "elsewhere": "shared_usage",
        "working_since": "working_since_ms",
        "worked_elsewhere": "shared_worked_ms",
    }
)
"""The present name of each field of a state that format 5 writes by another one."""


def _from_5(data: Json) -> Json:
    """Convert a record or snapshot of format 5: fields of the state have their present names, or are left out."""
    if not isinstance(data, Mapping):
        return data
    places = {name: _as_in_6(data[name]) for name in ("change", "opening", "state") if name in data}
    return {**data, **places}


def _as_in_6(fields: Json) -> Json:
    """Return the *fields* of a state by their present names, without those that are no more.

    What a recovery had set aside is no list any more: the rest of the state tells what was under way.
    """
    if not isinstance(fields, Mapping):
        return fields
    named = {RENAMED_IN_6.get(name, name): value for name, value in fields.items() if name not in _REMOVED_IN_6}
    return {**named, "is_paused": bool(named["is_paused"])} if "is_paused" in named else named


UPCASTERS: Final[Mapping[int, Upcaster]] = MappingProxyType({4: _from_4, 5: _from_5})
"""For each older format that is read, the function that converts its JSON to the next. Format 4 is the oldest.

Whoever raises `FORMAT` must add one. It takes a record or a snapshot. A field of `State` is at three places: in the
`change` of a record, in the `opening` of the first one, and in the `state` of a snapshot.
"""


def upcast(data: Json, format_: int, newest: int = FORMAT, upcasters: Mapping[int, Upcaster] = UPCASTERS) -> Json:
    """Return *data* of format *format_* converted to format *newest*; raise `MisfitError` if it cannot be converted."""
    if format_ > newest:
        raise _unknown(format_, f"knows formats up to {newest}; use a newer agentrail")
    for older in range(format_, newest):
        if older not in upcasters:
            first = min(upcasters, default=newest)
            raise _unknown(older, f"reads formats from {first} on; use the agentrail that has written it")
        data = upcasters[older](data)
    return data


def _unknown(format_: int, what_it_does: str) -> MisfitError:
    from agentrail.version import __version__  # noqa: PLC0415 - looking it up takes time, and only an error needs it

    return MisfitError("", f"has format {format_}, and agentrail {__version__} {what_it_does}")


_KNOWN_EVENTS: Final = frozenset(cls.__name__ for cls in EVENTS)
_UNKNOWN_CLASS: Final = re.compile(r"Invalid value .*? - at `[$]([^`]*)[.][$]`(?: - at `[$]([^`]*)`)?", re.DOTALL)
"""Matches what msgspec says of a class that is not in the union, with the path of the object; see `misfit_of`."""


_OLD_FIELD: Final = re.compile(r"Object contains unknown field `(\w+)`(?: - at `[$]([^`]*)`)?")
"""Matches what msgspec says of a field that is not known, with the path of the object."""


def with_known_event(data: Json, problem: str) -> Json | None:
    """Return *data* with an event in place of the object that, by msgspec's *problem*, is none that this version knows.

    It is the same event with the new name of a field, or an `UnknownEvent`. `None` if *problem* says something else.
    """
    renamed = _OLD_FIELD.fullmatch(problem)
    if renamed is not None:
        return _replaced(data, renamed[2] or "", partial(_with_new_name, renamed[1]))
    match = _UNKNOWN_CLASS.fullmatch(problem)
    return None if match is None else _replaced(data, f"{match[2] or ''}{match[1]}", _as_unknown_event)


def _replaced(data: Json, path: str, replace: Callable[[Json], Json | None]) -> Json | None:
    """Return *data* with what *replace* makes of the value at *path*; `None` if it makes nothing of it."""
    return None if "..." in path else _replaced_at(data, re.findall(r"\w+", path), replace)


def _replaced_at(data: Json, path: Sequence[str], replace: Callable[[Json], Json | None]) -> Json | None:
    if not path:
        return replace(data)
    key, *others = path
    if isinstance(data, Mapping):
        inner = _replaced_at(data[key], others, replace)
        return None if inner is None else FrozenObject({**data, key: inner})
    items = cast("tuple[Json, ...]", data)
    inner = _replaced_at(items[int(key)], others, replace)
    return None if inner is None else (*items[: int(key)], inner, *items[int(key) + 1 :])


RENAMED_FIELDS: Final[Mapping[tuple[str, str], str]] = MappingProxyType({("AgentEnd", "stop_reason"): "reason"})
"""The present name of a field of an event, by the event's class and the old name, under which it may be stored."""


def _with_new_name(old: str, data: Json) -> Json | None:
    """Return *data*, an event, with the present name of its field *old*; `None` if it has no other name now."""
    kind = data.get(TAG) if isinstance(data, Mapping) else None
    new = RENAMED_FIELDS.get((kind, old)) if isinstance(kind, str) else None
    if new is None or not isinstance(data, Mapping) or new in data:
        return None
    return FrozenObject({new if name == old else name: value for name, value in data.items()})


def _as_unknown_event(data: Json) -> Json | None:
    body = dict(data) if isinstance(data, Mapping) else {}
    kind = body.pop(TAG, None)
    if type(kind) is not str or kind in _KNOWN_EVENTS:
        return None
    return FrozenObject({TAG: UnknownEvent.__name__, "kind": kind, "body": FrozenObject(body)})
