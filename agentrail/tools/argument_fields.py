"""Lists the fields of classes that msgspec does not make itself: attrs, dataclasses and `TypedDict`."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Final, NotRequired, Required, cast, get_args, get_origin

import attrs
import msgspec
from typing_extensions import ReadOnly, is_typeddict

from agentrail.errors import NotJson
from agentrail.tools.annotations import AnnotationSite, hints_of
from agentrail.tools.docstrings import read_docstring
from agentrail.values.json import Json, freeze
from agentrail.values.value import Value


class Missing(Enum):
    """Marker for a field or parameter without a default."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING
_FACTORY: Final = type(cast("object", attrs.Factory(dict[str, str])))
"""The class of `attrs.Factory`, taken from an instance, because type checkers see `Factory` as a function."""


class ArgumentField(Value, gc=True):
    """One property of a JSON object: a field of a class, or a parameter of a function."""

    name: str
    """The key in the JSON object."""
    annotation: object
    """The annotation of the value."""
    site: AnnotationSite
    """The place of the annotation, for error messages."""
    required: bool = True
    """Whether the key must be given."""
    description: str | None = None
    """The description for the model; `None` if there is none."""
    default: object = MISSING
    """The default; `MISSING` if there is none."""


def is_record(cls: type[object]) -> bool:
    """Whether *cls* is attrs, a dataclass or a `TypedDict`."""
    return is_typeddict(cls) or attrs.has(cls) or dataclasses.is_dataclass(cls)


def fields_of(cls: type, site: AnnotationSite) -> Iterator[ArgumentField]:
    """Yield the fields of *cls*: attrs, a dataclass or a `TypedDict`."""
    hints = hints_of(cls, site)
    for name, hint in hints.items():
        if isinstance(hint, dataclasses.InitVar):
            site.inside(f"field `{name}` of `{cls.__name__}`,").refuse("is an `InitVar`; make it a field")
    descriptions = read_docstring(cls.__doc__).names
    _warn_of_unknown(cls, descriptions, hints)
    for inside, field in _raw_fields(cls, hints, site):
        if field.annotation is MISSING:
            field.site.refuse("has no annotation; give it one")
        refuse_note(field.default, field.site)
        yield field.but(annotation=_without_qualifiers(field.annotation), description=descriptions.get(inside))


def _warn_of_unknown(cls: type, descriptions: Iterable[str], hints: Mapping[str, object]) -> None:
    """Warn of what the docstring of *cls* describes and *cls* does not have: the model would not hear of it."""
    for name in descriptions:
        if name not in hints and not hasattr(cls, name):
            problem = f"`{cls.__name__}` documents a field `{name}` that it does not have; correct the docstring"
            warnings.warn(problem, UserWarning, stacklevel=2)


def _raw_fields(
    cls: type[object], hints: Mapping[str, object], site: AnnotationSite
) -> Iterator[tuple[str, ArgumentField]]:
    """Yield the name of each field in the class, and the field as it is declared."""
    if is_typeddict(cls):
        keys = cast("frozenset[str]", getattr(cls, "__required_keys__", frozenset[str]()))
        for name, hint in hints.items():
            here = site.inside(f"field `{name}` of `{cls.__name__}`,")
            yield name, ArgumentField(name, hint, here, _is_required(hint, name in keys))
    elif attrs.has(cls):
        for field in (field for field in attrs.fields(cls) if field.init):
            hint = hints.get(field.name, MISSING if field.type is None else field.type)
            required = field.default is attrs.NOTHING
            has_default = not required and not isinstance(cast("object", field.default), _FACTORY)
            here = site.inside(f"field `{field.name}` of `{cls.__name__}`,")
            default = cast("object", field.default) if has_default else MISSING
            yield field.name, ArgumentField(field.alias, hint, here, required, default=default)
    elif dataclasses.is_dataclass(cls):  # pyright: ignore[reportUnknownArgumentType]
        for spot in (spot for spot in dataclasses.fields(cls) if spot.init):
            has_default = spot.default is not dataclasses.MISSING
            required = not has_default and spot.default_factory is dataclasses.MISSING
            here = site.inside(f"field `{spot.name}` of `{cls.__name__}`,")
            default = spot.default if has_default else MISSING
            yield spot.name, ArgumentField(spot.name, hints.get(spot.name, MISSING), here, required, default=default)


def summary_of(cls: type) -> str:
    """Return the summary of the docstring of *cls*; empty if it is the signature that `dataclass` writes itself."""
    text = cls.__doc__ or ""
    return "" if text.startswith(f"{cls.__name__}(") else read_docstring(text).summary


def refuse_note(default: object, site: AnnotationSite) -> None:
    """Raise `BadTool` if *default* is a note such as `Field(ge=1)` of pydantic, which would be the value itself."""
    if isinstance(default, msgspec.Meta) or type(default).__module__ == "pydantic.fields":
        advice = f"write `Annotated[..., {type(default).__name__}]`"
        site.refuse(f"has the default `{default!r}`, which is no value; {advice}")


def json_default(default: object) -> Json | Missing:
    """Return *default* as JSON; `MISSING` if there is none, or it cannot be written as JSON."""
    try:
        return MISSING if default is MISSING else freeze(_plain(default))
    except (NotJson, TypeError, ValueError, OverflowError, RecursionError):
        return MISSING


def _plain(value: object) -> object:
    """Return *value* in lists and dicts; an object of a class by the keys that its constructor takes."""
    kind = type(value)
    if kind is list or kind is tuple:
        return [_plain(item) for item in cast("list[object]", value)]
    if kind is dict:
        return {key: _plain(item) for key, item in cast("dict[object, object]", value).items()}
    if not is_record(kind):
        return msgspec.to_builtins(value)
    fields = _raw_fields(kind, {}, AnnotationSite("", ""))
    return {field.name: _plain(getattr(value, inside)) for inside, field in fields}


def _without_qualifiers(hint: object) -> object:
    """Return *hint* without `Required`, `NotRequired` and `ReadOnly` around it."""
    while get_origin(hint) in {Required, NotRequired, ReadOnly}:
        hint = get_args(hint)[0]
    return hint


def _is_required(hint: object, otherwise: bool) -> bool:
    """Whether the key is required: by its evaluated *hint*, or *otherwise* if the hint has no qualifier.

    `__required_keys__`, which gives *otherwise*, is wrong for annotations that are strings.
    """
    origin = get_origin(hint)
    if origin is ReadOnly:
        return _is_required(get_args(hint)[0], otherwise)
    return origin is Required or (origin is not NotRequired and otherwise)
