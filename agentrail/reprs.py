"""How objects that are no values show themselves in a debugger and in a log: `<Session 'x' streaming, 2 queued>`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

T = TypeVar("T")


def in_brackets(describe: Callable[[T], str]) -> Callable[[T], str]:
    """Return a `__repr__` that puts the class and what *describe* says into brackets, and never raises.

    *describe* may show ids, names, paths and sizes that are at hand. It may not loop over what grows, and may not show
    arguments, headers or environments: they may hold secrets.
    """

    @wraps(describe)
    def show(self: T) -> str:
        try:
            words = describe(self)
        except Exception:  # noqa: BLE001 - the object is not all there: a debugger may stop within its `__init__`
            words = "half-made"
        return f"<{type(self).__name__} {words}>"

    return show


def listed(*words: str) -> str:
    """Join the words that are not empty by commas."""
    return ", ".join(filter(None, words))


def some(count: int, one: str, many: str = "") -> str:
    """Return *count* with the noun, `""` for none; without *many*, the plural is *one* with an `s`."""
    noun = one if count == 1 else many or f"{one}s"
    return f"{count} {noun}" if count else ""
