"""What callers give to the calls of a host: the fields that are there, and lists of texts."""

from __future__ import annotations

from collections.abc import Iterable

from agentrail.errors import WrongType
from agentrail.values.json import Json, JsonObject


def given(**fields: Json) -> JsonObject:
    """Return those of *fields* that are not `None`: the others are not sent."""
    return {name: value for name, value in fields.items() if value is not None}


def texts_of(argument: str, found: Iterable[str]) -> list[str]:
    """Return a list of texts; raise `WrongType` if it is one text, which would be taken apart."""
    if isinstance(found, str):
        raise WrongType.of(argument, found, "a list of texts")
    return list(found)
