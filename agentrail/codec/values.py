"""Entry functions of the codec: values of ours to JSON and back, by msgspec, strictly: nothing is coerced or guessed.

msgspec checks what it reads and nothing of what it writes. So `write` reads back what it wrote, and refuses a value
that does not come back equal. A JSON object names its class, under `$`, if the class is a member of a union.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from types import MappingProxyType
from typing import Final, NoReturn, TypeAlias, TypeVar, Union, cast, overload

import msgspec

from agentrail.codec.decode_error import MisfitError, blemish, describe, misfit_of, one
from agentrail.codec.json_text import DOCUMENT_DEPTH, NESTED, check_levels, from_own_text, frozen, with_tuples
from agentrail.codec.plugin_states import FROZENSET, Stored, with_states_as_json
from agentrail.codec.versions import with_known_event
from agentrail.core.vocabulary.changes import ChangedStates, ChangedTools
from agentrail.core.vocabulary.inputs import SubagentReported
from agentrail.core.vocabulary.state import AttachedTool, State, Suspension
from agentrail.core.vocabulary.tool_calls import Call, CallList
from agentrail.errors import BadData, BadText, BadValue
from agentrail.hooks.hook_types import HOOKS, BeforeCompaction, BeforeRequest, Hook
from agentrail.hooks.ruling import Decisions, Ruling
from agentrail.values.events import AnyEvent
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.events.tools import SubAgentEvent
from agentrail.values.json import MAX_DEPTH, FrozenObject, Json
from agentrail.values.messages import History, Message
from agentrail.values.personal import Kept, Personal
from agentrail.values.value import Value, learned

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


class _Anything(type):
    def __instancecheck__(cls, _: object) -> bool:
        return True


class PluginState(metaclass=_Anything):
    """Type hint for the state of a plugin, which may be of any class; msgspec calls the hook for it."""


FAMILIES: Final[Mapping[object, object]] = {Event: AnyEvent, Hook: Union[HOOKS]}  # noqa: UP007 - `|` takes no tuple
"""Base classes which, as a type hint, mean the union of their subclasses."""

_TOOLS: Final = MappingProxyType[str, AttachedTool]

CLOSER: Final[Mapping[tuple[type[object], str], object]] = {
    (Envelope, "event"): AnyEvent,
    (SubAgentEvent, "event"): AnyEvent,
    (SubagentReported, "events"): tuple[AnyEvent, ...],
    (Decisions, "emits"): tuple[AnyEvent, ...],
    (Ruling, "errors"): tuple[AnyEvent, ...],
    (Ruling, "states"): Personal[tuple[tuple[int, PluginState], ...]],
    (Suspension, "hook"): FAMILIES[Hook],
    (BeforeRequest, "messages"): History,
    (BeforeCompaction, "messages"): History,
    (State, "plugin_states"): Personal[tuple[PluginState, ...]],
    (State, "tools"): Kept[MappingProxyType[str, AttachedTool]],
    (ChangedStates, "put"): Personal[tuple[tuple[int, PluginState], ...]],
    (ChangedTools, "put"): Kept[MappingProxyType[str, AttachedTool]],
}
"""Type hints of fields whose annotation names a base class, or allows more than the field holds.

