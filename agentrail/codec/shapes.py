"""Shapes: type hints reduced to what decides the JSON form of their values; readers and writers are made from them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum, Flag
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Final, Literal, NamedTuple, NewType, TypeAlias, TypeVar, Union, cast, get_args, get_origin

from msgspec import UnsetType

from agentrail.codec.hints import PluginState, is_class
from agentrail.codec.misfit import MisfitError, one
from agentrail.codec.states import SCALARS
from agentrail.core.vocabulary.tool_calls import Call, CallList
from agentrail.errors import AgentrailError
from agentrail.hooks.moments import HOOKS, Hook
from agentrail.values.events import EVENTS
from agentrail.values.events.envelope import Event
from agentrail.values.json import Json, JsonObject
from agentrail.values.messages import History, Message


class Leaf(Enum):
    """A value whose parts, if any, are not described by a type hint."""

    NOTHING = "nothing"
    BOOL = "a boolean"
    INT = "a whole number"
    FLOAT = "a number"
    TEXT = "text"
    JSON = "JSON"
    OBJECT = "a JSON object"
    STATE = "the state of a plugin"
    ERROR = "an error"
    UNSET = "nothing that is written"


class Chosen(NamedTuple):
    """One of a few values: the members of an enumeration, or literals."""

    name: str
    """Name of the enumeration, or the literal type as text, for errors."""
    options: tuple[tuple[object, object], ...]
    """Pairs of a value in JSON and the Python value it stands for."""


class Items(NamedTuple):
    """Any number of items of one type, as a JSON array."""

    container: type[object]
    """Class of the whole: `tuple`, `frozenset`, or one of `SEQUENCES`."""
    item: object
    """Type hint of an item."""


class Row(NamedTuple):
    """A tuple of fixed length, as a JSON array."""

    items: tuple[object, ...]
    """Type hint of each item."""


class Table(NamedTuple):
    """A mapping with text keys, as a JSON object."""

    item: object
    """Type hint of the values."""


class Instance(NamedTuple):
    """An instance of one class, as a JSON object with its fields."""

    cls: type[object]
    """The class."""


class Choice(NamedTuple):
    """One of several shapes (a union)."""

    shapes: tuple[Shape, ...]
    """The shapes, without that of `None`."""
    optional: bool
    """Whether `None` is allowed too."""

    @property
    def tagged(self) -> bool:
        """Whether an instance must name its class in the JSON, since several shapes are JSON objects."""
        return sum(isinstance(shape, Instance | Table) or shape is Leaf.OBJECT for shape in self.shapes) > 1


Shape: TypeAlias = Leaf | Chosen | Items | Row | Table | Instance | Choice

SEQUENCES: Final = (History, CallList)
"""Our own sequence classes, which are arrays in JSON."""

FAMILIES: Final[Mapping[object, tuple[type[object], ...]]] = {Event: EVENTS, Hook: HOOKS}
"""Base classes which, as a type hint, mean the union of these subclasses."""

_LEAVES: Final[Mapping[object, Leaf]] = {
    None: Leaf.NOTHING,
    NoneType: Leaf.NOTHING,
    bool: Leaf.BOOL,
    int: Leaf.INT,
    float: Leaf.FLOAT,
    str: Leaf.TEXT,
    Json: Leaf.JSON,
    JsonObject: Leaf.OBJECT,
    PluginState: Leaf.STATE,
    AgentrailError: Leaf.ERROR,
    UnsetType: Leaf.UNSET,
}

_ARRAYS: Final[Mapping[object, type[object]]] = {
    tuple: tuple,
    Sequence: tuple,
    Collection: tuple,
    Iterable: tuple,
    frozenset: frozenset,
    AbstractSet: frozenset,
}
_OBJECTS: Final[frozenset[object]] = frozenset({Mapping, MappingProxyType})
_CHANGING: Final[Mapping[object, str]] = {list: "tuple", set: "frozenset", dict: "Mapping"}


def shape_of(hint: object) -> Shape:
    """Return the shape of *hint*, a resolved type hint; raise `MisfitError` if its values could not be read back."""
    hint = _unwrapped(hint)
    leaf = _LEAVES.get(hint) if isinstance(hint, type | NewType | None) else None
    if leaf is not None:
        return leaf
    origin = cast("object", get_origin(hint)) or hint
    if origin is Union or origin is UnionType:
        return _choice(shape_of(member) for member in get_args(hint))
    if origin is Literal:
        return _literals(get_args(hint))
    if hint is History:
        return Items(History, Message)
    if hint is CallList:
        return Items(CallList, Call)
    if hint in FAMILIES:
        return Choice(tuple(Instance(cls) for cls in FAMILIES[hint]), optional=False)
    if is_class(origin):
        return Instance(cast("type[object]", origin))
    members = _members(hint)
    return _container(hint, origin, get_args(hint)) if members is None else members


def named(shape: Shape) -> str:
    """Return a name for values of *shape*, such as "text" or "an array", for an error message."""
    match shape:
        case Leaf():
            return shape.value
        case Chosen():
            return f"one of `{shape.name}`"
        case Instance():
            return one(shape.cls)
        case Items() | Row():
            return "an array"
        case Table():
            return "an object"
        case Choice():
            shown = [named(each) for each in shape.shapes[:3]]
            return " or ".join(shown) + (" or another" if len(shape.shapes) > len(shown) else "")


def _unwrapped(hint: object) -> object:
    """Return the hint inside `Annotated`, `NewType`, a type variable or a type alias, or *hint* itself."""
    while True:
        if get_origin(hint) is Annotated:
            hint = cast("object", getattr(hint, "__origin__", object))
        elif isinstance(hint, NewType) and hint not in _LEAVES:
            hint = cast("object", hint.__supertype__)
        elif isinstance(hint, TypeVar):
            hint = cast("object", hint.__bound__) or object
        elif type(hint).__name__ == "TypeAliasType":  # of `typing` or of `typing_extensions`
            hint = cast("object", getattr(hint, "__value__", object))
        else:
            return hint


def _choice(members: Iterable[Shape]) -> Shape:
    flat: list[Shape] = []
    for member in members:
        if member is Leaf.UNSET:
            continue  # a field that is `UNSET` is never written
        if isinstance(member, Choice):
            flat.extend(member.shapes)
            flat.extend([Leaf.NOTHING] if member.optional else [])
        else:
            flat.append(member)
    shapes = tuple(dict.fromkeys(shape for shape in flat if shape is not Leaf.NOTHING))
    if shapes == (Leaf.JSON,):
        return Leaf.JSON
    optional = Leaf.NOTHING in flat
    return Choice(shapes, optional) if optional or len(shapes) != 1 else shapes[0]


def _members(hint: object) -> Chosen | None:
    if not isinstance(hint, type) or not issubclass(hint, Enum):
        return None
    if any(type(member.value) not in SCALARS for member in hint) or issubclass(hint, Flag):
        raise MisfitError("", f"is hinted `{hint.__name__}`, whose members do not each have a plain value")
    return Chosen(hint.__name__, tuple((member.value, member) for member in hint))


def _literals(values: tuple[object, ...]) -> Chosen:
    pairs = tuple((value.value if isinstance(value, Enum) else value, value) for value in values)
    return Chosen(f"Literal[{', '.join(repr(plain) for plain, _ in pairs)}]", pairs)


def _container(hint: object, origin: object, inside: Sequence[object]) -> Shape:
    container = _ARRAYS.get(origin)
    if origin is tuple and hint is not tuple and Ellipsis not in inside:
        return Row(tuple(inside))
    if container is not None and inside:
        return Items(container, inside[0])
    if origin in _OBJECTS and inside and shape_of(inside[0]) is Leaf.TEXT:
        return Leaf.OBJECT if shape_of(inside[1]) is Leaf.JSON else Table(inside[1])
    shown = getattr(hint, "__name__", None) or str(hint)
    if origin in _CHANGING:
        raise MisfitError("", f"is hinted `{shown}`, which can change; say `{_CHANGING[origin]}`")
    raise MisfitError("", f"is hinted `{shown}`, which cannot be read back; give a more exact type, or `Json`")
