"""Describes and reads types of pydantic, by pydantic itself; imported only if a program has such a type.

A value is read as JSON in pydantic's strict mode: a text becomes a date or a `Decimal`, which JSON lacks, but no `int`
and no `bool`. So the types of a value are those that its schema names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode

from agentrail.codec.json_text import to_text
from agentrail.values.json import Json
from agentrail.values.untrusted_values import type_name

MAX_ERRORS: Final = 10
"""The most errors in a value that are told."""


class PydanticType:
    """A type that pydantic reads as a whole: a model, or a type made of models."""

    __slots__ = ("_cls", "adapter")

    def __init__(self, annotation: object) -> None:
        self.adapter: TypeAdapter[object] = TypeAdapter(cast("type[object]", annotation))
        self._cls = annotation if isinstance(annotation, type) and hasattr(annotation, "model_validate") else None

    def read(self, value: object) -> object:
        """Return the object of *value*, which is JSON; raise `ValueError` with pydantic's locations if it is wrong."""
        text = to_text(cast("Json", value))
        try:
            instance = self.adapter.validate_json(text, strict=True)
        except ValidationError as why:
            raise ValueError(_error_text(why)) from why
        if self._cls is not None and not isinstance(instance, self._cls):  # a validator may return anything
            raise ValueError(f"the validators of `{self._cls.__name__}` returned a `{type_name(instance)}`")
        return instance


class _SchemaOfModel(GenerateJsonSchema):
    """Writes the schema without what tells a model nothing: titles that repeat the names of fields."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - as pydantic has it

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - pydantic's signature
        """Whether a field gets a title that is made of its name."""
        return False


def schemas_of(types: Sequence[PydanticType], ref_template: str) -> tuple[list[object], dict[str, object]]:
    """Return the JSON Schema of each of *types*, and the definitions of all by name.

    Raise whatever pydantic or a class raises if one has no schema.
    """
    numbered: list[tuple[int, JsonSchemaMode, TypeAdapter[object]]] = [
        (number, "validation", type_.adapter) for number, type_ in enumerate(types)
    ]
    schemas, document = TypeAdapter.json_schemas(numbered, schema_generator=_SchemaOfModel, ref_template=ref_template)
    definitions = cast("dict[str, object]", document.get("$defs", {}))
    return [schemas[number, "validation"] for number in range(len(types))], definitions


def _error_text(why: ValidationError) -> str:
    """Return the errors in *why* as one line, each with its location, and without the values."""
    errors = why.errors(include_url=False, include_context=False, include_input=False)
    texts = [
        ": ".join(filter(None, (f"`{'.'.join(map(str, error['loc']))}`" if error["loc"] else "", error["msg"])))
        for error in errors[:MAX_ERRORS]
    ]
    rest = len(errors) - len(texts)
    return "; ".join([*texts, f"and {rest} more"] if rest else texts)
