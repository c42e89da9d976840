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
from agentrail.tools.schemas import schema_of
from agentrail.tools.type_shapes import RecordShape, ShapePlace, is_record
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.untrusted_values import type_name

WANTED: Final = "a JSON Schema (a mapping), an attrs class, a dataclass or a `TypedDict`"

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
        schema = freeze_object(dict(cast("Mapping[str, object]", returns)))
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
    if not is_record(cls):
        problem = f"`{cls.__name__}` has no fields; give {WANTED}"
        raise BadReturns(problem)
    try:
        schema = schema_of(fields_of(cls, ShapePlace(cls.__name__, IT)))
    except BadTool as why:
        problem = f"of `{why.args[0]}` no schema can be made: {why.args[1]}"
        raise BadReturns(problem) from why
    summary = summary_of(cls)
    schema = freeze_object({**schema, "description": summary}) if summary else schema
    _check(schema)
    return AnswerForm(schema, cast("ReadAnswer", reader_of(RecordShape(cls))))


def _check(schema: JsonObject) -> None:
    problem = schema_problem(schema) if schema.get("type") == "object" else 'it must say `"type": "object"`'
    if problem is not None:
        problem = f"its schema is invalid: {problem}"
        raise BadReturns(problem)
