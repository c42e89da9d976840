"""The form of an answer: a JSON Schema, and the reader that makes the caller's object of JSON that fits it.

A type becomes a schema as the annotation of a tool's parameter does, and is read in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from types import NoneType
from typing import Final, NewType, TypeGuard, cast, get_origin

import msgspec

from agentrail.errors import BadReturns, BadTool, NotJson, UsageError
from agentrail.hooks.hook_runner import AnswerForm, ReadAnswer
from agentrail.tools.annotations import AnnotationSite, name_of
from agentrail.tools.argument_fields import ArgumentField, is_record
from agentrail.tools.argument_form import form_of_fields, form_of_type, with_top
from agentrail.tools.json_schema.validation import MAX_SCHEMAS, schema_problem, schema_validator
from agentrail.tools.pydantic_detection import is_of_pydantic
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.untrusted_values import described, type_name

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


def form_of(returns: object) -> AnswerForm:
    """Return the form of *returns*, a schema or a type; raise `BadReturns` if it is neither, or cannot be used.

    Providers want an object: a type that is none, such as `list[int]`, becomes the only field of one.
    """
    try:
        return _form_of(returns)
    except UsageError:
        raise
    except Exception as why:  # the code of the class, or of the mapping, is broken
        problem = f"it raised {described(why)} when it was read; give {WANTED}"
        raise BadReturns(problem) from why


def _form_of(returns: object) -> AnswerForm:
    """Do as `form_of`; errors of the code of *returns* pass through."""
    if isinstance(returns, type | NewType) or get_origin(returns) is not None:
        return _form_of_type(returns)
    if not issubclass(type(returns), Mapping):
        problem = f"it is a `{type_name(returns)}`; give {WANTED}"
        raise BadReturns(problem)
    try:
        schema = freeze_object(with_top(freeze_object(returns)))
    except NotJson as why:
        problem = f"its schema is not JSON: {why}"
        raise BadReturns(problem) from why
    return AnswerForm(_checked(schema), as_it_is)


def as_it_is(value: JsonObject) -> JsonObject:
    """Return *answer* unchanged: the reader for a form that is a schema."""
    return value


def misfit(schema: JsonObject, value: JsonObject) -> str | None:
    """Return why *value* does not fit *schema*; `None` if it fits."""
    return schema_validator(schema)(value)


@lru_cache(maxsize=MAX_SCHEMAS)
def _form_of_type(annotation: object) -> AnswerForm:
    site = AnnotationSite(name_of(annotation), "it")
    if _must_have_fields(annotation):
        problem = f"`{annotation.__name__}` has no fields; give {WANTED}"
        raise BadReturns(problem)
    try:
        form = form_of_type(annotation, site)
        if form.is_object:
            return AnswerForm(_checked(form.schema), cast("ReadAnswer", form.read))
        wrapped = form_of_fields([ArgumentField(VALUE, annotation, site)], site)
    except BadTool as why:
        of_class = f"of `{why.args[0]}` no schema can be made: " if isinstance(annotation, type) else ""
        problem = f"{of_class}{why.args[1]}"
        raise BadReturns(problem) from why
    return AnswerForm(_checked(wrapped.schema), lambda answer: cast("dict[str, object]", wrapped.read(answer))[VALUE])


def _must_have_fields(annotation: object) -> TypeGuard[type[object]]:
    """Whether *annotation* is a class whose objects can be no JSON, because it has no fields."""
    if not isinstance(annotation, type) or annotation is JsonObject:
        return False
    cls = cast("type[object]", annotation)
    return not (issubclass(cls, (*_WITHOUT_FIELDS, msgspec.Struct)) or is_record(cls) or is_of_pydantic(cls))


def _checked(schema: JsonObject) -> JsonObject:
    """Return *schema*; raise `BadReturns` if no answer can be checked by it."""
    problem = schema_problem(schema) if schema.get("type") == "object" else NO_OBJECT
    if problem is not None:
        problem = f"its schema is invalid: {problem}"
        raise BadReturns(problem)
    return schema
