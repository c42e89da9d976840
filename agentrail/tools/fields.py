"""Lists the fields of a class as `ArgumentField`s."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NotRequired, Required, cast, get_args, get_origin, get_type_hints

import attrs
import msgspec
from typing_extensions import ReadOnly, is_typeddict

from agentrail.errors import NotJson
from agentrail.tools.docstrings import read_docstring
from agentrail.tools.foreign_types import is_field_note
from agentrail.tools.type_shapes import Shape, ShapePlace, shape_of
from agentrail.values.json import Json, freeze
from agentrail.values.untrusted_values import names_of
from agentrail.values.value import Value, defaults_of


class Missing(Enum):
    """Marker for a field or parameter without a default."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
_FACTORY: Final = type(cast("object", attrs.Factory(dict[str, str])))
"""The class of `attrs.Factory`, taken from an instance, because type checkers see `Factory` as a function."""


class _Slot(Value, gc=True):
    outside: str
    inside: str
    hint: object
    required: bool
    default: object


class ArgumentField(Value, gc=True):
    """One property of a JSON object: a field of a class, or a parameter of a function."""

    name: str
    """The key in the JSON object."""
    shape: Shape
    """The shape of the value."""
    at: ShapePlace
    """The place of the annotation, for error messages."""
    required: bool = True
    """Whether the key must be given."""
    description: str | None = None
    """The description for the model; `None` if there is none."""
    default: Json | Missing = MISSING
    """The default as JSON; `MISSING` if there is none, or it cannot be written as JSON."""


def fields_of(cls: type, at: ShapePlace) -> tuple[ArgumentField, ...]:
    """Return the fields of *cls*: attrs, a dataclass or a `TypedDict`."""
    hints = hints_of(cls, at)
    for name, hint in hints.items():
        if isinstance(hint, dataclasses.InitVar):
            at.inside(f"field `{name}` of `{cls.__name__}`,").refuse("is an `InitVar`; make it a field")
    descriptions = read_docstring(cls.__doc__).names
    fields: list[ArgumentField] = []
    for slot in _slots(cls, hints):
        here = at.inside(f"field `{slot.inside}` of `{cls.__name__}`,")
        if slot.hint is MISSING:
            here.refuse("has no annotation; give it one")
        refuse_note(slot.default, here)
        shape = shape_of(_strip_qualifiers(slot.hint), here)
        fields.append(
            ArgumentField(
                slot.outside, shape, here, slot.required, descriptions.get(slot.inside), as_default(slot.default)
            )
        )
    return tuple(fields)


def summary_of(cls: type) -> str:
    """Return the summary of the docstring of *cls*; empty if it is the signature that `dataclass` writes itself."""
    text = cls.__doc__ or ""
    return "" if text.startswith(f"{cls.__name__}(") else read_docstring(text).summary


def hints_of(subject: object, at: ShapePlace) -> dict[str, object]:
    """Return the evaluated annotations of *subject*, a class or function; raise `BadTool` if evaluating them fails."""
    try:
        return get_type_hints(subject, include_extras=True)
    except Exception as why:  # noqa: BLE001 - an annotation is code, which may raise anything
        at.refuse(
            f"has annotations that cannot be read ({why}); define or import what they name at the top of the module"
        )


def _strip_qualifiers(hint: object) -> object:
    """Return *hint* without `Required`, `NotRequired` and `ReadOnly` around it."""
    while get_origin(hint) in {Required, NotRequired, ReadOnly}:
        hint = get_args(hint)[0]
    return hint


def refuse_note(default: object, at: ShapePlace) -> None:
    """Raise `BadTool` if *default* is a note such as `Field(ge=1)` of pydantic, which would be the value itself."""
    if is_field_note(default):
        at.refuse(f"has the default `{default!r}`, which is no value; write `Annotated[..., {type(default).__name__}]`")


def as_default(value: object) -> Json | Missing:
    """Return the default *value* as JSON; `MISSING` if there is none, or it cannot be written as JSON."""
    try:
        return MISSING if value is MISSING else freeze(_plain(value))
    except NotJson:
        return MISSING


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in cast("dict[object, object]", value).items()}
    is_record = isinstance(value, Value) or not isinstance(value, msgspec.Struct)
    if is_record and names_of(type(value)) is not None:
        return {slot.outside: _plain(getattr(value, slot.inside)) for slot in _slots(type(value), {})}
    return value


def _slots(cls: type[object], hints: Mapping[str, object]) -> Iterator[_Slot]:
    """Return the fields of *cls* with their hints, in order."""
    if is_typeddict(cls):
        keys = cast("frozenset[str]", getattr(cls, "__required_keys__", frozenset[str]()))
        yield from (_Slot(name, name, hint, _is_required(hint, name in keys), MISSING) for name, hint in hints.items())
    elif issubclass(cls, Value):
        defaults = defaults_of(cls)
        for name in cls.__struct_fields__:
            yield _Slot(name, name, hints.get(name, MISSING), name not in defaults, defaults.get(name, MISSING))
    elif attrs.has(cls):
        for field in (field for field in attrs.fields(cls) if field.init):
            hint = hints.get(field.name, MISSING if field.type is None else field.type)
            required = field.default is attrs.NOTHING
            has_default = not required and not isinstance(cast("object", field.default), _FACTORY)
            yield _Slot(field.alias, field.name, hint, required, field.default if has_default else MISSING)
    elif dataclasses.is_dataclass(cls):  # pyright: ignore[reportUnknownArgumentType]
        for spot in (spot for spot in dataclasses.fields(cls) if spot.init):
            has_default = spot.default is not dataclasses.MISSING
            required = not has_default and spot.default_factory is dataclasses.MISSING
            yield _Slot(
                spot.name, spot.name, hints.get(spot.name, MISSING), required, spot.default if has_default else MISSING
            )


def _is_required(hint: object, otherwise: bool) -> bool:
    """Whether the key is required: by its evaluated *hint*, or *otherwise* if the hint has no qualifier.

    `__required_keys__`, which gives *otherwise*, is wrong for annotations that are strings.
    """
    origin = get_origin(hint)
    if origin is ReadOnly:
        return _is_required(get_args(hint)[0], otherwise)
    return origin is Required or (origin is not NotRequired and otherwise)
