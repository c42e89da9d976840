"""Checks what callers pass to handles, here and at a host, so that both refuse the same with the same words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

from agentrail.errors import WrongType
from agentrail.values.events.envelope import Cursor, Event
from agentrail.values.foreign import number, shown

CURSOR_WANTED: Final = "the `cursor` of an envelope: a pair of whole numbers from 0 on, or the first of them"
TYPES_WANTED: Final = "a list of classes of events, such as `[AgentEnd]`"
PLUGIN_WANTED: Final = "its class, or the key that it was given"


def cursor_of(since: object) -> Cursor | None:
    """Return *since* as a cursor; `None` if it is `None`. Raise `WrongType` unless it is one number or two."""
    if since is None:
        return None
    is_pair = type(since) in (tuple, list, Cursor)
    parts = cast("Sequence[object]", since) if is_pair else (since,)
    numbers = [plain for plain in map(number, parts) if type(plain) is int and plain >= 0]
    if not 1 <= len(parts) == len(numbers) <= len(Cursor._fields):
        raise WrongType("since", shown(since), CURSOR_WANTED)
    return Cursor(*numbers)


def kinds_of(types: object) -> tuple[type[Event], ...]:
    """Return *types* as a tuple; raise `WrongType` if they are no iterable of classes of events."""
    is_many = isinstance(types, Iterable)
    found = tuple(cast("Iterable[object]", types)) if is_many else (None,)
    if not all(isinstance(kind, type) and issubclass(kind, Event) for kind in found):
        raise WrongType.of("types", types, TYPES_WANTED)
    return cast("tuple[type[Event], ...]", found)


def key_of(plugin: object) -> str:
    """Return the key of a plugin given by its key or its class; raise `WrongType` for anything else."""
    if isinstance(plugin, str):
        return plugin
    if isinstance(plugin, type):
        return plugin.__name__
    raise WrongType.of("plugin", plugin, PLUGIN_WANTED)
