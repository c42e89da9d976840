"""Types that another library reads: those of pydantic and of msgspec, and types that are made of them.

A type is left to the library as a whole, such as `list[Model]` or a union of models, so that the library itself chooses
among its classes and says where a value is wrong. Only a type that also has parts which the library does not know, such
as attrs classes or `Range`, is taken apart here.

No library is imported before there is a type of it; pydantic is nowhere needed otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from typing import Annotated, Final, Literal, NewType, Protocol, TypeAlias, cast, get_args, get_origin

import msgspec
from typing_extensions import TypeAliasType, is_typeddict

from agentrail.values.json import Json, JsonObject
from agentrail.values.untrusted_values import names_of
from agentrail.values.value import Value

ReadValue: TypeAlias = Callable[[object], object]


class ForeignType(Value, gc=True):
    """A type, as its library describes and reads it."""

    schema: JsonObject
    """The JSON Schema of its values, with classes under `$defs`."""
    parse: ReadValue
    """Reader: turns a JSON value into one of the type; raises `ValueError`, or what the class raises, if it cannot."""
    name: str
    """Name of the class, in letters that a reference may have; empty if the type is no class."""


class TypeLibrary(Protocol):
    """A module that describes and reads the types of one library."""

    def schema_of_type(self, type_: object) -> JsonObject:
        """Return the JSON Schema of *type_*; raise whatever the library raises if there is none."""
        ...

    def reader_of_type(self, type_: object) -> ReadValue:
        """Return the reader of *type_*."""
        ...


class _Reader(Enum):
    """Who reads a part of a type; a part that everybody reads, such as `int`, has none."""

    PYDANTIC = "agentrail.tools.pydantic_types"
    MSGSPEC = "agentrail.tools.msgspec_types"
    AGENTRAIL = ""


_BY_NOTE: Final = {"pydantic": _Reader.PYDANTIC, "pydantic_core": _Reader.PYDANTIC, "annotated_types": _Reader.PYDANTIC}
"""Reader of what stands beside a type in `Annotated`, by the package of its class."""


_ODD_LETTER: Final = re.compile(r"[^A-Za-z0-9._-]")


def is_foreign_note(note: object) -> bool:
    """Whether *note*, from `Annotated`, is one of a library, such as `pydantic.Field(ge=1)` or `msgspec.Meta(ge=1)`."""
    return _note_reader(note) is not _Reader.AGENTRAIL


def is_field_note(default: object) -> bool:
    """Whether *default* is what pydantic's `Field` or msgspec's `Meta` returns, and so no value of the type."""
    return isinstance(default, msgspec.Meta) or type(default).__module__ == "pydantic.fields"


def foreign_type(annotation: object) -> ForeignType | None:
    """Return *annotation* as a library reads it; `None` if it is no type of one library alone.

    Raise whatever the library raises if it cannot read it.
    """
    readers = set(_readers(annotation, ()))
    if len(readers) != 1 or _Reader.AGENTRAIL in readers:
        return None
    library = cast("TypeLibrary", import_module(readers.pop().value))
    name = annotation.__name__ if isinstance(annotation, type) and get_origin(annotation) is None else ""
    name = _ODD_LETTER.sub("_", name)
    return ForeignType(library.schema_of_type(annotation), library.reader_of_type(annotation), name)


def _readers(annotation: object, within: tuple[object, ...]) -> Iterator[_Reader]:
    """Yield the reader of each part of *annotation* that not everybody reads; *within* are the aliases around it."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _readers(args[0], within)
        yield from map(_note_reader, args[1:])
    elif annotation is Json or annotation is JsonObject:
        yield _Reader.AGENTRAIL
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


def _class_reader(cls: type[object]) -> Iterator[_Reader]:
    if hasattr(cls, "__pydantic_validator__"):
        yield _Reader.PYDANTIC
    elif issubclass(cls, msgspec.Struct) and not issubclass(cls, Value):
        yield _Reader.MSGSPEC
    elif is_typeddict(cls) or names_of(cls) is not None:
        yield _Reader.AGENTRAIL
    elif hasattr(cls, "__get_pydantic_core_schema__"):
        yield _Reader.PYDANTIC


def _note_reader(note: object) -> _Reader:
    if isinstance(note, msgspec.Meta):
        return _Reader.MSGSPEC
    if hasattr(note, "__get_pydantic_core_schema__") or hasattr(note, "__get_pydantic_json_schema__"):
        return _Reader.PYDANTIC
    return _BY_NOTE.get(type(note).__module__.partition(".")[0], _Reader.AGENTRAIL)


def plain_unions(schema: Json) -> Json:
    """Return *schema* with each union that has a discriminator as a plain `anyOf`, which providers take.

    The members of such a union have tags that exclude each other.
    """
    if isinstance(schema, list | tuple):
        return [plain_unions(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: plain_unions(item) for key, item in schema.items()}
    members = plain.get("oneOf", plain.get("anyOf"))
    if isinstance(members, list) and isinstance(plain.get("discriminator"), dict):
        del plain["discriminator"]
        plain.pop("oneOf", None)
        plain["anyOf"] = members
    return plain
