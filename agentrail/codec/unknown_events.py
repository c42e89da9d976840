"""Events of newer versions: an object of a class that this version does not know is read as an `UnknownEvent`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

from agentrail.values.events import EVENTS
from agentrail.values.events.plugins import UnknownEvent
from agentrail.values.json import FrozenObject, Json
from agentrail.values.value import TAG

_KNOWN_EVENTS: Final = frozenset(cls.__name__ for cls in EVENTS)
_UNKNOWN_CLASS: Final = re.compile(r"Invalid value .*? - at `[$]([^`]*)[.][$]`(?: - at `[$]([^`]*)`)?", re.DOTALL)
"""Matches what msgspec says of a class that is not in the union, with the path of the object; see `misfit_of`."""


def with_unknown_event(data: Json, said: str) -> Json | None:
    """Return *data* with an `UnknownEvent` in place of the object that msgspec *said* is of a class it does not know.

    `None` if it said something else.
    """
    found = _UNKNOWN_CLASS.fullmatch(said)
    path = "" if found is None else f"{found[2] or ''}{found[1]}"
    return None if found is None or "..." in path else _replaced(data, re.findall(r"\w+", path))


def _replaced(data: Json, path: Sequence[str]) -> Json | None:
    if path:
        key, *others = path
        if isinstance(data, Mapping):
            inner = _replaced(data[key], others)
            return None if inner is None else FrozenObject({**data, key: inner})
        items = cast("tuple[Json, ...]", data)
        inner = _replaced(items[int(key)], others)
        return None if inner is None else (*items[: int(key)], inner, *items[int(key) + 1 :])
    body = dict(data) if isinstance(data, Mapping) else {}
    kind = body.pop(TAG, None)
    if type(kind) is not str or kind in _KNOWN_EVENTS:
        return None
    return FrozenObject({TAG: UnknownEvent.__name__, "kind": kind, "body": FrozenObject(body)})
