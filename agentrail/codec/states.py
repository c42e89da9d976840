"""Writes plugin states as JSON, and says why a state cannot be stored.

A state is written by the types of its values, not by type hints, so this module needs no cattrs. Each instance of a
class is written with the name of its class under `$`. Reading a state uses the type hints.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum, Flag
from types import MappingProxyType, NoneType
from typing import Final, TypeAlias, cast

import attrs

from agentrail.codec.misfit import MisfitError, described, one, shortened
from agentrail.codec.text import to_text
from agentrail.errors import BadValue, NotJson
from agentrail.hooks.attachments import STATE_LIMIT
from agentrail.values.json import INT_MAX, INT_MIN, MAX_DEPTH, FrozenObject, Json, canonical, thaw
from agentrail.values.messages import History
from agentrail.values.value import TAG, Value

MIXED: Final = "mixed"
"""Written in place of a class name for a tuple, frozenset or mapping that holds more than plain data."""

FROZENSET: Final = "frozenset"
"""Written in place of a class name for a frozenset of plain data."""

SCALARS: Final = frozenset({NoneType, bool, int, float, str})
MAPPINGS: Final = frozenset({MappingProxyType, FrozenObject})

_WORST: Final = 6
"""By how much the size of a state may be overestimated: `Room` counts an escape for each character of a short text."""

_SHORT: Final = 1_000
"""The most characters of a text whose size is estimated; longer texts are encoded to find it."""

_INSTEAD: Final[Mapping[type[object], str]] = {
    list: "which can change; keep a tuple",
    dict: "which can change; keep a frozen mapping, such as `types.MappingProxyType`",
    set: "which can change; keep a frozenset",
    bytearray: "which can change; keep text, such as base64",
    bytes: "which JSON cannot hold; keep text, such as base64",
    History: "which grows behind your back; keep a tuple of its messages",
}


@attrs.frozen
class _Probe:
    """Exists only for its `__setattr__`, which all frozen attrs classes share."""


_FROZEN_BY_ATTRS: Final[object] = _Probe.__setattr__


class _TooLargeError(Exception):
    """The value takes more bytes than the limit; writing it stopped there."""


class Room:
    """The bytes that are left for what is written of a state, estimated from above: six, an escape, per character."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, size: int) -> None:
        """Take *size* bytes; raise `_TooLargeError` if so many are not left."""
        self.left -= size
        if self.left < 0:
            raise _TooLargeError

    def take_text(self, text: str) -> None:
        """Take the bytes of *text*; raise as `take` does, without looking at a text that is far too long."""
        if len(text) > self.left:  # each character takes at least one byte
            raise _TooLargeError
        try:
            short = len(text) <= _SHORT and text.isascii()
            self.take(6 * len(text) + 2 if short else len(to_text(text).encode()))
        except NotJson:
            raise MisfitError("", "is text with half a surrogate pair") from None


Write: TypeAlias = Callable[[object, int, Room], Json]
"""Function that returns a value of one type as JSON; it takes the value, the number of levels above, and the room."""

_Items: TypeAlias = "tuple[object, ...] | frozenset[object]"


class Stored(Value):
    """A plugin state read from storage whose class the reader does not know, or no longer knows."""

    name: str
    """`module:name` of the value's class, or `mixed`."""
    data: Json
    """The state, as JSON."""


def storable(state: object, limit: int = STATE_LIMIT) -> str | None:
    """Say why *state* cannot be stored, naming the field, or return `None`.

    It may hold `None`, booleans, numbers, text, tuples, frozensets, enum members, frozen mappings with text keys, and
    frozen attrs classes, frozen dataclasses and named tuples of these; written, it takes at most *limit* bytes.
    """
    room = Room(_WORST * limit)
    try:
        written = _encode(state, 0, room)
    except _TooLargeError:
        return f"it takes more than {limit:,} bytes when it is written, and no more are kept"
    except MisfitError as misfit:
        return f"{misfit.place} {misfit.problem}"
    size = _WORST * limit - room.left
    if size > limit:
        size = len(to_text(written).encode())
    return None if size <= limit else f"it takes {size:,} bytes when it is written; at most {limit:,} are kept"


def encode_state(state: object) -> Json:
    """Return *state* as JSON; `decode_state` reads it back."""
    try:
        return written(state)
    except MisfitError as misfit:
        raise BadValue(type(state).__name__, misfit.place, misfit.problem) from None


def written(state: object) -> Json:
    """Return *state* as JSON; raise `MisfitError` if it cannot be stored."""
    return _encode(state, 0, Room(sys.maxsize))


def data_of(state: object) -> Json:
    """Return a plugin state (a value or `Stored`) as JSON, the form that `Plugin.upgrade` takes."""
    return state.data if type(state) is Stored else encode_state(state)


def kept(state: object) -> dict[str, Json]:
    """Return the JSON object that stores *state*: its `data`, and its `class` unless it is plain data."""
    if type(state) is Stored:
        return {"class": state.name, "data": cast("Json", thaw(state.data))}
    data = written(state)
    name = _name(state)
    return {"data": data} if name is None else {"class": name, "data": data}


def _name(state: object) -> str | None:
    kind = type(state)
    if _is_plain(state):
        return None
    if kind is frozenset and all(_is_plain(item) for item in cast("_Items", state)):
        return FROZENSET
    if kind is tuple or kind is frozenset or kind in MAPPINGS:
        return MIXED
    return f"{kind.__module__}:{kind.__qualname__}"


