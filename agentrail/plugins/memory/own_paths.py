"""Validators for options that name files and folders below the working directory."""

from __future__ import annotations

from typing import Final, TypeVar

import attrs

from agentrail.errors import BadOptions
from agentrail.hooks.plugin import AnyPlugin
from agentrail.values.untrusted_values import plain_text, shown

T = TypeVar("T")

MAX_PATH: Final = 400
"""The most characters of a path in an option."""


def why_no_path(found: object) -> str | None:
    """Return why *found* names no file or folder below the working directory; `None` if it does."""
    text = plain_text(found)
    if text is None or not text or len(text) > MAX_PATH or not text.isprintable() or "\\" in text:
        return f"is {shown(found)}; write a path of at most {MAX_PATH} characters, such as `notes/MEMORY.md`"
    parts = text.split("/")
    if any(part in {"", ".", ".."} or part != part.strip() for part in parts):
        return f"is {shown(found)}; write it relative to the working directory, without `.`, `..` and empty parts"
    return None


def is_path(plugin: AnyPlugin, field: attrs.Attribute[T], found: T) -> None:
    """Raise `BadOptions` unless *found* is the path of a file or folder below the working directory."""
    problem = why_no_path(found)
    if problem is not None:
        raise BadOptions(type(plugin).__name__, f"its `{field.name}` {problem}")
