"""Regular expressions whose search is limited in time, so that no pattern holds up the other sessions.

`re` cannot be stopped. The library `regex` can, and reads expressions as `re` does, but for `[[:alpha:]]`.
Compiling has no time limit, but takes time in proportion to the parts of an expression; so these are counted before,
with the parser of `re`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib import import_module
from time import thread_time
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

from agentrail.values.step_budget import Meter, TooManyStepsError

if TYPE_CHECKING:  # imported late, so that a program without patterns does not pay for it
    import regex

MAX_PATTERN: Final = 4_096
"""The most characters of an expression; a longer one is refused (`UnusableError`)."""

MAX_PARTS: Final = 5_000
"""The most parts of an expression, each counted as often as it is repeated at least; one with more is refused."""

MAX_GROUPS: Final = 50
"""The most groups inside each other in an expression; one with more is refused (`UnusableError`)."""

SECONDS: Final = 0.01
"""The most seconds of CPU of one search; beyond it, `Expression.found_in` raises `TooManyStepsError`."""

_EXPRESSIONS: Final = 512
"""The most compiled expressions that are cached."""

_SEARCH: Final = 10
"""The steps that a search counts as, beside those for its text and for its time."""
_CHARS: Final = 64
"""The characters of a text that count as one step."""
_TIME: Final = 3
"""The steps that a microsecond counts as, so that all steps of a check are 17 milliseconds of searching at most."""
_QUICK: Final = 20
"""The microseconds of a search that are not counted, so that the steps of a usual one are the same on all machines."""

_Part: TypeAlias = tuple[object, object]


class _Tree(Protocol):
    """An expression, as the parser of `re` returns it."""

    def __iter__(self) -> Iterator[_Part]: ...

    def getwidth(self) -> tuple[int, int]: ...


_PARSER: Final = import_module("re._parser")
"""The parser of `re`. It is not public, but no other parser reads expressions exactly as `re` does."""
_parse: Final = cast("Callable[[str, int], _Tree]", _PARSER.parse)
_ENDLESS: Final = cast("int", _PARSER.MAXREPEAT)
_LITERAL_BRACE: Final = re.compile(r"(\\.)|\{(?!\d*,?\d*\})", re.DOTALL)
"""A brace that `re` takes for itself, and `regex` for the beginning of an inexact match."""


class UnusableError(ValueError):
    """An expression cannot be used; the text says why, in words that follow "it"."""


class Expression:
    """A compiled regular expression."""

    __slots__ = ("native", "parts")

    def __init__(self, native: regex.Pattern[str], parts: int) -> None:
        self.native = native
        self.parts = parts
        """The number of its parts, each counted as often as it is repeated at least."""

    def found_in(self, text: str, meter: Meter) -> bool:
        """Whether the expression matches anywhere in *text*; raise `TooManyStepsError` if it takes too long.

        A search that takes more than a few microseconds spends `_TIME` steps of *meter* for each.
        """
        meter.spend(_SEARCH + len(text) // _CHARS)
        begun = thread_time()
        try:
            match = self.native.search(text, timeout=min(SECONDS, (1 + meter.left) / _TIME / 1e6))
        except TimeoutError:
            meter.left = -1
            raise TooManyStepsError from None
        microseconds = int((thread_time() - begun) * 1e6)
        if microseconds > _QUICK:
            meter.spend(_TIME * microseconds)
        return match is not None


@lru_cache(maxsize=_EXPRESSIONS)
def expression(pattern: str, flags: int = 0) -> Expression:
    """Compile *pattern*, which has the syntax of `re`; raise `UnusableError` if it is none, or has too many parts."""
    import regex  # noqa: PLC0415 - only programs with patterns need it

    parts = count_parts(pattern, flags)
    ignored = regex.IGNORECASE if flags & re.IGNORECASE else 0
    try:
        return Expression(regex.compile(_LITERAL_BRACE.sub(_escaped, pattern), ignored), parts)
    except regex.error as why:
        raise UnusableError(f"is no regular expression: {why}") from why


def flaw_of(pattern: str) -> str | None:
    """Return why *pattern* cannot be used, in words that follow "it"; `None` if it can."""
    try:
        expression(pattern)
    except UnusableError as why:
        return str(why)
    return None


def count_parts(pattern: str, flags: int = 0) -> int:
    """Return the number of parts of *pattern*; raise `UnusableError` if it cannot be used. Nothing is compiled."""
    if len(pattern) > MAX_PATTERN:
        raise UnusableError(f"has more than {MAX_PATTERN} characters; make it shorter")
    try:
        parts = _count(_parse(pattern, flags), 0)
    except (re.error, OverflowError) as why:
        raise UnusableError(f"is no regular expression: {why}") from why
    except RecursionError as why:
        raise UnusableError(f"has more than {MAX_GROUPS} groups inside each other") from why
    if parts > MAX_PARTS:
        raise UnusableError(f"repeats its groups more than {MAX_PARTS} times; repeat them less")
    return parts


def begins_endless(pattern: str) -> bool:
    """Whether *pattern* begins with a repetition that has no bound, so that a match may begin anywhere before it."""
    return _begins_endless(_parse(pattern, 0))


def width_of(pattern: str) -> int | None:
    """Return the most characters that a match of *pattern* may have; `None` if there is no bound."""
    most = _parse(pattern, 0).getwidth()[1]
    return None if most >= _ENDLESS - 1 else most


def _begins_endless(tree: Iterable[_Part]) -> bool:
    kind, argument = next(iter(tree), ("", ()))
    parts = cast("tuple[object, ...]", argument)
    match str(kind):
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            return parts[1] == _ENDLESS or _begins_endless(cast("_Tree", parts[2]))
        case "SUBPATTERN":
            return _begins_endless(cast("_Tree", parts[-1]))
        case "ATOMIC_GROUP":
            return _begins_endless(cast("_Tree", argument))
        case "BRANCH":
            return any(map(_begins_endless, cast("list[_Tree]", parts[1])))
        case _:
            return False


def _escaped(match: re.Match[str]) -> str:
    return match[1] or r"\{"


def _count(tree: Iterable[_Part], depth: int) -> int:
    """Return the number of parts of *tree*, which is inside *depth* groups."""
    if depth > MAX_GROUPS:
        raise RecursionError
    total = 0
    for kind, argument in tree:
        parts = cast("tuple[object, ...]", argument)
        match str(kind):
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                total += max(1, cast("int", parts[0])) * _count(cast("_Tree", parts[2]), depth)
            case "SUBPATTERN" | "ASSERT" | "ASSERT_NOT":
                total += _count(cast("_Tree", parts[-1]), depth + 1)
            case "ATOMIC_GROUP":
                total += _count(cast("_Tree", argument), depth + 1)
            case "BRANCH":
                total += sum(_count(way, depth) for way in cast("list[_Tree]", parts[1]))
            case "GROUPREF_EXISTS":
                total += sum(_count(way, depth + 1) for way in cast("tuple[_Tree | None, ...]", parts[1:]) if way)
            case "IN":
                total += len(parts)
            case _:
                pass
        total += 1
    return total
