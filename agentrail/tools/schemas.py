"""Writes JSON Schema (draft 2020-12) from shapes; each class is defined once, under `$defs`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import NoneType
from typing import Final, assert_never, cast

from agentrail.tools.fields import MISSING, ArgumentField, fields_of, summary_of
from agentrail.tools.foreign_types import ForeignType
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
from agentrail.values.json import Json, JsonObject, canonical, freeze_object

DEFINITIONS: Final = "#/$defs/"
"""The beginning of references to definitions in the same schema."""

_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def schema_of(fields: Iterable[ArgumentField]) -> JsonObject:
    """Return the schema of an object with these *fields*."""
    writer = _SchemaWriter()
    schema = writer.object_of(fields)
    return freeze_object({**schema, "$defs": writer.definitions} if writer.definitions else schema)


class _SchemaWriter:
    """Writes one schema, and collects the classes in it for `$defs`."""

    __slots__ = ("_adopted", "_names", "definitions")

    def __init__(self) -> None:
        self.definitions: dict[str, Json] = {}
        self._names: dict[type, str] = {}
        self._adopted: dict[tuple[str, str], str] = {}

    def object_of(self, fields: Iterable[ArgumentField]) -> dict[str, Json]:
        """Return the schema of an object that has *fields* and no other keys."""
        fields = tuple(fields)
        schema: dict[str, Json] = {
            "type": "object",
            "properties": {field.name: self._property(field) for field in fields},
            "additionalProperties": False,
        }
        required = tuple(field.name for field in fields if field.required)
        return {**schema, "required": required} if required else schema

    def _property(self, field: ArgumentField) -> dict[str, Json]:
        schema = self._of(field.shape, field.at)
        if field.description and "description" not in schema:
            schema["description"] = field.description
        if field.default is not MISSING:
            schema["default"] = field.default
        return schema

    def _of(self, shape: Shape, at: ShapePlace) -> dict[str, Json]:
        match shape:
            case Scalar(kind):
                return {"type": _TYPES[kind]}
            case AnyJson(is_object):
                return {"type": "object"} if is_object else {}
            case ChoiceShape(pairs):
                return {
                    "type": _join_types(_TYPES[type(key)] for key, _ in pairs),
                    "enum": tuple(key for key, _ in pairs),
                }
            case ListOf(item):
                return {"type": "array", "items": self._of(item, at)}
            case TupleOf(items):
                shapes = tuple(self._of(item, at) for item in items)
                return {"type": "array", "prefixItems": shapes, "items": False, "minItems": len(items)}
            case DictOf(item):
                return {"type": "object", "additionalProperties": self._of(item, at)}
            case OneOf(members):
                return _any_of([self._of(member, at) for member in members])
            case Bounded():
                return self._bounded(shape, at)
            case ForeignShape(foreign):
                return self._adopt(foreign)
            case RecordShape(cls):
                return {"$ref": f"{DEFINITIONS}{self._name(cls, at)}"}
            case _:
                assert_never(shape)

    def _bounded(self, shape: Bounded, at: ShapePlace) -> dict[str, Json]:
        schema = self._of(shape.shape, at)
        kinds = cast("str | tuple[str, ...]", schema.get("type", ()))  # `_of` writes only these types
        for bound in shape.bounds:
            keywords: dict[str, Json] = {}
            for kind in (kinds,) if isinstance(kinds, str) else kinds:
                keywords.update(bound.keywords(kind))
            if not keywords:
                at.refuse(
                    f"is bound by `{bound!r}`, which says nothing about this type; put it on the type that it is about"
                )
            if not schema.keys().isdisjoint(keywords):
                at.refuse(f"is bound by `{bound!r}`, which something else bounds already; say it once")
            schema.update(keywords)
        if shape.description is not None:
            schema["description"] = shape.description
        return schema

    def _adopt(self, foreign: ForeignType) -> dict[str, Json]:
        """Return the schema of a foreign type, with its definitions among those of this schema.

        A class becomes a definition too, so that a description can stand beside it. Names that are taken are changed.
        """
        schema: dict[str, Json] = {key: item for key, item in foreign.schema.items() if key != "$defs"}
        definitions: dict[str, Json] = {**cast("Mapping[str, Json]", foreign.schema.get("$defs", {}))}
        if foreign.name and "$ref" not in schema:
            top = foreign.name
            while top in definitions:  # a class inside it has the same name
                top = f"{top}_"
            definitions[top], schema = schema, {"$ref": f"{DEFINITIONS}{top}"}
        names: dict[str, str] = {}
        added: list[str] = []
        for name in definitions:
            key = name, canonical(freeze_object(_reached_from(name, definitions)))
            if key not in self._adopted:
                self._adopted[key] = self._free_name(name)
                added.append(name)
            names[name] = self._adopted[key]
        for name in added:
            self.definitions[names[name]] = _renamed(definitions[name], names)
        return cast("dict[str, Json]", _renamed(schema, names))

    def _free_name(self, base: str) -> str:
        """Return *base*, with a number if it is taken, and reserve it among the definitions."""
        name, twin = base, 1
        while name in self.definitions:
            twin += 1
            name = f"{base}{twin}"
        self.definitions[name] = None
        return name

    def _name(self, cls: type, at: ShapePlace) -> str:
        """Return the name of *cls* under `$defs`; add its definition at the first call.

        The name is set before the fields are read, because the class may contain itself.
        """
        if cls not in self._names:
            name = self._names[cls] = self._free_name(cls.__name__)
            schema = self.object_of(fields_of(cls, at))
            summary = summary_of(cls)
            self.definitions[name] = {**schema, "description": summary} if summary else schema
        return self._names[cls]


def _reached_from(name: str, definitions: Mapping[str, Json]) -> dict[str, Json]:
    """Return the definition called *name*, and all that it refers to, by name."""
    reached: dict[str, Json] = {}
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name in definitions and name not in reached:
            reached[name] = definitions[name]
            waiting += _references(definitions[name])
    return reached


def _references(schema: Json) -> Iterator[str]:
    """Yield the names of the definitions that *schema* refers to."""
    if isinstance(schema, Mapping):
        target = schema.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(DEFINITIONS)
        schema = tuple(schema.values())
    if isinstance(schema, list | tuple):
        for item in schema:
            yield from _references(item)


def _renamed(schema: Json, names: Mapping[str, str]) -> Json:
    """Return *schema* with its references changed to the new *names* of definitions."""
    if isinstance(schema, list | tuple):
        return tuple(_renamed(item, names) for item in schema)
    if not isinstance(schema, Mapping):
        return schema
    renamed = {key: _renamed(item, names) for key, item in schema.items()}
    target = renamed.get("$ref")
    if isinstance(target, str) and target.startswith(DEFINITIONS):
        name = target.removeprefix(DEFINITIONS)
        renamed["$ref"] = f"{DEFINITIONS}{names.get(name, name)}"
    return renamed


def _any_of(schemas: list[dict[str, Json]]) -> dict[str, Json]:
    """Return a schema that accepts values that one of *schemas* accepts; if all are bare types, a list of types."""
    if {} in schemas:
        return {}
    bare = [schema["type"] for schema in schemas if schema.keys() == {"type"}]
    if len(bare) == len(schemas):
        return {"type": _join_types(str(kind) for kind in bare)}
    return {"anyOf": tuple(schemas)}


def _join_types(kinds: Iterable[str]) -> Json:
    distinct = tuple(dict.fromkeys(kinds))
    return distinct[0] if len(distinct) == 1 else distinct
