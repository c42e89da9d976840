"""Describes and reads types of msgspec, by msgspec itself."""

from __future__ import annotations

from typing import cast

import msgspec

from agentrail.codec.json_text import to_text
from agentrail.tools.foreign_types import ReadValue, plain_unions
from agentrail.values.json import Json, JsonObject, freeze_object
from agentrail.values.value import learned


def schema_of_type(type_: object) -> JsonObject:
    """Return the JSON Schema of *type_*; raise whatever msgspec raises if there is none."""
    (schema,), definitions = msgspec.json.schema_components((learned(type_),), ref_template="#/$defs/{name}")
    whole = {**schema, "$defs": definitions} if definitions else schema
    return freeze_object(plain_unions(cast("Json", whole)))


def reader_of_type(type_: object) -> ReadValue:
    """Return the reader of *type_*: it raises `ValueError` with msgspec's location if a value is wrong."""
    decoder = msgspec.json.Decoder(cast("type[object]", learned(type_)))

    def read(value: object) -> object:
        text = to_text(cast("Json", value))
        try:
            return decoder.decode(text)
        except msgspec.ValidationError as why:
            raise ValueError(str(why)) from why

    return read
