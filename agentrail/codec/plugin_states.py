"""Writes plugin states, which may be of any class, as JSON, and says why one cannot be stored."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum, Flag
from functools import cache
from itertools import count, repeat
from operator import attrgetter
from types import MappingProxyType, NoneType
from typing import Final, TypeAlias, TypeVar, cast, get_args

import attrs
import msgspec

from agentrail.codec.decode_error import MisfitError, blemish, describe, one
from agentrail.codec.json_text import to_text
from agentrail.core.vocabulary.changes import NO_CHANGE, Change, ChangedStates
from agentrail.core.vocabulary.state import State
from agentrail.errors import BadValue
from agentrail.hooks.attachments import STATE_LIMIT
from agentrail.hooks.ruling import Ruling
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
"""By how much the size of a state may be misjudged: an escaped character takes six bytes, and counts as one."""

_INSTEAD: Final[Mapping[type[object], str]] = {
    list: "which can change; keep a tuple",
    dict: "which can change; keep a frozen mapping, such as `types.MappingProxyType`",
    set: "which can change; keep a frozenset",
    bytearray: "which can change; keep text, such as base64",
    bytes: "which JSON cannot hold; keep text, such as base64",
    History: "which grows behind your back; keep a tuple of its messages",
}

_Items: TypeAlias = "tuple[object, ...] | frozenset[object]"


@attrs.frozen
class _Probe:
    """Exists only for its `__setattr__`, which all frozen attrs classes share."""


_FROZEN_BY_ATTRS: Final[object] = _Probe.__setattr__


class _TooLargeError(Exception):
    """The value takes more bytes than the limit; encoding stopped there."""


class Stored(Value):
    """A plugin state as read from storage, not yet converted to the plugin's class, which the reader does not know."""

    name: str
    """`module:name` of the value's class, or `mixed`."""
    data: Json
    """The state, as JSON."""


def storable(state: object, limit: int = STATE_LIMIT) -> str | None:
    """Say why *state* cannot be stored, naming the field, or return `None`.

    It may hold `None`, booleans, numbers, text, tuples, frozensets, enum members, frozen mappings with text keys, and
    frozen attrs classes, frozen dataclasses and named tuples of these; written, it takes at most *limit* bytes.
    """
    room = [_WORST * limit]
    try:
        data = _encode(state, 0, room)
    except _TooLargeError:
        return f"it takes more than {limit:,} bytes when it is written, and no more are kept"
    except MisfitError as misfit:
        return f"{misfit.subject} {misfit.problem}"
    spent = _WORST * limit - room[0]
    size = len(to_text(data).encode()) if _WORST * spent > limit else 0
    if size > limit:
        return f"it takes {size:,} bytes when it is written; at most {limit:,} are kept"
    if len(_CHECKED) == MAX_CHECKED:
        _CHECKED.clear()
    _CHECKED[id(state)] = state, data
    return None


MAX_CHECKED: Final = 256
"""How many states that were checked are kept with their JSON until they are written, so that it is made once."""

_CHECKED: Final[dict[int, tuple[object, Json]]] = {}


def encode_state(state: object) -> Json:
    """Return *state* as JSON; raise `MisfitError` if it cannot be stored."""
    checked = _CHECKED.pop(id(state), None)
    return _encode(state, 0, [sys.maxsize]) if checked is None else checked[1]


def data_of(state: object) -> Json:
    """Return a plugin state (a value or `Stored`) as JSON, which `Plugin.upgrade` takes and `decode_state` reads.

    Raises `BadValue` if it cannot be stored.
    """
    try:
        return state.data if type(state) is Stored else encode_state(state)
    except MisfitError as misfit:
        raise BadValue(type(state).__name__, misfit.subject, misfit.problem) from None


def state_json(state: object) -> dict[str, Json]:
    """Return the JSON object that stores *state*: its `data`, and its `class` unless it is plain data."""
    if type(state) is Stored:
        return {"class": state.name, "data": cast("Json", thaw(state.data))}
    data = encode_state(state)
    name = _name(state)
    return {"data": data} if name is None else {"class": name, "data": data}


def _name(state: object) -> str | None:
    kind = type(state)
    if _is_plain(state):
        return None
    if kind is frozenset and all(map(_is_plain, cast("_Items", state))):
        return FROZENSET
    if kind is tuple or kind is frozenset or kind in MAPPINGS:
        return MIXED
    return f"{kind.__module__}:{kind.__qualname__}"


def _is_plain(state: object) -> bool:
    """Whether *state* is plain data: scalars, tuples and mappings, which can be read back without a class name."""
    kind = type(state)
    if kind in MAPPINGS:
        state = (*cast("Mapping[str, object]", state).values(),)
    return kind in SCALARS or (type(state) is tuple and all(map(_is_plain, cast("_Items", state))))


