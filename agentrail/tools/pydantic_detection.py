"""Tells which types are left to pydantic as a whole, such as `list[Model]` or a union of models; imports no pydantic.

So pydantic itself chooses among its classes, and says where a value is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal, NewType, cast, get_args, get_origin

import msgspec
from typing_extensions import TypeAliasType

from agentrail.tools.argument_fields import is_record
from agentrail.values.json import Json, JsonObject

_PACKAGES: Final = {"pydantic", "pydantic_core", "annotated_types"}
"""Packages of the classes of what stands beside a type in `Annotated` and is for pydantic."""


def is_of_pydantic(annotation: object) -> bool:
    """Whether pydantic reads a part of *annotation*, and could read all of it."""
    return set(_readers(annotation, ())) == {True}


def is_pydantic_note(note: object) -> bool:
    """Whether *note*, from `Annotated`, is for pydantic, such as `pydantic.Field(ge=1)`."""
    return (
        hasattr(note, "__get_pydantic_core_schema__")
        or hasattr(note, "__get_pydantic_json_schema__")
        or type(note).__module__.partition(".")[0] in _PACKAGES
    )


def _readers(annotation: object, within: tuple[object, ...]) -> Iterator[bool]:
    """Yield for each part of *annotation* that not everybody reads whether pydantic does.

    The aliases around the annotation are *within*.
    """
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _readers(args[0], within)
        yield from map(is_pydantic_note, args[1:])
    elif annotation is Json or annotation is JsonObject:
        yield False
    elif isinstance(annotation, TypeAliasType):
        if annotation not in within:
            yield from _readers(cast("object", annotation.__value__), (*within, annotation))
    elif isinstance(annotation, NewType):
        yield from _readers(annotation.__supertype__, within)
    elif isinstance(annotation, type) and origin is None:
        yield from _class_reader(annotation)
    elif origin is not Literal:
        for part in (origin, *args):
            yield from _readers(part, within) if part is not None else ()


def _class_reader(cls: type[object]) -> Iterator[bool]:
    if hasattr(cls, "__pydantic_validator__"):
        yield True
    elif issubclass(cls, msgspec.Struct) or is_record(cls):
        yield False
    elif hasattr(cls, "__get_pydantic_core_schema__"):
        yield True