msgspec reads hints from the annotations alone, so these take their place: see the loop below.
"""

for (_owner, _name), _hint in CLOSER.items():
    _owner.__annotations__[_name] = _hint


# Writing


def write(value: object) -> bytes:
    """Return *value* as JSON text from which `read` makes an equal value; raise `BadValue` if that is not possible."""
    try:
        plain = with_states_as_json(value) if isinstance(value, Value) else _refuse(value)
        try:
            text = _encode(plain)
            back = decoder(type(plain), _alike).decode(text)
        except (ValueError, TypeError) as why:
            _check_leaves(plain)
            raise misfit_of(why) from why
        if back != plain:
            check_same(plain, decoder(type(plain), _compare_hook).decode(text))
        shape = text.translate(_SHAPE)
        if shape.find(_WIDE) >= 0 and _WHOLE.search(text):
            _check_leaves(plain)
        if shape.count(b"[") > DOCUMENT_DEPTH:
            check_levels(text)
    except MisfitError as misfit:
        raise BadValue(type(value).__name__, misfit.subject, misfit.problem) from misfit.__cause__
    except RecursionError:
        raise BadValue(type(value).__name__, "it", "is nested too deep") from None
    return text


def _refuse(value: object) -> NoReturn:
    path = ""
    raise MisfitError(path, f"is {one(type(value))}, which JSON cannot hold")


def encode_in_order(value: Value) -> bytes:
    """Return *value* as JSON text with sets and keys in order, so that equal values have equal texts."""
    return _IN_ORDER.encode(with_states_as_json(value))


_SHAPE: Final = bytes.maketrans(b"123456789{", b"000000000[")
"""Makes each digit a 0, and each bracket that begins something the same."""

_WIDE: Final = b"0" * 19
"""Stands in a text whose digits are all 0, if a whole number in it may need more than 64 bits: msgspec takes any."""

_WHOLE: Final = re.compile(rb"(?<![.\d])\d{19}")
"""Finds such a number, or a text that looks like one, and no fraction: one below 0.01 mostly has as many digits."""


def _plain(value: object) -> object:
    """Return *value*, of a class that msgspec does not know, as a list or `dict`; raise `TypeError` for others."""
    if isinstance(value, History | CallList):
        return list(value)
    dictionary = _dictionary(value)
    if dictionary is None:
        raise TypeError(type(value).__name__)
    return dictionary


_encode: Final = msgspec.json.Encoder(enc_hook=_plain).encode
_IN_ORDER: Final = msgspec.json.Encoder(enc_hook=_plain, order="sorted")


def _dictionary(value: object) -> dict[object, object] | None:
    """Return *value* as a `dict` if it is one or its proxy; otherwise `None`, as other mappings may never end."""
    mapping = value
    if isinstance(value, MappingProxyType):
        try:
            mapping = cast("object", cast("MappingProxyType[object, object]", value) | {})
        except TypeError:
            return None
    return cast("dict[object, object]", mapping) if isinstance(mapping, dict) else None


# Methods of the built-in classes, because an overridden iterator may never end
_items = cast("Callable[[object], Iterable[tuple[object, object]]]", vars(dict)["items"])
_in_tuple = cast("Callable[[object], Iterator[object]]", vars(tuple)["__iter__"])
_in_set = cast("Callable[[object], Iterator[object]]", vars(frozenset)["__iter__"])


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield path and value of each leaf in *value*; for each container, its length and its keys."""
    parts = _parts(value)
    if parts is None:
        yield path, value
        return
    yield path, len(parts)
    for inner, item in parts:
        yield from _leaves(item, path + inner)


def _parts(value: object) -> Sequence[tuple[str, object]] | None:
    """Return the parts of *value* with their paths; `None` if it is no container, or its iteration may never end."""
    if isinstance(value, Value):
        return [(f".{name}", getattr(value, name)) for name in value.__struct_fields__]
    if isinstance(value, History | CallList):
        return [(f"[{index}]", item) for index, item in enumerate(cast("Sequence[object]", value))]
    if isinstance(value, tuple):
        return [(f"[{index}]", item) for index, item in enumerate(_in_tuple(cast("object", value)))]
    if isinstance(value, frozenset):
        return [("[]", item) for item in sorted(_in_set(cast("object", value)), key=repr)]
    dictionary = _dictionary(value)
    if dictionary is None:
        return None
    return [(f"[{key!a:.60}]", leaf) for key, item in _items(dictionary) for leaf in (key, item)]


