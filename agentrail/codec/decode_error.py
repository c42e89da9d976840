"""`MisfitError`, the only exception inside the codec, and words for its messages.

The functions of `agentrail.codec.values` turn it into a public error.
"""

from __future__ import annotations

import math
import re
from enum import Enum
from typing import Final, cast

import msgspec

from agentrail.values.json import INT_MAX, INT_MIN

_LONGEST = 400
"""The most characters of a path that a message shows."""


class MisfitError(Exception):
    """A value cannot be written as JSON, or JSON cannot be read as a value.

    Each enclosing level catches it, adds its own part of the path (`under`) and raises it again.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.problem = problem
        self._path = [path]

    def under(self, part: str) -> None:
        """Put *part* before the path of the error, when the error leaves an enclosing value."""
        self._path.append(part)

    @property
    def subject(self) -> str:
        """The path of the value in question, as the subject of a sentence: "its `items[3].name`", or "it"."""
        path = "".join(reversed(self._path)).removeprefix(".")
        if len(path) > _LONGEST:
            path = f"{path[: _LONGEST // 2]}…{path[-_LONGEST // 2 :]}"
        return f"its `{path}`" if path else "it"


_PARTS: Final = re.compile(r"(.*?)(?: - at `[$]([^`]*)`)?(?: - at `[$]([^`]*)`)?", re.DOTALL)
"""Splits a message of msgspec. One that passed a hook has two paths; the first begins where the second ends."""

_WORDS: Final = tuple(
    (re.compile(pattern, re.DOTALL), words)
    for pattern, words in (
        (r"Expected `(.+)`, got `(.+)`", "is {1} where {0} is wanted"),
        (r"Expected `array` of length (.+), got (.+)", "holds {1} things where {0} are wanted"),
        (r"Expected `(?:str|array)` of length >= 1", "is empty"),
        (r"Expected `str` of length >= (.+)", "has fewer than {0} characters"),
        (r"Expected `str` of length <= (.+)", "has more than {0} characters"),
        (r"Expected `array` of length >= (.+)", "has fewer than {0} items"),
        (r"Expected `array` of length <= (.+)", "has more than {0} items"),
        (r"Expected `(?:int|float)` >= (.+)", "is less than {0}"),
        (r"Object missing required field `(.+)`", "lacks `{0}`"),
        (r"Object contains unknown field `(.*)`", "has the key `{0}`, which is not known"),
        (r"Invalid (?:enum )?value .*", "is none of those that are known"),  # the value itself may be a secret
        (r"((?:is|names|holds) .*)", "{0}"),
        (r"(.*)", "does not fit: {0}"),
    )
)


_NAMES: Final = {
    "NoneType": "nothing",
    "array": "an array",
    "bool": "a boolean",
    "dict": "an object",
    "float": "a number",
    "int": "a whole number",
    "list": "an array",
    "null": "nothing",
    "object": "an object",
    "str": "text",
    "tuple": "an array",
}
"""What messages call the types of JSON."""


def misfit_of(why: Exception) -> MisfitError:
    """Return our error for *why*, which msgspec raised: with the path and the problem, but without the value itself."""
    problem, inner, outer = cast("re.Match[str]", _PARTS.fullmatch(str(why))).groups(default="")
    if not outer:
        inner, outer = "", inner
    match, words = next((match, words) for pattern, words in _WORDS if (match := pattern.fullmatch(problem)))
    return MisfitError(outer + inner, words.format(*map(_type_names, match.groups())))


def _type_names(names: str) -> str:
    return " or ".join(_NAMES.get(name, shorten(name)) for name in names.split(" | "))


def blemish(value: object) -> str | None:
    """Return why *value*, which is no container, cannot be stored as JSON; `None` if it can."""
    if isinstance(value, str) and not value.isascii() and value.encode(errors="replace").decode() != value:
        return "is text with half a surrogate pair"
    if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        return "is a whole number that does not fit 64 bits"
    if isinstance(value, float) and not math.isfinite(value):
        return f"is {value}, which JSON cannot hold"
    fits = isinstance(value, (str, int, float, Enum, list, dict, type(None), msgspec.UnsetType))
    return None if fits else f"is {one(type(value))}, which JSON cannot hold"


def wrong(path: str, value: object, expected: object) -> MisfitError:
    """Return the error for *value*, at path *path*, which is not *expected*: a class, a type hint, or its name."""
    cls = cast("type[object]", expected) if isinstance(expected, type) else None
    called = f"`{expected}`" if cls is None else _NAMES.get(cls.__name__) or one(cls)
    return MisfitError(path, f"{describe(value)} where {called} is wanted")


def describe(value: object) -> str:
    """Return a predicate with the type of *value*, such as "is a `dict`"; the content may be secret."""
    return "is nothing" if value is None else f"is {one(type(value))}"


def one(cls: type[object]) -> str:
    """Return the name of *cls* with its article, such as "an `int`"."""
    return f"{'an' if cls.__name__[0] in 'aeioAEIO' else 'a'} `{cls.__name__}`"


def shorten(name: object) -> str:
    """Return *name*, of a key or a class, for a message: cut to 60 characters, with non-ASCII characters escaped."""
    text = str(name)
    return ascii(text if len(text) <= 60 else text[:57] + "...")[1:-1]  # noqa: PLR2004 - about half a line
