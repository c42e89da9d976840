"""Stored JSON of older formats is converted to the newest; an event of a newer one is an `UnknownEvent`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias, cast

from agentrail.codec.decode_error import MisfitError
from agentrail.values.events import EVENTS
from agentrail.values.events.plugins import UnknownEvent
from agentrail.values.json import FrozenObject, Json
from agentrail.values.value import TAG

FORMAT: Final = 1
"""Number of the newest format, in which records and snapshots are written."""

UNRELEASED: Final = (
    "it was written by agentrail before its first release, and no release reads it; "
    "read it with commit 82d83c98, or give another one"
)
"""Why a journal or an export file from before format 1 is refused. Each kind of file says which of the two it is."""

Upcaster: TypeAlias = Callable[[Json], Json]

UPCASTERS: Final[Mapping[int, Upcaster]] = MappingProxyType({})
"""For each older format that is read, the function that converts its JSON to the next. Format 1 is the first.

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


def with_known_event(data: Json, problem: str) -> Json | None:
    """Return *data* with an `UnknownEvent` for the object that, by msgspec's *problem*, is none that is known here.

    `None` if *problem* says something else.
    """
    match = _UNKNOWN_CLASS.fullmatch(problem)
    path = "" if match is None else f"{match[2] or ''}{match[1]}"
    return None if match is None or "..." in path else _replaced(data, re.findall(r"\w+", path))


def _replaced(data: Json, path: Sequence[str]) -> Json | None:
    """Return *data* with an `UnknownEvent` in place of the value at *path*; `None` if that is no event."""
    if not path:
        return _as_unknown_event(data)
    key, *others = path
    if isinstance(data, Mapping):
        inner = _replaced(data[key], others)
        return None if inner is None else FrozenObject({**data, key: inner})
    items = cast("tuple[Json, ...]", data)
    inner = _replaced(items[int(key)], others)
    return None if inner is None else (*items[: int(key)], inner, *items[int(key) + 1 :])


def _as_unknown_event(data: Json) -> Json | None:
    body = dict(data) if isinstance(data, Mapping) else {}
    kind = body.pop(TAG, None)
    if type(kind) is not str or kind in _KNOWN_EVENTS:
        return None
    return FrozenObject({TAG: UnknownEvent.__name__, "kind": kind, "body": FrozenObject(body)})