def check_same(value: object, back: object) -> None:
    """Raise `MisfitError` for the first difference between *value* and *back*, which was read from the JSON of *value*.

    A sequence of messages may be a tuple, and comes back as `History`; so classes of containers may differ.
    """
    for (path, leaf), (other_path, other) in zip_longest(_leaves(value), _leaves(back), fillvalue=("", None)):
        if path != other_path or leaf != other:
            raise MisfitError(path, blemish(leaf) or f"{describe(leaf)}, and does not come back from JSON as it was")


def _check_leaves(value: Value) -> None:
    for path, leaf in _leaves(value):
        if problem := blemish(leaf):
            raise MisfitError(path, problem)


# Reading


def read(type_: type[T], text: bytes) -> T:
    """Return the value of class *type_* in *text*, which `write` wrote; raise `BadData` if it cannot be read."""
    try:
        return cast("T", decoder(cast("object", type_)).decode(text))
    except (ValueError, RecursionError, MisfitError):
        return decode(type_, from_own_text(text))  # the slower way reads events of newer versions, and words the error


@overload
def decode(type_: type[T], data: object) -> T: ...
@overload
def decode(type_: object, data: object) -> object: ...
def decode(type_: object, data: object) -> object:
    """Make a value of the class or union *type_* from JSON *data*; raise `BadData` if that is not possible.

    Plugin states in *data* become `Stored`, which `revive` converts to the plugin's class. An event of a class that
    this version does not know becomes `UnknownEvent`.
    """
    named = type_.__name__ if isinstance(type_, type) else str(type_)
    try:
        return convert(type_, data)
    except MisfitError as misfit:
        raise BadData(named, misfit.subject, misfit.problem) from misfit.__cause__
    except RecursionError:
        raise BadData(named, "it", "is nested too deep") from None


def decode_of_host(type_: type[T], data: object) -> T:
    """Do as `decode` with JSON *data* of another host, which may be newer: fields that are not known are left out."""
    try:
        return decode(type_, data)
    except BadData:
        from agentrail.codec.newer_fields import without_newer_fields  # noqa: PLC0415 - only for newer hosts

        return decode(type_, without_newer_fields(FAMILIES.get(type_, type_), frozen(data, DOCUMENT_DEPTH)))


def read_of_host(type_: type[T], text: bytes) -> T:
    """Do as `read` with the text of another host, which may be newer: fields that are not known are left out."""
    try:
        return cast("T", decoder(cast("object", type_)).decode(text))
    except (ValueError, RecursionError, MisfitError):
        try:
            return decode_of_host(type_, from_own_text(text))
        except BadText as why:
            raise BadData(type_.__name__, "it", "is no JSON") from why


def convert(type_: object, data: object) -> object:
    """Make a value of the class or union *type_* from JSON *data*; raise `MisfitError` if that is not possible."""
    json: Json = data if type(data) is FrozenObject else frozen(data, DOCUMENT_DEPTH)
    while True:
        try:
            return msgspec.convert(json, learned(FAMILIES.get(type_, type_)), dec_hook=_decode_hook)
        except msgspec.ValidationError as why:
            with_events = with_known_event(json, str(why))
            if with_events is None:
                raise misfit_of(why) from why.__cause__
            json = with_events


_OBJECTS: Final = frozenset[object]({dict, FrozenObject})


def _decode_hook(hint: object, value: object) -> object:
    """Return the value for *value* in JSON; msgspec calls it for each *hint* that it does not know."""
    if hint is PluginState:
        return _state(value)
    if hint is object or (hint is FrozenObject and type(value) in _OBJECTS):
        return frozen(value)
    return _container(hint, value, _decode_hook)


class _Alike(FrozenObject):
    """A JSON object just written and read back; it is compared once with the original, which remembers that."""

    __hash__ = FrozenObject.__hash__

    def __eq__(self, value: object) -> bool:
        if type(value) is FrozenObject and hasattr(value, "comes_back"):
            return True
        same = with_tuples(dict(self)) == value
        if same and type(value) is FrozenObject:
            value.comes_back = True
        return same


