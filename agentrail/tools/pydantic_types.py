"""Describes and reads types of pydantic, by pydantic itself; imported only if a program has such a type.

A value is read as JSON in pydantic's strict mode: a text becomes a date or a `Decimal`, which JSON lacks, but no `int`
and no `bool`. So the types of a value are those that its schema names.
"""

from __future__ import annotations

from typing import Final, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from agentrail.codec.json_text import to_text
from agentrail.tools.foreign_types import ReadValue, plain_unions
from agentrail.values.json import Json, JsonObject, freeze_object
from agentrail.values.untrusted_values import type_name

MAX_ERRORS: Final = 10
"""The most errors in a value that are told."""


class _SchemaOfModel(GenerateJsonSchema):
    """Writes the schema without what tells a model nothing: titles that repeat the names of fields."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as pydantic has it

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - pydantic's signature
        """Whether a field gets a title that is made of its name."""
        return False


def schema_of_type(type_: object) -> JsonObject:
    """Return the JSON Schema of *type_*; raise whatever pydantic or the class raises if there is none."""
    schema = _adapter(type_).json_schema(schema_generator=_SchemaOfModel)
    return freeze_object(plain_unions(cast("Json", schema)))


def reader_of_type(type_: object) -> ReadValue:
    """Return the reader of *type_*: it raises `ValueError` with pydantic's locations if a value is wrong."""
    adapter = _adapter(type_)
    cls = type_ if isinstance(type_, type) and hasattr(type_, "model_validate") else None

    def read(value: object) -> object:
        text = to_text(cast("Json", value))
        try:
            instance = adapter.validate_json(text, strict=True)
        except ValidationError as why:
            raise ValueError(_error_text(why)) from why
        if cls is not None and not isinstance(instance, cls):  # a validator of the model may return anything
            raise ValueError(f"the validators of `{cls.__name__}` returned a `{type_name(instance)}`")
        return instance

    return read


def _adapter(type_: object) -> TypeAdapter[object]:
    return TypeAdapter(cast("type[object]", type_))


def _error_text(why: ValidationError) -> str:
    """Return the errors in *why* as one line, each with its location, and without the values."""
    errors = why.errors(include_url=False, include_context=False, include_input=False)
    texts = [
        ": ".join(filter(None, (f"`{'.'.join(map(str, error['loc']))}`" if error["loc"] else "", error["msg"])))
        for error in errors[:MAX_ERRORS]
    ]
    rest = len(errors) - len(texts)
    return "; ".join([*texts, f"and {rest} more"] if rest else texts)
