"""Shapes: type hints reduced to what decides the JSON form of their values, as an oracle beside msgspec and cattrs."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum, Flag
from types import MappingProxyType, NoneType, UnionType
from typing import (
    Annotated,
    Final,
    Literal,
    NamedTuple,
    NewType,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs
from msgspec import UnsetType

from agentrail.codec.decode_error import MisfitError
from agentrail.codec.plugin_states import SCALARS
from agentrail.codec.values import PluginState
from agentrail.core.vocabulary.tool_calls import Call, CallList
from agentrail.events import EVENTS, Event
from agentrail.hooks.hook_types import HOOKS
from agentrail.models import History, Json, JsonObject, Message
from agentrail.plugins import Hook
from agentrail.values.untrusted_values import names_of
from agentrail.values.value import Value, defaults_of

MISSING: Final = attrs.NOTHING
"""Stands for the default of a field without one."""


class Field(NamedTuple):
    """One field of a class."""

    name: str
    """Name of the field in JSON, which is that in the class but for fields that were renamed."""
    alias: str
    """Name of the field as an argument of the class."""
    hint: object
    """Type hint of the field, resolved."""
    default: object
    """Default of the field (possibly a factory, which is not called), or `MISSING` if the field is required."""


_PLAIN: Final[Mapping[str, type[object]]] = {"bool": bool, "float": float, "int": int, "str": str}
"""The most common annotations and their types: looked up here, which is faster than resolving them."""

OURS: Final[Mapping[str, object]] = {"Json": Json, "JsonObject": JsonObject, "Mapping": Mapping, "Sequence": Sequence}
"""Names that a class may use without importing them at run time."""


def is_class(kind: object) -> bool:
    """Whether *kind* is a class whose instances are written field by field."""
    if not isinstance(kind, type):
        return False
    cls = cast("type[object]", kind)
    return names_of(cls) is not None or (issubclass(cls, tuple) and hasattr(cast("object", cls), "_fields"))


def fields_of(cls: type[object]) -> tuple[Field, ...]:
    """Return the fields that *cls* takes as arguments and that are written, in order."""
    is_ours = issubclass(cls, Value)
    return tuple(
        Field(name, alias, _resolved(cls, alias if is_ours else name), default)
        for name, alias, default in _declared(cls)
    )


def _declared(cls: type[object]) -> list[tuple[str, str, object]]:
    """Return name, alias and default of each field."""
    if issubclass(cls, Value):
        ours = defaults_of(cls)
        both = zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True)
        return [(stored, name, ours.get(name, MISSING)) for stored, name in both]
    if attrs.has(cls):
        return [(one.name, one.alias or one.name, one.default) for one in attrs.fields(cls) if one.init]
    if dataclasses.is_dataclass(cls):
        return [(one.name, one.name, _dataclass_default(one)) for one in dataclasses.fields(cls) if one.init]
    defaults = cast("Mapping[str, object]", getattr(cls, "_field_defaults", {}))
    names = cast("Sequence[str]", getattr(cls, "_fields", ()))
    return [(name, name, defaults.get(name, MISSING)) for name in names]


def _dataclass_default(field: dataclasses.Field[object]) -> object:
    if field.default is not dataclasses.MISSING:
        return field.default
    return MISSING if field.default_factory is dataclasses.MISSING else attrs.Factory(field.default_factory)


def _resolved(cls: type[object], name: str) -> object:
    for owner in cls.__mro__:
        said = inspect.get_annotations(owner)
        if name in said:
            plain = _PLAIN.get(str(said[name]))
            return plain or _hints({name: said[name]}, owner.__module__, owner)[name]
    at = f".{name}"
    raise MisfitError(at, f"of `{cls.__qualname__}` has no type hint")


def _hints(said: Mapping[str, object], module: str, owner: type[object]) -> dict[str, object]:
    """Resolve annotations (*said*, by name) of class *owner* in *module*; raise `MisfitError` if one cannot be."""

    def holder() -> None:
        """Hold the annotations, as `get_type_hints` wants an object that has them."""

    holder.__annotations__ = dict(said)
    known = vars(sys.modules[module]) if module in sys.modules else {}
    try:
        return get_type_hints(holder, {**OURS, **known}, {owner.__name__: owner}, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError) as why:
        at = "".join(f".{name}" for name in said)
        problem = f"of `{owner.__qualname__}` has a type hint that cannot be resolved ({why}); import it at run time"
        raise MisfitError(at, problem) from None


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


def parts_of(shape: Shape, at: str, seen: set[type[object]]) -> Iterator[tuple[str, object]]:
    """Yield path and type hint of each part of *shape*; fields of classes in *seen* are skipped."""
    match shape:
        case Items(item=item) | Table(item=item):
            yield f"{at}[]", item
        case Row(items=items):
            yield from ((f"{at}[{index}]", item) for index, item in enumerate(items))
        case Instance(cls=cls):
            fields = () if cls in seen else fields_of(cls)
            seen.add(cls)
            yield from ((f"{at}.{field.name}", field.hint) for field in fields)
        case Choice(shapes=shapes):
            for one in shapes:
                yield from parts_of(one, at, seen)
        case _:
            return