def _alike(hint: object, value: object) -> object:
    """Return the value to compare with the original, as `_compare_hook`; JSON objects written again are compared once.

    The JSON of one object that is written again and again, such as a schema, is compared once.
    """
    if hint is PluginState:
        return value
    if hint is FrozenObject and type(value) is dict:
        members = cast("dict[str, Json]", value)
        return FrozenObject(members) if NESTED.isdisjoint(map(type, members.values())) else _Alike(members)
    if hint is object:
        return with_tuples(value)
    return _container(hint, value, _alike)


def _compare_hook(hint: object, value: object) -> object:
    """Return the value for *value* in JSON that was just written, to be compared with the original.

    Plugin states stay JSON, and JSON is not checked again.
    """
    if hint is PluginState:
        return value
    if hint is FrozenObject and type(value) in _OBJECTS:
        return FrozenObject(cast("Mapping[str, Json]", with_tuples(value)))
    if hint is object:
        return with_tuples(value)
    return _container(hint, value, _compare_hook)


def _container(hint: object, value: object, make: Make) -> object:
    """Return *value* as the container that *hint* names; *make* converts the values in it."""
    if hint is History:
        return History(_convert_with(_Messages, value, make).messages)
    if hint is CallList:
        return CallList(_convert_with(_Calls, value, make).calls)
    if hint == _TOOLS:
        return MappingProxyType(_convert_with(_Tools, value, make).tools)
    problem = f"{describe(value)} where a JSON object is wanted"
    raise ValueError(problem)


Make: TypeAlias = Callable[[object, object], object]
"""Returns the value that JSON stands for, by a type hint that msgspec does not know."""


class _Messages(msgspec.Struct, array_like=True):
    """A struct with a list of messages; msgspec caches what it knows of a class, but not of a plain container."""

    messages: list[Message]


class _Calls(msgspec.Struct, array_like=True):
    """A struct with a list of calls; see `_Messages`."""

    calls: list[Call]


class _Tools(msgspec.Struct, array_like=True):
    """A struct with a table of tools; see `_Messages`."""

    tools: dict[str, AttachedTool]


def _convert_with(holder: type[S], value: object, make: Make) -> S:
    """Return *value*, from JSON, as the field of a *holder*."""
    try:
        return msgspec.convert((value,), cast("type[S]", learned(holder)), dec_hook=make)
    except msgspec.ValidationError as why:  # not a `ValidationError`, so that msgspec adds the path up to here
        raise ValueError(str(why).replace("`$[0]", "`$", 1)) from None


def _state(value: object) -> object:
    """Return a plugin state from JSON: as `Stored`, or unchanged if it is plain data."""
    data = frozen(value, MAX_DEPTH + 1)
    stored = data if isinstance(data, Mapping) else None
    name = "" if stored is None else stored.get("class", "")
    if stored is None or "data" not in stored or not stored.keys() <= {"class", "data"} or type(name) is not str:
        problem = "is no state of a plugin: an object with `class`, a text, and `data`"
        raise ValueError(problem)
    content = stored["data"]
    if name == FROZENSET and isinstance(content, tuple):
        if len(set(content)) < len(content):
            problem = "holds the same thing twice"
            raise ValueError(problem)
        return frozenset(content)
    return Stored(name, content) if name else content


@cache
def _reader(cls: type[Value]) -> Callable[[bytes], object]:
    """Return the function that reads back a value of the class *cls*, and leaves plugin states as they are."""
    return decoder(cls, _compare_hook).decode


@cache
def decoder(type_: object, make: Make = _decode_hook) -> msgspec.json.Decoder[object]:
    """Return the decoder for the class or union *type_*, cached; *make* converts types that msgspec does not know."""
    return msgspec.json.Decoder(learned(type_), dec_hook=make)
