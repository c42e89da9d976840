"""Frozen JSON: it cannot change between a plugin's decision about it and its use."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress, islice
from operator import not_
from typing import TYPE_CHECKING, Final, NewType, NoReturn, TypeAlias, cast

from agentrail.errors import NotJson
from agentrail.values.untrusted_values import brief, described, items_of, pass_interrupt, type_name

if TYPE_CHECKING:
    Json: TypeAlias = "Mapping[str, Json] | Sequence[Json] | str | int | float | bool | None"
    """A JSON value, frozen: an object, a list, a text, a number, a boolean or `None`."""
    JsonObject: TypeAlias = "Mapping[str, Json]"
    """A JSON object, frozen."""
else:  # a recursive alias needs its name as text, which could not be resolved where annotations are read at run time
    Json = NewType("Json", object)

MAX_DEPTH = 64
MAX_ITEMS: Final = 10_000
"""The most items that one value may have, nested ones included; writing more would block the event loop too long."""
TOO_DEEP: Final = f"more than {MAX_DEPTH} levels"
TOO_MANY: Final = f"more than {MAX_ITEMS} items"
INT_MIN = -(2**63)
INT_MAX = 2**64 - 1

_LEAVES: Final = frozenset({str, int, float, bool, type(None)})
"""Types of JSON values without parts."""


def _refuse(*_: object, **__: object) -> NoReturn:
    message = "this JSON is frozen: build a new value instead of changing it"
    raise TypeError(message)


class FrozenObject(dict[str, Json]):
    """A JSON object that cannot be changed; it iterates and encodes like a `dict`.

    Two are equal if they are the same JSON: unlike a `dict`, it tells 1, 1.0 and `True` apart, as tools do.
    """

    __slots__ = ("comes_back", "measure", "written")
    comes_back: bool  # set once the object was read back from its own JSON and was equal
    measure: tuple[int, int]  # number of items and levels, nested ones included; counted at first use
    written: str  # its canonical JSON text; set by `canonical_once`
    __setitem__ = __delitem__ = _refuse
    clear = pop = popitem = setdefault = update = __ior__ = _refuse

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        is_equal = super().__eq__(other)
        return _have_same_types(self, cast("Mapping[str, Json]", other)) if is_equal is True else is_equal

    def __ne__(self, other: object) -> bool:
        is_equal = self.__eq__(other)
        return is_equal if is_equal is NotImplemented else not is_equal

    def __reduce__(self) -> tuple[object, ...]:
        return FrozenObject, (dict(self),)

    def __hash__(self) -> int:  # type: ignore[override]  # a frozen mapping may be a key
        return hash(tuple(sorted(self)))


if not TYPE_CHECKING:
    JsonObject = FrozenObject  # the class of which msgspec, which reads annotations at run time, is to make an object

EMPTY: JsonObject = FrozenObject()

_WITH_PARTS: Final = (FrozenObject, tuple, Mapping)
"""Classes of JSON values with parts. A tuple, as a union would be slower."""


def freeze(value: object, path: str = "$", depth: int = 0, budget: list[int] | None = None) -> Json:
    """Return *value* as frozen JSON; raise `NotJson`, with the path, if it holds something that JSON cannot.

    *path*, *depth* and *budget* are for nested values: their path, their level, and the number of items still allowed,
    which every nested value reduces.
    """
    if type(value) is str:
        return value if value.isascii() else _text(value, path)
    kind = type(value)
    if kind is FrozenObject:  # before the rarer types, for speed
        _fit_frozen(cast("FrozenObject", value), path, depth + 1, [MAX_ITEMS] if budget is None else budget)
        return cast("FrozenObject", value)
    if value is None or kind is bool:
        return value  # type: ignore[return-value]  # its type was just tested
    if kind is int:
        if not INT_MIN <= value <= INT_MAX:  # type: ignore[operator]  # its type was just tested
            raise NotJson(path, "a whole number that does not fit 64 bits")
        return value  # type: ignore[return-value]  # its type was just tested
    if issubclass(kind, float):
        plain = float.__float__(cast("float", value))
        if not math.isfinite(plain):
            raise NotJson(path, f"the number {plain}")
        return plain
    return _freeze_container(value, path, depth + 1, [MAX_ITEMS] if budget is None else budget)


def _freeze_container(value: object, path: str, depth: int, budget: list[int]) -> Json:
    if depth > MAX_DEPTH:
        raise NotJson(path, TOO_DEEP)
    kind = type(value)
    if issubclass(kind, FrozenObject):
        _fit_frozen(cast("FrozenObject", value), path, depth, budget)
        return cast("FrozenObject", value)
    listed = kind is list or kind is tuple  # the usual classes first, because `isinstance` with `Mapping` is slow
    if kind is dict or (not listed and issubclass(kind, Mapping)):
        items_: dict[str, Json] = {}
        for key, item in _pairs(cast("Mapping[object, object]", value), path, budget):
            name = key if type(key) is str and key.isascii() else _key(key, path)
            if item is True or item is False or item is None or (type(item) is str and item.isascii()):
                items_[name] = item  # inlined for speed
            elif type(item) is int and INT_MIN <= item <= INT_MAX:
                items_[name] = item
            else:
                items_[name] = freeze(item, f"{path}.{name}", depth, budget)
        return FrozenObject(items_)
    if listed or issubclass(kind, (list, tuple)):  # a tuple: a union would be built at each call
        items = tuple(items_of(cast("list[object] | tuple[object, ...]", value)))
        if not items:
            return ()
        _spend_items(len(items), path, budget)
        return tuple([freeze(item, f"{path}[{index}]", depth, budget) for index, item in enumerate(items)])
    if issubclass(kind, str | int):
        raise NotJson(path, f"a `{type_name(value)}`, a subclass that would be read back as its base class")
    raise NotJson(path, f"a `{type_name(value)}`")


def _pairs(mapping: Mapping[object, object], path: str, budget: list[int]) -> list[tuple[object, object]]:
    """Return the pairs of *value*, a mapping; raise `NotJson` if its code raises, or it has too many pairs."""
    kind: type = type(mapping)
    if kind is dict:
        _spend_items(len(mapping), path, budget)
        return [*mapping.items()]
    try:
        pairs = [(key, item) for key, item in islice(mapping.items(), budget[0] + 1)]
    except BaseException as error:  # noqa: BLE001 - the mapping's own code may raise anything
        pass_interrupt(error)
        raise NotJson(path, f"a `{type_name(mapping)}` that cannot be read: {described(error)}") from None  # noqa: ASYNC104 - it is reported
    _spend_items(len(pairs), path, budget)
    return pairs


def _spend_items(count: int, path: str, budget: list[int]) -> None:
    budget[0] -= count
    if budget[0] < 0:
        raise NotJson(path, TOO_MANY)


def _fit_frozen(frozen: FrozenObject, path: str, depth: int, budget: list[int]) -> None:
    """Raise `NotJson` if *frozen*, as a part of a larger value at level *depth*, has too many levels or items."""
    items = frozen.values()
    if _LEAVES.issuperset(map(type, items)):  # if no item has parts, it is enough to count the items
        _spend_items(len(items), path, budget)
        return
    try:
        count, levels = frozen.measure
    except AttributeError:
        old_budget = budget[0]
        levels = _fit_parts(frozen, path, depth, budget)
        frozen.measure = old_budget - budget[0], levels  # its parts are checked, and cannot change
        return
    if depth + levels - 1 > MAX_DEPTH:
        raise NotJson(path, TOO_DEEP)
    _spend_items(count, path, budget)


def _fit_parts(frozen: FrozenObject, path: str, depth: int, budget: list[int]) -> int:
    """Return the number of levels of *frozen*; raise `NotJson` if it has too many levels or items."""
    levels, items_left = 0, budget[0]
    parts: list[Mapping[str, Json] | tuple[Json, ...]] = [frozen]
    while parts:
        if depth + levels > MAX_DEPTH:
            raise NotJson(path, TOO_DEEP)
        levels += 1
        below: list[Mapping[str, Json] | tuple[Json, ...]] = []
        for part in parts:
            items = part if isinstance(part, tuple) else part.values()
            items_left -= len(items)
            if items_left < 0:
                raise NotJson(path, TOO_MANY)
            if not _LEAVES.issuperset(map(type, items)):
                others = compress(items, map(not_, map(_LEAVES.__contains__, map(type, items))))
                below += [item for item in others if isinstance(item, _WITH_PARTS)]
        parts = below
    budget[0] = items_left
    return levels


def freeze_object(value: object, budget: list[int] | None = None) -> JsonObject:
    """Return *value* as a frozen JSON object; raise `NotJson` if it is not one."""
    if type(value) is FrozenObject:
        if value:
            _fit_frozen(value, "$", 1, [MAX_ITEMS] if budget is None else budget)
        return value
    frozen = freeze(value, budget=budget)
    if not isinstance(frozen, FrozenObject):
        raise NotJson("$", f"a `{type(value).__name__}` where an object is wanted")
    return frozen


def thaw(frozen: Json) -> object:
    """Return *frozen* as plain dicts and lists, which the caller may change."""
    if type(frozen) in _LEAVES:
        return frozen
    if isinstance(frozen, (FrozenObject, Mapping)):
        return {key: item if type(item) in _LEAVES else thaw(item) for key, item in frozen.items()}
    if isinstance(frozen, tuple | list):
        return [thaw(item) for item in frozen]
    return frozen


def weight(frozen: Json) -> int:
    """Return the approximate length of *frozen* as text, without writing it."""
    if type(frozen) is str:
        return len(frozen) + 3
    if type(frozen) in _LEAVES:
        return 6
    total = 2
    if isinstance(frozen, FrozenObject):
        for key, item in frozen.items():
            total += len(key) + 4 + (len(item) + 3 if type(item) is str else weight(item))
    elif isinstance(frozen, tuple):
        for item in frozen:
            total += 1 + weight(item)
    return total


def excess(frozen: JsonObject, chars: int, items: int) -> str | None:
    """Return text that tells if *frozen* has more than *items* keys and list items, or *chars* characters; else `None`.

    It stops counting once there are too many items.
    """
    counted = chars_ = 0
    todo: list[Mapping[str, Json] | Sequence[Json]] = [frozen]
    for container in todo:  # `todo` grows inside the loop
        counted += len(container)
        if counted > items:
            return f"have more than {items} keys and items"
        if isinstance(container, FrozenObject):
            chars_ += sum(map(len, container))
            values: Iterable[Json] = container.values()
        else:
            values = cast("Sequence[Json]", container)
        for item in values:
            if type(item) is str:
                chars_ += len(item)
            elif isinstance(item, (FrozenObject, tuple)):  # a tuple: `FrozenObject | tuple` would be built at each call
                todo.append(item)
    return f"have more than {chars} characters" if chars_ > chars else None


_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
"""Encoder made once: `json.dumps` makes a new one at each call with options."""


def canonical(frozen: Json) -> str:
    """Return *frozen* as JSON text in one fixed form: sorted keys, no spaces."""
    return _CANONICAL.encode(frozen)


def canonical_once(frozen: JsonObject) -> str:
    """Return what `canonical` returns, cached in the object: for schemas, whose text is needed often."""
    if type(frozen) is not FrozenObject:
        return canonical(frozen)
    try:
        return frozen.written
    except AttributeError:
        frozen.written = text = canonical(frozen)
        return text


def is_same(value: Json, twin: Json) -> bool:
    """Whether *value* and *twin* are the same JSON.

    Python's `==` of lists and numbers does not tell: it takes 1, 1.0 and `True` as equal.
    """
    return value is twin or (value == twin and _has_same_type(value, twin))


def _have_same_types(value: Mapping[str, Json], twin: Mapping[str, Json]) -> bool:
    """Whether the values of two equal objects are of the same types."""
    return all(_has_same_type(part, twin[key]) for key, part in value.items())


def _has_same_type(value: object, twin: object) -> bool:
    """Whether two equal values are of the same JSON type, with all their parts."""
    kind = type(value)
    if kind is str or value is twin or kind is FrozenObject:  # equal frozen objects have compared their own parts
        return True
    if isinstance(value, tuple | list):
        return all(map(_has_same_type, cast("Sequence[object]", value), cast("Sequence[object]", twin)))
    if isinstance(value, Mapping):
        return _have_same_types(cast("Mapping[str, Json]", value), cast("Mapping[str, Json]", twin))
    return kind is type(twin) and (kind is not float or math.copysign(1, value) == math.copysign(1, twin))  # type: ignore[arg-type]  # its type was just tested


def _key(key: object, path: str) -> str:
    if type(key) is not str:
        raise NotJson(path, f"the key {brief(key)}, which is not text")
    return key if key.isascii() else _text(key, path)


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as why:
        raise NotJson(path, "text with half a surrogate pair") from why
    return value