def _encode(value: object, depth: int, room: list[int]) -> Json:
    """Return *value* as JSON; subtract its approximate size from *room*: its characters, or five if it is not text.

    That is at most `_WORST` times too much or too little. A text for which there is no room is not looked at.
    """
    room[0] -= len(value) + 3 if type(value) is str else 5
    if room[0] < 0:
        raise _TooLargeError
    if value is None or value is True or value is False or (type(value) is str and value.isascii()):
        return value
    if type(value) is int and INT_MIN <= value <= INT_MAX:
        return value
    kind = type(value)
    if kind in SCALARS:
        if problem := blemish(value):
            raise MisfitError("", problem)
        return cast("Json", value)
    if depth >= MAX_DEPTH:
        raise MisfitError("", f"has more than {MAX_DEPTH} levels")
    if issubclass(kind, Enum):
        return _encode(plain_value(cast("Enum", value)), depth, room)
    if kind is tuple or kind is frozenset or kind in MAPPINGS:
        return _encode_container(value, kind, depth, room)
    return _encode_fields(value, kind, depth, room)


def _encode_container(value: object, kind: type, depth: int, room: list[int]) -> Json:
    """Return a tuple, a frozenset or a mapping as JSON, as `_encode` does."""
    form, keys, items = _parts(value, kind)
    items_: list[Json] = []
    key: object = None
    try:
        for key, item in zip(keys, items, strict=False):
            if kind in MAPPINGS:
                _check_key(key, depth, room)
            items_.append(_encode(item, depth + 1, room))
    except MisfitError as misfit:
        misfit.under(form.format(key))
        raise
    if kind is frozenset:
        return sorted(items_, key=canonical)  # in a fixed order, so that every process writes the same text
    return items_ if kind is tuple else dict(zip(cast("Iterable[str]", keys), items_, strict=True))


def _encode_fields(value: object, kind: type, depth: int, room: list[int]) -> Json:
    """Return an instance of the class *kind* as JSON, as `_encode` does."""
    head, names, size = _form_of(kind)
    room_left = room[0] - size
    encoded: dict[str, Json] = head.copy()
    name = ""
    try:
        for name in names:
            item: object = getattr(value, name)
            # Most fields are simple values. They are encoded here, not by `_encode`, to save a call.
            if item is None or item is True or item is False or (type(item) is int and INT_MIN <= item <= INT_MAX):
                room_left -= 5
                encoded[name] = item
                continue
            if type(item) is str and item.isascii():
                after = room_left - len(item) - 3
                if after >= 0:
                    room_left = after
                    encoded[name] = item
                    continue
            room[0] = room_left
            encoded[name] = _encode(item, depth + 1, room)
            room_left = room[0]
    except MisfitError as misfit:
        misfit.under(f".{name}")
        raise
    room[0] = room_left
    return encoded


def _parts(value: object, kind: type) -> tuple[str, Iterable[object], Iterable[object]]:
    """Return the format of a path to a part of the container *value*, the names of its parts, and the parts."""
    if kind is tuple:
        return "[{}]", count(), cast("_Items", value)
    if kind is frozenset:
        return "[]", repeat(None), cast("_Items", value)
    table = cast("Mapping[object, object]", value)
    return "[{!a:.60}]", table.keys(), table.values()


def _check_key(key: object, depth: int, room: list[int]) -> None:
    if type(key) is not str:
        raise MisfitError("", f"has a key that {describe(key)}; keys must be text")
    if key == TAG:
        raise MisfitError("", "has the key `$`, which is reserved; use another one")
    _encode(key, depth, room)


def plain_value(member: Enum) -> object:
    """Return the value of *member* of an enum; raise `MisfitError` if it cannot stand for the member in JSON."""
    if isinstance(member, Flag):
        name = type(member).__name__
        raise MisfitError("", f"is a member of the flag `{name}`; keep a frozenset of members of an `Enum`")
    if type(cast("object", member.value)) not in SCALARS:
        raise MisfitError("", f"is a member of `{type(member).__name__}` whose value is not plain")
    return cast("object", member.value)


@cache
def _form_of(kind: type[object]) -> tuple[dict[str, Json], tuple[str, ...], int]:
    """Return the head (`$` and the class name) of JSON of *kind*, its field names, and the bytes for these."""
    names = names_in_order(kind)
    if names is None:
        instead = _INSTEAD.get(kind, "which cannot be stored; keep frozen attrs classes of plain values")
        raise MisfitError("", f"is {one(kind)}, {instead}")
    untagged = issubclass(kind, Value) and kind.__struct_config__.tag is None
    head: dict[str, Json] = {} if untagged else {TAG: kind.__name__}
    return head, names, len(to_text(head)) + sum(len(name) + 3 for name in names)


