"""The form of an answer: a JSON Schema, and the reader that makes the caller's object of JSON that fits it.

A class becomes a schema as the annotation of a tool's parameter does, and its objects are made by the same readers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, cast

from agentrail.errors import BadReturns, BadTool, NotJson
from agentrail.hooks.hook_runner import AnswerForm, ReadAnswer
from agentrail.tools.argument_reader import reader_of
from agentrail.tools.fields import fields_of, summary_of
from agentrail.tools.json_schema.validation import MAX_SCHEMAS, schema_problem, schema_validator
from agentrail.tools.schemas import DEFINITIONS, schema_of
from agentrail.tools.type_shapes import ForeignShape, RecordShape, ShapePlace, shape_of_class
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.untrusted_values import type_name

WANTED: Final = "a JSON Schema (a mapping), a dataclass, a `TypedDict`, or a class of attrs, pydantic or msgspec"

NO_OBJECT: Final = 'it must say `"type": "object"`; put what it is now into a field of a class'
"""What is wrong with a list, a union or a text as the form of an answer."""

IT: Final = "it"
"""The place of the class itself, in the message about a field of it."""


def form_of(returns: object) -> AnswerForm:
    """Return the form of *returns*, a schema or a class; raise `BadReturns` if it is neither, or cannot be used."""
    if isinstance(returns, type):
        return _form_of_class(returns)
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
def _form_of_class(cls: type) -> AnswerForm:
    at = ShapePlace(cls.__name__, IT)
    try:
        shape = shape_of_class(cls, at)
        schema = None if shape is None else _schema_of_class(shape, at)
    except BadTool as why:
        problem = f"of `{why.args[0]}` no schema can be made: {why.args[1]}"
        raise BadReturns(problem) from why
    if shape is None or schema is None:
        problem = f"`{cls.__name__}` has no fields; give {WANTED}"
        raise BadReturns(problem)
    _check(schema)
    return AnswerForm(schema, cast("ReadAnswer", reader_of(shape)))


def _schema_of_class(shape: ForeignShape | RecordShape, at: ShapePlace) -> JsonObject:
    """Return the schema of a class of this *shape*, with its own keywords at the top."""
    if isinstance(shape, ForeignShape):
        return _without_reference(shape.type.schema)
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
