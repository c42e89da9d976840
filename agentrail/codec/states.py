"""Writes plugin states as JSON, and says why a state cannot be stored.

A state is written by the types of its values, not by type hints, so this module needs no cattrs. Each instance of a
class is written with the name of its class under `$`. Reading a state uses the type hints.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum, Flag
from types import MappingProxyType, NoneType
from typing import Final, NamedTuple, TypeAlias, cast

import attrs

from agentrail.codec.misfit import TAG, MisfitError, described, one, shortened
from agentrail.codec.text import to_text
from agentrail.errors import BadValue, NotJson
from agentrail.hooks.attachments import STATE_LIMIT
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import INT_MAX, INT_MIN, MAX_DEPTH, FrozenObject, Json, canonical
from agentrail.values.messages import History
from agentrail.values.value import Value

ENVELOPE_VERSION: Final = 1
"""Version of the JSON form of envelopes and events."""

CONSTANTS: Final[Mapping[type[object], Mapping[str, Json]]] = {Envelope: {"v": ENVELOPE_VERSION}}
"""Keys and values that are written for every instance of a class, beside its fields."""

MIXED: Final = "mixed"
"""Written in place of a class name for a tuple, frozenset or mapping that holds more than plain data."""

FROZENSET: Final = "frozenset"
"""Written in place of a class name for a frozenset of plain data."""

SCALARS: Final = frozenset({NoneType, bool, int, float, str})
MAPPINGS: Final = frozenset({MappingProxyType, FrozenObject})

_WORST: Final = 6
"""By how much `_measure` may overestimate a size: it counts six bytes, an escape, per character of a short text."""

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
    """The measured value takes more bytes than the limit; measuring stopped there."""


class Plan(NamedTuple):
    """The functions that measure and write values of one type."""

    measure: Callable[[object, int, int], int]
    """Takes a value, its depth and a limit; returns the most bytes it may take written.

    Raises `MisfitError` if it cannot be stored, and `_TooLargeError` if it may take more than the limit.
    """
    encode: Callable[[object], Json]
    """Returns the value as JSON."""


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
    try:
        size = _measure(state, 0, _WORST * limit)
        if size > limit:
            size = len(to_text(_encode(state)).encode())
    except _TooLargeError:
        return f"it takes more than {limit:,} bytes when it is written, and no more are kept"
    except MisfitError as misfit:
        return f"{misfit.place} {misfit.problem}"
    return None if size <= limit else f"it takes {size:,} bytes when it is written; at most {limit:,} are kept"


def encode_state(state: object) -> Json:
    """Return *state* as JSON; `decode_state` reads it back."""
    try:
        _measure(state, 0, sys.maxsize)
        return _encode(state)
    except MisfitError as misfit:
        raise BadValue(type(state).__name__, misfit.place, misfit.problem) from None


def data_of(state: object) -> Json:
    """Return a plugin state (a value or `Stored`) as JSON, the form that `Plugin.upgrade` takes."""
    return state.data if type(state) is Stored else encode_state(state)


def kept(state: object) -> dict[str, Json]:
    """Return the JSON object that stores *state*: its `data`, and its `class` unless it is plain data."""
    if type(state) is Stored:
        return {"class": state.name, "data": state.data}
    _measure(state, 0, sys.maxsize)
    name = _name(state)
    return {"data": _encode(state)} if name is None else {"class": name, "data": _encode(state)}


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


def _measure(found: object, depth: int, most: int) -> int:
    kind = type(found)
    if found is None or kind is bool:
        return 5
    if kind is str:
        return _measure_text(cast("str", found), most)
    if kind is int:
        if not INT_MIN <= cast("int", found) <= INT_MAX:
            raise MisfitError("", "is a whole number that does not fit 64 bits")
        return len(repr(found))
    if kind is float:
        if not math.isfinite(cast("float", found)):
            raise MisfitError("", f"is {found}, which JSON cannot hold")
        return len(repr(found))
    if depth >= MAX_DEPTH:
        raise MisfitError("", f"has more than {MAX_DEPTH} levels")
    plan = _PLANS.get(kind) or _plan(kind)
    return plan.measure(found, depth + 1, most)


def _measure_text(text: str, most: int) -> int:
    if len(text) > most:  # each character takes at least one byte
        raise _TooLargeError
    if len(text) <= _SHORT and text.isascii():
        return 6 * len(text) + 2
    try:
        return len(to_text(text).encode())
    except NotJson:
        raise MisfitError("", "is text with half a surrogate pair") from None


def _encode(found: object) -> Json:
    kind = type(found)
    if kind in SCALARS:
        return cast("Json", found)
    plan = _PLANS.get(kind) or _plan(kind)
    return plan.encode(found)


def _measure_tuple(found: object, depth: int, most: int) -> int:
    size = 2
    place = 0
    try:
        for item in cast("_Items", found):
            size += _measure(item, depth, most - size) + 1
            place += 1
            if size > most:
                raise _TooLargeError
    except MisfitError as misfit:
        misfit.under(f"[{place}]")
        raise
    return size


def _encode_tuple(found: object) -> Json:
    return [_encode(item) for item in cast("_Items", found)]


def _measure_frozenset(found: object, depth: int, most: int) -> int:
    size = 2
    try:
        for item in cast("_Items", found):
            size += _measure(item, depth, most - size) + 1
            if size > most:
                raise _TooLargeError
    except MisfitError as misfit:
        misfit.under("[]")
        raise
    return size


def _encode_frozenset(found: object) -> Json:
    return in_order(_encode(item) for item in cast("_Items", found))


def in_order(items: Iterable[Json]) -> list[Json]:
    """Return the *items* of a set sorted by their JSON text, so that every process writes them in the same order."""
    return sorted(items, key=canonical)


def _measure_mapping(found: object, depth: int, most: int) -> int:
    size = 2
    key: object = None
    try:
        for key, item in cast("Mapping[object, object]", found).items():
            size += _measure_key(key, most - size) + _measure(item, depth, most - size) + 2
            if size > most:
                raise _TooLargeError
    except MisfitError as misfit:
        misfit.under(f"[{shortened(repr(key))}]")
        raise
    return size


def _measure_key(key: object, most: int) -> int:
    if type(key) is not str:
        raise MisfitError("", f"has a key that {described(key)}; keys must be text")
    if key == TAG:
        raise MisfitError("", "has the key `$`, which is reserved; use another one")
    return _measure_text(key, most)


def _encode_mapping(found: object) -> Json:
    return {key: _encode(item) for key, item in cast("Mapping[str, object]", found).items()}


_PLANS: Final[dict[type[object], Plan]] = {
    tuple: Plan(_measure_tuple, _encode_tuple),
    frozenset: Plan(_measure_frozenset, _encode_frozenset),
    MappingProxyType: Plan(_measure_mapping, _encode_mapping),
    FrozenObject: Plan(_measure_mapping, _encode_mapping),
}


def _plan(kind: type[object]) -> Plan:
    """Make and store the plan for *kind*; raise `MisfitError` if its values cannot be stored."""
    if issubclass(kind, Flag):
        raise MisfitError("", f"is a member of the flag `{kind.__name__}`; keep a frozenset of members of an `Enum`")
    if issubclass(kind, Enum):
        plan = Plan(_measure_member, _encode_member)
    else:
        names = _fields(kind)
        if names is None:
            instead = _INSTEAD.get(kind, "which cannot be stored; keep frozen attrs classes of plain values")
            raise MisfitError("", f"is {one(kind)}, {instead}")
        plan = _plan_of_class(kind, names)
    _PLANS[kind] = plan
    return plan


def _measure_member(found: object, depth: int, most: int) -> int:
    of = cast("Enum", found).value
    if type(of) not in SCALARS:
        raise MisfitError("", f"is a member of `{type(found).__name__}` whose value is not plain")
    return _measure(of, depth, most)


def _encode_member(found: object) -> Json:
    return cast("Json", cast("Enum", found).value)


def _fields(kind: type[object]) -> tuple[str, ...] | None:
    """Return the field names of a frozen class or named tuple, else `None`.

    Raises `MisfitError` for an attrs class or dataclass that is not frozen.
    """
    if issubclass(kind, Value):
        return kind.__struct_fields__
    if attrs.has(kind):
        if cast("object", kind.__setattr__) is not _FROZEN_BY_ATTRS:
            raise MisfitError("", f"is {one(kind)}, which can change; make it `@attrs.frozen`")
        return tuple(field.name for field in attrs.fields(kind) if field.init)
    if is_dataclass(kind):
        if not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]  # every dataclass has it
            raise MisfitError("", f"is {one(kind)}, which can change; make it `@dataclass(frozen=True)`")
        return tuple(field.name for field in fields(kind) if field.init)
    if issubclass(kind, tuple):
        return cast("tuple[str, ...] | None", getattr(cast("object", kind), "_fields", None))
    return None


def _plan_of_class(kind: type[object], names: tuple[str, ...]) -> Plan:
    head = {TAG: kind.__name__, **CONSTANTS.get(kind, {})}
    own = len(to_text(head)) + sum(len(to_text(name).encode()) + 2 for name in names)

    def measure(found: object, depth: int, most: int) -> int:
        size = own
        name = ""
        try:
            for name in names:
                size += _measure(getattr(found, name), depth, most - size)
        except MisfitError as misfit:
            misfit.under(f".{name}")
            raise
        return size

    def encode(found: object) -> Json:
        made: dict[str, Json] = dict(head)
        for name in names:
            made[name] = _encode(getattr(found, name))
        return made

    return Plan(measure, encode)
