"""Parses regular expressions into parts, with the parser of `re`, so that they mean exactly what they mean in `re`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Final, Protocol, TypeAlias, cast

from agentrail.values.value import Value

MAX_PATTERN: Final = 4_096
"""The most characters of an expression; a longer one is refused (`UnusableError`)."""

MAX_GROUPS: Final = 50
"""The most groups inside each other in an expression; one with more is refused (`UnusableError`)."""

MAX_CASELESS: Final = 200_000
"""The most characters in all classes of a case-insensitive expression; one with more is refused, as slow to compile."""

_Node: TypeAlias = tuple[object, object]


class _State(Protocol):
    flags: int


class _Tree(Protocol):
    """The tree of an expression, as the parser of `re` returns it."""

    state: _State

    def __iter__(self) -> Iterator[_Node]: ...

    def getwidth(self) -> tuple[int, int]: ...


_PARSER: Final = import_module("re._parser")
"""The parser of `re`. It is not public, but no other parser reads expressions exactly as `re` does."""
_parse: Final = cast("Callable[[str, int], _Tree]", _PARSER.parse)
_ANY_NUMBER: Final = cast("int", _PARSER.MAXREPEAT)

_CATEGORIES: Final = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
_PLACES: Final = {
    "AT_BEGINNING": "^",
    "AT_BEGINNING_STRING": r"\A",
    "AT_END": "$",
    "AT_END_STRING": r"\Z",
    "AT_BOUNDARY": r"\b",
    "AT_NON_BOUNDARY": r"\B",
}
_STARTS: Final = ("AT_BEGINNING", "AT_BEGINNING_STRING")
_ONE: Final = ("LITERAL", "NOT_LITERAL", "IN", "ANY")


class UnusableError(ValueError):
    """An expression cannot be searched for in counted steps; the text says why, in words that follow "it"."""


class Atom(Value, gc=True):
    """A part that matches one character, or a place between two (such as `^` and `$`)."""

    fits: Callable[[str, int], re.Match[str] | None]
    """The method `match` of a compiled expression for this atom alone."""
    at_start: bool = False
    """Whether the atom matches only at the start of the text."""


class Branch(Value, gc=True):
    """A part that matches one of several sequences: `a|b`."""

    ways: tuple[Parts, ...]
    """The sequences, of which one must match."""


class Repeat(Value, gc=True):
    """A part that repeats a sequence. Greedy or not is left out: it makes no difference to whether there is a match."""

    inner: Parts
    """The sequence."""
    least: int
    """Smallest number of repetitions."""
    most: int | None
    """Largest number of repetitions; `None` if any number is allowed."""


class LookAround(Value, gc=True):
    """A look-ahead or look-behind: a sequence that must, or must not, match here without taking characters."""

    inner: Parts
    """The sequence."""
    back: int
    """The number of characters to go back before matching; 0 for a look-ahead."""
    wanted: bool
    """Whether the sequence must match; if not, it must not match."""


Part: TypeAlias = Atom | Branch | Repeat | LookAround
Parts: TypeAlias = tuple[Part, ...]


def read(pattern: str, flags: int = 0) -> tuple[Parts, int]:
    """Return the parts of *pattern*, and the number of characters in its case-insensitive classes.

    Raise `UnusableError` if it is no regular expression, or one that cannot be searched for in counted steps.
    """
    if len(pattern) > MAX_PATTERN:
        raise UnusableError(f"has more than {MAX_PATTERN} characters; make it shorter")
    try:
        tree = _parse(pattern, flags)
        reader = _Reader()
        return reader.read(tree, tree.state.flags, 0), reader.caseless
    except (re.error, OverflowError) as why:
        raise UnusableError(f"is no regular expression: {why}") from why
    except RecursionError as why:
        raise UnusableError(f"has more than {MAX_GROUPS} groups inside each other") from why


class _Reader:
    """Turns the tree of the parser of `re` into parts."""

    __slots__ = ("caseless",)

    def __init__(self) -> None:
        self.caseless = 0

    def read(self, tree: object, flags: int, depth: int) -> Parts:
        """Return the parts of *tree*, which is inside *depth* groups."""
        if depth > MAX_GROUPS:
            raise RecursionError
        return tuple(part for op, said in cast("_Tree", tree) for part in self._parts(str(op), said, flags, depth + 1))

    def _parts(self, op: str, said: object, flags: int, depth: int) -> Parts:
        if op in _ONE:
            return (Atom(_matcher(self._written(op, said, flags), flags)),)
        match op:
            case "SUBPATTERN":
                _, added, taken, inner = cast("tuple[object, int, int, object]", said)
                return self.read(inner, (flags | added) & ~taken, depth)
            case "BRANCH":
                ways = cast("tuple[object, list[object]]", said)[1]
                return (Branch(tuple(self.read(way, flags, depth) for way in ways)),)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, inner = cast("tuple[int, int, object]", said)
                return (Repeat(self.read(inner, flags, depth), least, None if most == _ANY_NUMBER else most),)
            case "ASSERT" | "ASSERT_NOT":
                direction, tree = cast("tuple[int, _Tree]", said)
                return (
                    LookAround(
                        self.read(tree, flags, depth), tree.getwidth()[0] if direction < 0 else 0, op == "ASSERT"
                    ),
                )
            case "AT":
                at_start = str(said) in _STARTS and not flags & re.MULTILINE
                return (Atom(_matcher(_PLACES[str(said)], flags), at_start),)
            case "FAILURE":
                return (Branch(()),)
            case _:
                raise UnusableError("refers back to a group, or does not go back into one; write it without")

    def _written(self, op: str, said: object, flags: int) -> str:
        """Return the source of an expression that matches this one character or class."""
        if op == "ANY":
            return "."
        if op == "LITERAL":
            return _escaped(said)
        if op == "NOT_LITERAL":
            return f"[^{_escaped(said)}]"
        written = ""
        for inner_op, inner in cast("list[_Node]", said):
            match str(inner_op):
                case "NEGATE":
                    written += "^"
                case "RANGE":
                    low, high = cast("tuple[int, int]", inner)
                    self._count(high - low, flags)
                    written += f"{_escaped(low)}-{_escaped(high)}"
                case "CATEGORY":
                    written += _CATEGORIES[str(inner)]
                case _:
                    written += _escaped(inner)
        return f"[{written}]"

    def _count(self, characters: int, flags: int) -> None:
        self.caseless += min(characters, 0x10000) if flags & re.IGNORECASE else 0
        if self.caseless > MAX_CASELESS:
            raise UnusableError("ignores the case of too many characters; make its classes smaller")


def _escaped(character: object) -> str:
    return f"\\U{cast('int', character):08x}"


def _matcher(source: str, flags: int) -> Callable[[str, int], re.Match[str] | None]:
    return _compiled(source, flags & (re.IGNORECASE | re.ASCII | re.MULTILINE | re.DOTALL)).match


@lru_cache(maxsize=1_024)
def _compiled(source: str, flags: int) -> re.Pattern[str]:
    return re.compile(source, flags)
