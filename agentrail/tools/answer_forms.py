"""The form of an answer: a JSON Schema, and the reader that makes the caller's object of JSON that fits it.

A type becomes a schema as the annotation of a tool's parameter does, and its objects are made by the same readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from types import NoneType
from typing import Final, NewType, TypeGuard, cast, get_origin

from agentrail.errors import BadReturns, BadTool, NotJson
from agentrail.hooks.hook_runner import AnswerForm, ReadAnswer
from agentrail.tools.argument_reader import object_reader, reader_of
from agentrail.tools.fields import ArgumentField, fields_of, summary_of
from agentrail.tools.json_schema.validation import MAX_SCHEMAS, schema_problem, schema_validator
from agentrail.tools.schemas import DEFINITIONS, schema_of
from agentrail.tools.type_shapes import (
    ForeignShape,
    RecordShape,
    Shape,
    ShapePlace,
    name_of,
    shape_of,
    shape_of_class,
)
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.untrusted_values import type_name

WANTED: Final = (
    "a JSON Schema (a mapping), a dataclass, a `TypedDict`, a class of attrs, pydantic or msgspec, or a type such as"
    " `list[int]`"
)

NO_OBJECT: Final = 'it must say `"type": "object"`; put what it is now into a property, or give a type: `list[int]`'
"""What is wrong with a JSON Schema of a list, a union or a text as the form of an answer."""

VALUE: Final = "value"
"""The only field of the object that an answer is put into if its type is no object."""

_WITHOUT_FIELDS: Final = (str, int, float, NoneType, Enum)
"""Classes that a JSON value can be, although they have no fields."""

IT: Final = "it"
"""The place of the class itself, in the message about a field of it."""


def form_of(returns: object) -> AnswerForm:
    """Return the form of *returns*, a schema or a type; raise `BadReturns` if it is neither, or cannot be used.

    Providers want an object: a type that is none, such as `list[int]`, becomes the only field of one.
    """
    if isinstance(returns, type | NewType) or get_origin(returns) is not None:
        return _form_of_type(returns)
    if not isinstance(returns, Mapping):
        problem = f"it is a `{type_name(returns)}`; give {WANTED}"
        raise BadReturns(problem)
    try:
        schema = _without_reference(freeze_object(dict(cast("Mapping[str, object]", returns))))
    except NotJson as why:
        problem = f"its schema is not JSON: {why}"
        raise BadReturns(problem) from why
    _check(schema)
    return AnswerForm(schema, as_it_is)


def as_it_is(value: JsonObject) -> JsonObject:
    """Return *answer* unchanged: the reader for a form that is a schema."""
    return value


def misfit(schema: JsonObject, value: JsonObject) -> str | None:
    """Return why *value* does not fit *schema*; `None` if it fits."""
    return schema_validator(schema)(value)


@lru_cache(maxsize=MAX_SCHEMAS)
def _form_of_type(annotation: object) -> AnswerForm:
    at = ShapePlace(name_of(annotation), IT)
    try:
        shape = _shape_of(annotation, at)
        schema = _object_schema(shape, at)
        if schema is not None:
            _check(schema)
            return AnswerForm(schema, cast("ReadAnswer", reader_of(shape)))
        field = ArgumentField(VALUE, shape, at)
        wrapped = schema_of((field,))
    except BadTool as why:
        of_class = f"of `{why.args[0]}` no schema can be made: " if isinstance(annotation, type) else ""
        problem = f"{of_class}{why.args[1]}"
        raise BadReturns(problem) from why
    _check(wrapped)
    reader = object_reader((field,))
    return AnswerForm(wrapped, lambda answer: reader(answer)[VALUE])


def _shape_of(annotation: object, at: ShapePlace) -> Shape:
    """Return the shape of a type; raise `BadReturns` for a class that has no fields, and is no enumeration."""
    if not _must_have_fields(annotation):
        return shape_of(annotation, at)
    shape = shape_of_class(annotation, at)
    if shape is None:
        problem = f"`{annotation.__name__}` has no fields; give {WANTED}"
        raise BadReturns(problem)
    return shape


def _must_have_fields(annotation: object) -> TypeGuard[type[object]]:
    """Whether *annotation* is a class whose objects can be no JSON without fields."""
    is_json = annotation is JsonObject
    return isinstance(annotation, type) and not is_json and not issubclass(annotation, _WITHOUT_FIELDS)


def _object_schema(shape: Shape, at: ShapePlace) -> JsonObject | None:
    """Return the schema of a class of this *shape*, with its own keywords at the top; `None` if it is no object."""
    if isinstance(shape, ForeignShape):
        schema = _without_reference(shape.type.schema)
        return schema if schema.get("type") == "object" else None
    if not isinstance(shape, RecordShape):
        return None
    schema = schema_of(fields_of(shape.cls, at))
    summary = summary_of(shape.cls)
    return freeze_object({**schema, "description": summary}) if summary else schema


def _without_reference(schema: JsonObject) -> JsonObject:
    """Return *schema* with the definition that its top refers to, as recursive models do, in place of the reference."""
    target, definitions = schema.get("$ref"), schema.get("$defs")
    if not isinstance(target, str) or not isinstance(definitions, Mapping):
        return schema
    definition = definitions.get(target.removeprefix(DEFINITIONS))
    if not isinstance(definition, Mapping):
        return schema
    return freeze_object({**definition, **{key: item for key, item in schema.items() if key != "$ref"}})


def _check(schema: JsonObject) -> None:
    problem = schema_problem(schema) if schema.get("type") == "object" else NO_OBJECT
    if problem is not None:
        problem = f"its schema is invalid: {problem}"
        raise BadReturns(problem)
