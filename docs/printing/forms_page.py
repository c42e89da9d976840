"""What each kind of class may have that is the form of an answer or an argument of a tool, found by trying it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Final, TypedDict, cast

import attrs
import msgspec
from pydantic import BaseModel, Field, PlainValidator, field_validator
from pydantic.dataclasses import dataclass as pydantic_dataclass

from agentrail.errors import BadReturns
from agentrail.tools import Pattern
from agentrail.tools.answer_forms import form_of
from agentrail.values.json import Json, JsonObject, freeze_object
from docs.printing.markdown import table

ODD: Final = "odd"
"""The value that the validators of the classes below refuse."""


def _refuse_odd(text: str) -> str:
    if text == ODD:
        raise ValueError(ODD)
    return text


def _check(_: object, __: object, text: str) -> None:
    _refuse_odd(text)


@attrs.frozen
class _Attrs:
    """A class.

    Args:
        name: from the docstring
    """

    name: str = attrs.field(validator=_check, alias="aName")
    noted: Annotated[str, "beside it", Pattern("^a")] = "a"


@dataclass
class _Dataclass:
    """A class.

    Args:
        name: from the docstring
    """

    name: str
    noted: Annotated[str, "beside it", Pattern("^a")] = "a"

    def __post_init__(self) -> None:
        _refuse_odd(self.name)


class _TypedDict(TypedDict, total=False):
    """A dict.

    Args:
        name: from the docstring
    """

    name: str
    noted: Annotated[str, "beside it", Pattern("^a")]


class _Model(BaseModel):
    """A class.

    Args:
        name: from the docstring
    """

    name: str = Field(alias="aName")
    noted: Annotated[str, Field(description="beside it", pattern="^a")] = "a"

    _refuse = field_validator("name")(_refuse_odd)


@pydantic_dataclass
class _ModelDataclass:
    """A class.

    Args:
        name: from the docstring
    """

    name: Annotated[str, PlainValidator(_refuse_odd, json_schema_input_type=str), Field(alias="aName")]
    noted: Annotated[str, Field(description="beside it", pattern="^a")] = "a"


class _Struct(msgspec.Struct):
    """A class.

    Args:
        name: from the docstring
    """

    name: str = msgspec.field(name="aName")
    noted: Annotated[str, msgspec.Meta(description="beside it", pattern="^a")] = "a"

    def __post_init__(self) -> None:
        _refuse_odd(self.name)


@attrs.frozen
class _DatedAttrs:
    day: date


@dataclass
class _DatedDataclass:
    day: date


class _DatedDict(TypedDict):
    day: date


class _DatedModel(BaseModel):
    day: date


@pydantic_dataclass
class _DatedModelDataclass:
    day: date


class _DatedStruct(msgspec.Struct):
    day: date


KINDS: Final[tuple[tuple[str, type[object], type[object]], ...]] = (
    ("attrs", _Attrs, _DatedAttrs),
    ("dataclass", _Dataclass, _DatedDataclass),
    ("`TypedDict`", _TypedDict, _DatedDict),
    ("pydantic model", _Model, _DatedModel),
    ("pydantic dataclass", _ModelDataclass, _DatedModelDataclass),
    ("`msgspec.Struct`", _Struct, _DatedStruct),
)
"""Each kind of class: its name, a class with all that it may have, and one with a date."""

HEADER: Final = (
    "kind",
    "own checks",
    "limits beside a field",
    "descriptions from `Args`",
    "descriptions beside a field",
    "keys of other names",
    "unknown keys",
    "dates, sets, `Decimal`",
)


def kinds() -> list[str]:
    """Return the table of the kinds of classes."""
    return table(HEADER, [(name, *_cells(cls, dated)) for name, cls, dated in KINDS])


def _cells(cls: type[object], dated: type[object]) -> list[str]:
    schema = form_of(cls).schema
    fields = cast("JsonObject", schema["properties"])
    key = next(iter(fields))
    name, noted = (cast("JsonObject", fields[field]) for field in (key, "noted"))
    return [
        _said(not _reads(cls, {key: ODD})),
        _said("pattern" in noted),
        _said("description" in name),
        _said("description" in noted),
        _said(key == "aName"),
        "ignored" if _reads(cls, {key: "even", "unknown": 1}) else "refused",
        _said(_is_form(dated)),
    ]


def _said(holds: bool) -> str:
    return "yes" if holds else "no"


def _reads(cls: type[object], value: dict[str, Json]) -> bool:
    try:
        form_of(cls).read(freeze_object(value))
    except Exception:  # noqa: BLE001 - a class may refuse by any exception
        return False
    return True


def _is_form(cls: type[object]) -> bool:
    try:
        form_of(cls)
    except BadReturns:
        return False
    return True
