"""Writes JSON Schema (draft 2020-12) from shapes; each class is defined once, under `$defs`."""

from __future__ import annotations

from collections.abc import Iterable
from types import NoneType
from typing import Final, assert_never, cast

from agentrail.tools.fields import MISSING, ArgumentField, fields_of, summary_of
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
from agentrail.values.json import Json, JsonObject, freeze_object

_TYPES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def schema_of(fields: Iterable[ArgumentField]) -> JsonObject:
    """Return the schema of an object with these *fields*."""
    writer = _SchemaWriter()
    schema = writer.object_of(fields)
    return freeze_object({**schema, "$defs": writer.definitions} if writer.definitions else schema)


class _SchemaWriter:
    """Writes one schema, and collects the classes in it for `$defs`."""

    __slots__ = ("_names", "definitions")

    def __init__(self) -> None:
        self.definitions: dict[str, Json] = {}
        self._names: dict[type, str] = {}

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
            case RecordShape(cls):
                return {"$ref": f"#/$defs/{self._name(cls, at)}"}
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

    def _name(self, cls: type, at: ShapePlace) -> str:
        """Return the name of *cls* under `$defs`; add its definition at the first call.

        The name is set before the fields are read, because the class may contain itself.
        """
        if cls not in self._names:
            name, twin = cls.__name__, 1
            while name in self.definitions:
                twin += 1
                name = f"{cls.__name__}{twin}"
            self._names[cls] = name
            self.definitions[name] = None
            schema = self.object_of(fields_of(cls, at))
            summary = summary_of(cls)
            self.definitions[name] = {**schema, "description": summary} if summary else schema
        return self._names[cls]


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
