"""Marks on the annotations of stored fields: which texts a redaction replaces, and which it keeps.

A mark changes nothing for type checkers and for msgspec. A test demands one of each stored field that can hold text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Annotated, TypeAlias, TypeVar, get_args

import msgspec

T = TypeVar("T")


class Privacy(Enum):
    """What a redaction does with a field."""

    PERSONAL = "personal"
    KEPT = "kept"
    TOOL_NAME = "tool name"


Personal: TypeAlias = Annotated[T, Privacy.PERSONAL]
"""Texts of persons, of models and of tools: a redaction replaces them, and `Plugin.screen` sees them."""

Kept: TypeAlias = Annotated[T, Privacy.KEPT]
"""Texts that a session needs in order to come back, such as ids, kinds, models, options, and whose the session is."""

ToolName: TypeAlias = Annotated[str, Privacy.TOOL_NAME]
"""Name of a tool, which is kept; one that no tool of the session has had is the model's own text, and replaced."""


@cache
def privacy_of(cls: type[msgspec.Struct]) -> Mapping[str, Privacy]:
    """Return the privacy marks of the fields of *cls* by name; they are read from its type hints once."""
    return {field.name: privacy for field in msgspec.structs.fields(cls) for privacy in marks_in(field.type)}


def marks_in(hint: object) -> Iterator[Privacy]:
    """Yield the privacy marks in *hint*, at any depth."""
    if isinstance(hint, Privacy):
        yield hint
    for part in get_args(hint):
        yield from marks_in(part)