def names_in_order(kind: object) -> tuple[str, ...] | None:
    """Return the field names of a frozen class or named tuple, in the order of its arguments; `None` for other types.

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
    names: object = getattr(cast("object", cls), "_fields", None)
    return cast("tuple[str, ...] | None", names) if issubclass(cls, tuple) else None


V = TypeVar("V", bound=Value)

_HOLDERS: Final[Mapping[type[object], str]] = {
    State: "plugin_states",
    Ruling: "states",
    Change: "plugin_states",
    ChangedStates: "put",
}
"""The field that is or holds plugin states, by class. Of other classes, the fields that hold such a value have them."""

Known: TypeAlias = dict[int, dict[str, Json]]
"""What plugin states were made to in one value, by their ids: a record has a state that changes twice."""


@cache
def _holding(cls: type[Value]) -> tuple[str, ...]:
    """Return the names of the fields of *cls* that contain plugin states, directly or in a value."""
    if cls in _HOLDERS:
        return (_HOLDERS[cls],)
    return tuple([field.name for field in msgspec.structs.fields(cls) if _names_holder(field.type)])


def _names_holder(hint: object) -> bool:
    """Whether *hint* contains a class whose values hold plugin states."""
    return any(hint is cls for cls in _HOLDERS) or any(map(_names_holder, get_args(hint)))


def with_states_as_json(value: V) -> V:
    """Return a copy of *value* in which each plugin state is replaced by the JSON that stores it.

    They are in a state, a ruling or a change, or in these as fields of a record.
    """
    encoded: Known = {}
    if type(value) in _HOLDERS:
        return _holder_as_json(value, encoded)
    changes: dict[str, object] = {}
    name = ""
    try:
        for name in _holding(type(value)):
            old: object = getattr(value, name)
            new = old
            if type(old) in _HOLDERS:
                new = _holder_as_json(cast("Value", old), encoded)
            elif type(old) is tuple:
                new = _rulings_as_json(cast("tuple[object, ...]", old), encoded)
            if new is not old:
                changes[name] = new
    except MisfitError as misfit:
        misfit.under(f".{name}")
        raise
    return value.but(**changes) if changes else value


def _holder_as_json(value: V, encoded: Known) -> V:
    """Return *value*, of a class in `_HOLDERS`, with its plugin states replaced by JSON."""
    name = _HOLDERS[type(value)]
    part: object = getattr(value, name)
    if not part or part is NO_CHANGE:
        return value
    try:
        if type(part) is ChangedStates:
            return value.but(**{name: _holder_as_json(part, encoded)})
        if type(part) is tuple:
            states = _states_as_json(cast("tuple[object, ...]", part), encoded, alone=isinstance(value, State))
            return value.but(**{name: states})
    except MisfitError as misfit:
        misfit.under(f".{name}")
        raise
    return value


def _states_as_json(states_: tuple[object, ...], encoded: Known, *, alone: bool) -> tuple[object, ...]:
    """Return the JSON of *states_*; each stands *alone*, or in a pair after the index of its plugin."""
    new_states: list[object] = []
    try:
        for item in states_:
            if alone:
                new_states.append(_cached_state_json(item, encoded))
            else:
                attached, state = cast("tuple[int, object]", item)
                new_states.append((attached, _cached_state_json(state, encoded)))
    except MisfitError as misfit:
        misfit.under(f"[{len(new_states)}]" if alone else f"[{len(new_states)}][1]")
        raise
    return tuple(new_states)


def _rulings_as_json(rulings: tuple[object, ...], encoded: Known) -> tuple[object, ...]:
    """Return *rulings* with the states in them replaced by JSON; itself if there are none, the usual case."""
    if _RULINGS.issuperset(map(type, rulings)) and not any(map(_states, rulings)):
        return rulings
    new_rulings: list[object] = []
    try:
        new_rulings.extend(_holder_as_json(item, encoded) if type(item) is Ruling else item for item in rulings)
    except MisfitError as misfit:
        misfit.under(f"[{len(new_rulings)}]")
        raise
    return tuple(new_rulings)


_RULINGS: Final = frozenset[type]({Ruling})
_states: Final = attrgetter(_HOLDERS[Ruling])


def _cached_state_json(state: object, encoded: Known) -> dict[str, Json]:
    """Return the JSON object that stores *state*, cached in *encoded*."""
    data = encoded.get(id(state))
    if data is None:
        data = encoded[id(state)] = state_json(state)
    return data
