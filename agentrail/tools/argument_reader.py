"""Converts JSON to the annotated types of a function, strictly: only an integer is converted, to a `float`.

A reader is a function from a JSON value to the Python value; it raises if the value does not fit. It accepts the same
values as the schema of its shape. Lists and dicts are copied, so a tool may change them. A class is called with its
fields as keyword arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Final, TypeAlias, assert_never, cast

from typing_extensions import is_typeddict

from agentrail.tools.fields import ArgumentField, fields_of
from agentrail.tools.foreign_types import ReadValue
from agentrail.tools.type_shapes import (
    AnyJson,
    Bounded,
    ChoiceShape,
    DictOf,
    ForeignShape,
    ListOf,
    OneOf,
    RecordShape,
    Scalar,
    Shape,
    ShapePlace,
    TupleOf,
)
from agentrail.values.json import Json, thaw
from agentrail.values.untrusted_values import message_of

Arguments: TypeAlias = Callable[[object], dict[str, object]]

CHECKED: Final = ShapePlace("?", "something that was looked at when the tool was defined")

_UNKNOWN: Final = "it is unknown"
_MISSING: Final = "it is missing"
_OUTSIDE: Final = "it is out of bounds"


class ArgumentMisfitError(ValueError):
    """A value does not fit the schema."""

    def __init__(self, problem: object, name: str | None = None) -> None:
        super().__init__(problem if name is None else f"`{name}`: {problem}")


class NotTakenError(ValueError):
    """A class raised an exception when it was called with its fields, although they fit the schema."""

    def __init__(self, problem: str, name: str) -> None:
        super().__init__(f"`{name}`: {problem}")


def reader_of(shape: Shape) -> ReadValue:
    """Return a reader: a function from a JSON value to a Python value of *shape*."""
    match shape:
        case Scalar(kind):
            return _number if kind is float else _exactly(kind)
        case AnyJson(is_object):
            return _json_object if is_object else _json
        case ChoiceShape(pairs):
            return _choice({(type(key), key): choice for key, choice in pairs})
        case ListOf(item, into):
            return _list(reader_of(item), into)
        case TupleOf(items):
            return _tuple(tuple(reader_of(item) for item in items))
        case DictOf(item):
            return _dict(reader_of(item))
        case OneOf(members):
            return _first(tuple(reader_of(member) for member in sorted(members, key=_takes_integers_too)))
        case Bounded(inner, bounds):
            reader = reader_of(inner)
            return _bounded(reader, tuple(bound.holds for bound in bounds)) if bounds else reader
        case ForeignShape(foreign):
            return foreign.parse
        case RecordShape(cls):
            return lambda value: _class_reader(cls)(value)  # noqa: PLW0108 - made at the first use, because a class may contain itself
        case _:
            assert_never(shape)


def object_reader(fields: Iterable[ArgumentField]) -> Arguments:
    """Return a reader of a JSON object with these *fields*; optional fields that are not given are left out."""
    fields = tuple(fields)
    readers = {field.name: reader_of(field.shape) for field in fields}
    required = frozenset(field.name for field in fields if field.required)

    def read(value: object) -> dict[str, object]:
        arguments: dict[str, object] = {}
        for name, item in _object(value).items():
            reader = readers.get(name)
            if reader is None:
                raise ArgumentMisfitError(_UNKNOWN, name)
            try:
                arguments[name] = reader(item)
            except ArgumentMisfitError as why:
                raise ArgumentMisfitError(why, name) from why
            except Exception as why:
                raise NotTakenError(message_of(why), name) from why
        if not arguments.keys() >= required:
            raise ArgumentMisfitError(_MISSING, min(required - arguments.keys()))
        return arguments

    return read


def _object(value: object) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _misfit(value)
    return cast("dict[str, object]", value)


def _items(value: object) -> tuple[object, ...] | list[object]:
    if not isinstance(value, tuple | list):
        raise _misfit(value)
    return cast("tuple[object, ...]", value)


def _misfit(value: object) -> ArgumentMisfitError:
    return ArgumentMisfitError(f"a `{type(value).__name__}` does not fit")


def _json(value: object) -> object:
    return thaw(cast("Json", value))


def _json_object(value: object) -> object:
    return thaw(cast("Json", _object(value)))


def _exactly(kind: type) -> ReadValue:
    def read(value: object) -> object:
        if type(value) is not kind:
            raise _misfit(value)
        return value

    return read


def _number(value: object) -> object:
    if type(value) is int:
        return float(value)
    if type(value) is not float:
        raise _misfit(value)
    return value


def _choice(table: Mapping[tuple[type, object], object]) -> ReadValue:
    def read(value: object) -> object:
        if not isinstance(value, str | int | None) or (type(value), value) not in table:
            raise _misfit(value)
        return table[type(value), value]

    return read


def _list(item: ReadValue, into: type[list[object] | tuple[object, ...]]) -> ReadValue:
    return lambda value: into(item(element) for element in _items(value))


def _tuple(items: tuple[ReadValue, ...]) -> ReadValue:
    def read(value: object) -> object:
        if len(_items(value)) != len(items):
            raise _misfit(value)
        return tuple(item(element) for item, element in zip(items, _items(value), strict=True))

    return read


def _dict(item: ReadValue) -> ReadValue:
    return lambda value: {key: item(element) for key, element in _object(value).items()}


def _bounded(reader: ReadValue, tests: tuple[Callable[[object], bool], ...]) -> ReadValue:
    def read_inside(value: object) -> object:
        if not all(holds(value) for holds in tests):
            raise ArgumentMisfitError(_OUTSIDE)
        return reader(value)

    return read_inside


def _first(members: tuple[ReadValue, ...]) -> ReadValue:
    def read(value: object) -> object:
        refusal: Exception | None = None
        for member in members:
            try:
                return member(value)
            except ArgumentMisfitError:
                continue
            except Exception as why:  # noqa: BLE001 - a class may refuse by any exception; the next member may fit
                refusal = refusal or why
        raise refusal or _misfit(value)

    return read


def _takes_integers_too(shape: Shape) -> bool:
    return (shape.shape if isinstance(shape, Bounded) else shape) == Scalar(float)


@cache
def _class_reader(cls: type) -> ReadValue:
    reader = object_reader(fields_of(cls, CHECKED))
    return reader if is_typeddict(cls) else lambda value: cls(**reader(value))
