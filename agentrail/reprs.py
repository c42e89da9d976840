"""Makes `__repr__` methods for objects that are not values, such as `<Session 'x' streaming, 2 queued>`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

T = TypeVar("T")


def in_brackets(describe: Callable[[T], str]) -> Callable[[T], str]:
    """Return a `__repr__` that shows the class and the result of *describe* in angle brackets, and never raises.

    *describe* may show ids, names, paths and sizes. It must not loop over collections that grow, and must not show
    arguments, headers or environment variables, because they may hold secrets.
    """

    @wraps(describe)
    def show(self: T) -> str:
        try:
            words = describe(self)
        except Exception:  # noqa: BLE001 - fields may be missing: a debugger may stop within `__init__`
            words = "half-made"
        return f"<{type(self).__name__} {words}>"

    return show


def listed(*words: str) -> str:
    """Return the non-empty *words*, joined by commas."""
    return ", ".join(filter(None, words))


def some(count: int, one: str, many: str = "") -> str:
    """Return *count* with a noun, as in "2 files"; empty for 0. *many* is the plural, by default *one* with `s`."""
    noun = one if count == 1 else many or f"{one}s"
    return f"{count} {noun}" if count else ""