def _is_plain(state: object) -> bool:
    """Whether *state* is plain data: scalars, tuples and mappings, which can be read back without a class name."""
    kind = type(state)
    if kind is tuple:
        return all(_is_plain(item) for item in cast("_Items", state))
    if kind in MAPPINGS:
        return all(_is_plain(item) for item in cast("Mapping[str, object]", state).values())
    return kind in SCALARS


def _encode(found: object, depth: int, room: Room) -> Json:
    kind = type(found)
    if found is None or kind is bool:
        room.take(5)
    elif kind is str:
        room.take_text(cast("str", found))
    elif kind is int:
        if not INT_MIN <= cast("int", found) <= INT_MAX:
            raise MisfitError("", "is a whole number that does not fit 64 bits")
        room.take(len(repr(found)))
    elif kind is float:
        if not math.isfinite(cast("float", found)):
            raise MisfitError("", f"is {found}, which JSON cannot hold")
        room.take(len(repr(found)))
    else:
        if depth >= MAX_DEPTH:
            raise MisfitError("", f"has more than {MAX_DEPTH} levels")
        write = _WRITERS.get(kind) or _writer(kind)
        return write(found, depth + 1, room)
    return cast("Json", found)


def _encode_tuple(found: object, depth: int, room: Room) -> Json:
    made: list[Json] = []
    try:
        for item in cast("_Items", found):
            made.append(_encode(item, depth, room))
            room.take(1)
    except MisfitError as misfit:
        misfit.under(f"[{len(made)}]")
        raise
    room.take(2)
    return made


def _encode_frozenset(found: object, depth: int, room: Room) -> Json:
    """Return the items sorted by their JSON text, so that every process writes them in the same order."""
    try:
        made = [_encode(item, depth, room) for item in cast("_Items", found)]
    except MisfitError as misfit:
        misfit.under("[]")
        raise
    room.take(len(made) + 2)
    return sorted(made, key=canonical)


def _encode_mapping(found: object, depth: int, room: Room) -> Json:
    made: dict[str, Json] = {}
    key: object = None
    try:
        for key, item in cast("Mapping[object, object]", found).items():
            if type(key) is not str:
                raise MisfitError("", f"has a key that {described(key)}; keys must be text")  # noqa: TRY301
            if key == TAG:
                raise MisfitError("", "has the key `$`, which is reserved; use another one")  # noqa: TRY301
            room.take_text(key)
            made[key] = _encode(item, depth, room)
            room.take(2)
    except MisfitError as misfit:
        misfit.under(f"[{shortened(repr(key))}]")
        raise
    room.take(2)
    return made


_WRITERS: Final[dict[type[object], Write]] = {
    tuple: _encode_tuple,
    frozenset: _encode_frozenset,
    MappingProxyType: _encode_mapping,
    FrozenObject: _encode_mapping,
}


def _writer(kind: type[object]) -> Write:
    """Make and store the writer of *kind*; raise `MisfitError` if its values cannot be stored."""
    if issubclass(kind, Flag):
        raise MisfitError("", f"is a member of the flag `{kind.__name__}`; keep a frozenset of members of an `Enum`")
    if issubclass(kind, Enum):
        made: Write = _encode_member
    else:
        names = names_in_order(kind)
        if names is None:
            instead = _INSTEAD.get(kind, "which cannot be stored; keep frozen attrs classes of plain values")
            raise MisfitError("", f"is {one(kind)}, {instead}")
        made = _writer_of_class(kind, names)
    _WRITERS[kind] = made
    return made


def _encode_member(found: object, depth: int, room: Room) -> Json:
    of = cast("Enum", found).value
    if type(of) not in SCALARS:
        raise MisfitError("", f"is a member of `{type(found).__name__}` whose value is not plain")
    return _encode(of, depth, room)


def names_in_order(kind: object) -> tuple[str, ...] | None:
    """Return the names of the fields with which a frozen class or named tuple is made; `None` for all else.

    Raises `MisfitError` for an attrs class or dataclass that is not frozen.
    """
    if not isinstance(kind, type):
        return None
    cls = cast("type[object]", kind)
    if issubclass(cls, Value):
        return cls.__struct_fields__
    if attrs.has(cls):
        if cast("object", cls.__setattr__) is not _FROZEN_BY_ATTRS:
            raise MisfitError("", f"is {one(cls)}, which can change; make it `@attrs.frozen`")
        return tuple(field.name for field in attrs.fields(cls) if field.init)
    if is_dataclass(cls):
        if not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]  # every dataclass has it
            raise MisfitError("", f"is {one(cls)}, which can change; make it `@dataclass(frozen=True)`")
        return tuple(field.name for field in fields(cls) if field.init)
    if issubclass(cls, tuple):
        return cast("tuple[str, ...] | None", getattr(cast("object", cls), "_fields", None))
    return None


def _writer_of_class(kind: type[object], names: tuple[str, ...]) -> Write:
    untagged = issubclass(kind, Value) and kind.__struct_config__.tag is None
    head: Mapping[str, Json] = {} if untagged else {TAG: kind.__name__}
    own = len(to_text(head)) + sum(len(to_text(name).encode()) + 2 for name in names)

    def write(found: object, depth: int, room: Room) -> Json:
        room.take(own)
        made = dict(head)
        name = ""
        try:
            for name in names:
                made[name] = _encode(getattr(found, name), depth, room)
        except MisfitError as misfit:
            misfit.under(f".{name}")
            raise
        return made

    return write
