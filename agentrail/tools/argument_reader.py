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
from agentrail.tools.type_shapes import (
    AnyJson,
    Bounded,
    ChoiceShape,
    DictOf,
    ListOf,
    OneOf,
    RecordShape,
    Scalar,
    Shape,
    ShapePlace,
    TupleOf,
)
from agentrail.values.json import Json, thaw

Reader: TypeAlias = Callable[[object], object]
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

    def __init__(self, problem: object, name: str) -> None:
        super().__init__(f"`{name}`: {problem}")


def reader_of(shape: Shape) -> Reader:
    """Return a reader: a function from a JSON value to a Python value of *shape*."""
    match shape:
        case Scalar(kind):
            return _number if kind is float else _exactly(kind)
        case AnyJson(is_object):
            return _json_object if is_object else _json
        case ChoiceShape(pairs):
            return _choice({(type(sent), sent): meant for sent, meant in pairs})
        case ListOf(item, into):
            return _list(reader_of(item), into)
        case TupleOf(items):
            return _tuple(tuple(reader_of(item) for item in items))
        case DictOf(item):
            return _dict(reader_of(item))
        case OneOf(members):
            return _first(tuple(reader_of(member) for member in sorted(members, key=_takes_integers_too)))
        case Bounded(inner, bounds):
            read = reader_of(inner)
            return _bounded(read, tuple(bound.holds for bound in bounds)) if bounds else read
        case RecordShape(cls):
            return lambda found: _class_reader(cls)(found)  # noqa: PLW0108 - made at the first use, because a class may contain itself
        case _:
            assert_never(shape)


def object_reader(fields: Iterable[ArgumentField]) -> Arguments:
    """Return a reader of a JSON object with these *fields*; optional fields that are not given are left out."""
    fields = tuple(fields)
    readers = {field.name: reader_of(field.shape) for field in fields}
    required = frozenset(field.name for field in fields if field.required)

    def read(found: object) -> dict[str, object]:
        given: dict[str, object] = {}
        for name, one in _object(found).items():
            reader = readers.get(name)
            if reader is None:
                raise ArgumentMisfitError(_UNKNOWN, name)
            try:
                given[name] = reader(one)
            except ArgumentMisfitError as why:
                raise ArgumentMisfitError(why, name) from why
            except Exception as why:
                raise NotTakenError(why, name) from why
        if not given.keys() >= required:
            raise ArgumentMisfitError(_MISSING, min(required - given.keys()))
        return given

    return read


def _object(found: object) -> Mapping[str, object]:
    if not isinstance(found, dict):
        raise _misfit(found)
    return cast("dict[str, object]", found)


def _items(found: object) -> tuple[object, ...] | list[object]:
    if not isinstance(found, tuple | list):
        raise _misfit(found)
    return cast("tuple[object, ...]", found)


def _misfit(found: object) -> ArgumentMisfitError:
    return ArgumentMisfitError(f"a `{type(found).__name__}` does not fit")


def _json(found: object) -> object:
    return thaw(cast("Json", found))


def _json_object(found: object) -> object:
    return thaw(cast("Json", _object(found)))


def _exactly(kind: type) -> Reader:
    def read(found: object) -> object:
        if type(found) is not kind:
            raise _misfit(found)
        return found

    return read


def _number(found: object) -> object:
    if type(found) is int:
        return float(found)
    if type(found) is not float:
        raise _misfit(found)
    return found


def _choice(table: Mapping[tuple[type, object], object]) -> Reader:
    def read(found: object) -> object:
        if not isinstance(found, str | int | None) or (type(found), found) not in table:
            raise _misfit(found)
        return table[type(found), found]

    return read


def _list(item: Reader, into: type[list[object] | tuple[object, ...]]) -> Reader:
    return lambda found: into(item(one) for one in _items(found))


def _tuple(items: tuple[Reader, ...]) -> Reader:
    def read(found: object) -> object:
        if len(_items(found)) != len(items):
            raise _misfit(found)
        return tuple(item(one) for item, one in zip(items, _items(found), strict=True))

    return read


def _dict(item: Reader) -> Reader:
    return lambda found: {key: item(one) for key, one in _object(found).items()}


def _bounded(read: Reader, tests: tuple[Callable[[object], bool], ...]) -> Reader:
    def read_inside(found: object) -> object:
        if not all(holds(found) for holds in tests):
            raise ArgumentMisfitError(_OUTSIDE)
        return read(found)

    return read_inside


def _first(members: tuple[Reader, ...]) -> Reader:
    def read(found: object) -> object:
        refusal: Exception | None = None
        for member in members:
            try:
                return member(found)
            except ArgumentMisfitError:
                continue
            except Exception as why:  # noqa: BLE001 - a class may refuse by any exception; the next member may fit
                refusal = refusal or why
        raise refusal or _misfit(found)

    return read


def _takes_integers_too(shape: Shape) -> bool:
    return (shape.shape if isinstance(shape, Bounded) else shape) == Scalar(float)


@cache
def _class_reader(cls: type) -> Reader:
    read = object_reader(fields_of(cls, CHECKED))
    return read if is_typeddict(cls) else lambda found: cls(**read(found))
