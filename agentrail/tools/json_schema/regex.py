"""Searches text for a regular expression in counted steps; the verdicts are those of `re`.

A search by `re` cannot be stopped. So `re` is used only if the worst case of its backtracking is known and small
enough. All other searches run here: the expression is a graph of states, and no state is entered twice at the same
place of the text. Their steps are at most the length of the expression times the length of the text.

Parses regular expressions into parts, with the parser of `re`, so that they mean exactly what they mean in `re`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Final, Protocol, TypeAlias, cast

from agentrail.values.step_budget import Meter, TooManyStepsError
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

    ways: tuple[RegexParts, ...]
    """The sequences, of which one must match."""


class Repeat(Value, gc=True):
    """A part that repeats a sequence. Greedy or not is left out: it makes no difference to whether there is a match."""

    inner: RegexParts
    """The sequence."""
    least: int
    """Smallest number of repetitions."""
    most: int | None
    """Largest number of repetitions; `None` if any number is allowed."""


class LookAround(Value, gc=True):
    """A look-ahead or look-behind: a sequence that must, or must not, match here without taking characters."""

    inner: RegexParts
    """The sequence."""
    back: int
    """The number of characters to go back before matching; 0 for a look-ahead."""
    wanted: bool
    """Whether the sequence must match; if not, it must not match."""


RegexPart: TypeAlias = Atom | Branch | Repeat | LookAround
RegexParts: TypeAlias = tuple[RegexPart, ...]


def parse_pattern(pattern: str, flags: int = 0) -> tuple[RegexParts, int]:
    """Return the parts of *pattern*, and the number of characters in its case-insensitive classes.

    Raise `UnusableError` if it is no regular expression, or one that cannot be searched for in counted steps.
    """
    if len(pattern) > MAX_PATTERN:
        raise UnusableError(f"has more than {MAX_PATTERN} characters; make it shorter")
    try:
        tree = _parse(pattern, flags)
        reader = _PatternReader()
        return reader.read(tree, tree.state.flags, 0), reader.caseless
    except (re.error, OverflowError) as why:
        raise UnusableError(f"is no regular expression: {why}") from why
    except RecursionError as why:
        raise UnusableError(f"has more than {MAX_GROUPS} groups inside each other") from why


class _PatternReader:
    """Turns the tree of the parser of `re` into parts."""

    __slots__ = ("caseless",)

    def __init__(self) -> None:
        self.caseless = 0

    def read(self, tree: object, flags: int, depth: int) -> RegexParts:
        """Return the parts of *tree*, which is inside *depth* groups."""
        if depth > MAX_GROUPS:
            raise RecursionError
        return tuple(
            part for op, argument in cast("_Tree", tree) for part in self._parts(str(op), argument, flags, depth + 1)
        )

    def _parts(self, op: str, argument: object, flags: int, depth: int) -> RegexParts:
        if op in _ONE:
            return (Atom(_matcher(self._source(op, argument, flags), flags)),)
        match op:
            case "SUBPATTERN":
                _, added, removed, inner = cast("tuple[object, int, int, object]", argument)
                return self.read(inner, (flags | added) & ~removed, depth)
            case "BRANCH":
                ways = cast("tuple[object, list[object]]", argument)[1]
                return (Branch(tuple(self.read(way, flags, depth) for way in ways)),)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, inner = cast("tuple[int, int, object]", argument)
                return (Repeat(self.read(inner, flags, depth), least, None if most == _ANY_NUMBER else most),)
            case "ASSERT" | "ASSERT_NOT":
                direction, tree = cast("tuple[int, _Tree]", argument)
                return (
                    LookAround(
                        self.read(tree, flags, depth), tree.getwidth()[0] if direction < 0 else 0, op == "ASSERT"
                    ),
                )
            case "AT":
                at_start = str(argument) in _STARTS and not flags & re.MULTILINE
                return (Atom(_matcher(_PLACES[str(argument)], flags), at_start),)
            case "FAILURE":
                return (Branch(()),)
            case _:
                raise UnusableError("refers back to a group, or does not go back into one; write it without")

    def _source(self, op: str, argument: object, flags: int) -> str:
        """Return the source of an expression for this character or class alone."""
        if op == "ANY":
            return "."
        if op == "LITERAL":
            return _escape(argument)
        if op == "NOT_LITERAL":
            return f"[^{_escape(argument)}]"
        pattern = ""
        for inner_op, inner in cast("list[_Node]", argument):
            match str(inner_op):
                case "NEGATE":
                    pattern += "^"
                case "RANGE":
                    low, high = cast("tuple[int, int]", inner)
                    self._count(high - low, flags)
                    pattern += f"{_escape(low)}-{_escape(high)}"
                case "CATEGORY":
                    pattern += _CATEGORIES[str(inner)]
                case _:
                    pattern += _escape(inner)
        return f"[{pattern}]"

    def _count(self, characters: int, flags: int) -> None:
        self.caseless += min(characters, 0x10000) if flags & re.IGNORECASE else 0
        if self.caseless > MAX_CASELESS:
            raise UnusableError("ignores the case of too many characters; make its classes smaller")


def _escape(character: object) -> str:
    return f"\\U{cast('int', character):08x}"


def _matcher(source: str, flags: int) -> Callable[[str, int], re.Match[str] | None]:
    return _compile(source, flags & (re.IGNORECASE | re.ASCII | re.MULTILINE | re.DOTALL)).match


@lru_cache(maxsize=1_024)
def _compile(source: str, flags: int) -> re.Pattern[str]:
    return re.compile(source, flags)


MAX_STATES: Final = 5_000
"""The most states of an expression's program; beyond it only `re` is used, or if that may be slow, it is refused."""

CASELESS: Final = 4
"""The number of characters in case-insensitive classes that `re` compiles in the time of one counted step."""

NATIVE_STEPS: Final = 32
"""The number of steps of `re` that take the time of one counted step."""

_COMPUTED: Final = 64
"""The most repetitions of a group for which its worst case in `re` is computed; above it, `re` is not used."""

_EXPRESSIONS: Final = 512
"""The most compiled expressions that are cached."""


class Regex:
    """A regular expression that can be searched for in counted steps; raise `UnusableError` if *pattern* cannot."""

    __slots__ = ("_anchored", "_native", "_parts", "_program", "_size", "work")

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._parts, caseless = parse_pattern(pattern, flags)
        self._anchored = _is_at_start(self._parts)
        self._size = _size(self._parts)
        self._native = re.compile(pattern, flags) if math.isfinite(self._worst(0)) else None
        try:
            self._program: _Program | None = _Program(self._parts, Meter(MAX_STATES))
        except TooManyStepsError:
            if self._native is None:
                raise UnusableError(f"repeats its groups more than {MAX_STATES} times; repeat them less") from None
            self._program = None
        self.work = 2 * (MAX_STATES if self._program is None else self._program.size) + caseless // CASELESS
        """The steps that compiling the expression counts as."""

    def found_in(self, text: str, meter: Meter) -> bool:
        """Whether the expression matches anywhere in *text*; raise `TooManyStepsError` if *meter* runs out of steps."""
        meter.spend(self._size)
        worst = self._worst(len(text)) if self._native is not None else math.inf
        if self._native is not None and worst <= meter.left * NATIVE_STEPS:
            meter.spend(int(worst) // NATIVE_STEPS)
            return self._native.search(text) is not None
        return self.found_step_by_step(text, meter)

    def found_step_by_step(self, text: str, meter: Meter) -> bool:
        """Search without `re`, even if `re` could be used; tests compare both."""
        if self._program is None:
            raise TooManyStepsError
        states: set[int] = set()
        places = 1 if self._anchored else len(text) + 1
        return any(self._program.run(text, place, meter, states) for place in range(places))

    def _worst(self, length: int) -> float:
        """Return the worst-case steps of `re` in a text of *length* characters."""
        places = 1 if self._anchored else length + 1
        own, tries = _worst(self._parts, length)
        return length + places * (own + tries)


@lru_cache(maxsize=_EXPRESSIONS)
def regex(pattern: str) -> Regex:
    """Return *pattern* as an expression; raise `UnusableError` if it cannot be searched for in counted steps."""
    return Regex(pattern)


def flaw_of(pattern: str) -> str | None:
    """Return why *pattern* cannot be searched for in counted steps, in words that follow "it"; `None` if it can."""
    try:
        regex(pattern)
    except UnusableError as why:
        return str(why)
    return None


# Worst cases of backtracking in `re`


def _worst(parts: RegexParts, length: int) -> tuple[float, float]:
    """Return the most steps that `re` takes for *parts* at one place, and how often it tries the parts after them."""
    own, tries = 0.0, 1.0
    for part in parts:
        more, again = _worst_of(part, length)
        own += tries * more
        tries *= again
    return own, tries


def _worst_of(part: RegexPart, length: int) -> tuple[float, float]:
    match part:
        case Atom():
            return 1, 1
        case Branch(ways):
            worsts = [_worst(way, length) for way in ways]
            return 1 + sum(own for own, _ in worsts), sum(tries for _, tries in worsts)
        case LookAround(inner):
            return _worst(inner, length)[0], 1
        case Repeat((Atom(),), least, most):
            longest = length if most is None else min(most, length)
            return 1 + longest, max(longest - least + 1, 0)
        case Repeat(inner, _, most):
            return _worst_of_group(inner, most, length)


def _worst_of_group(inner: RegexParts, most: int | None, length: int) -> tuple[float, float]:
    if most is None or most > _COMPUTED:
        return math.inf, math.inf
    own, tries = _worst(inner, length)
    total = (0.0, 1.0)
    for _ in range(most):  # at each repetition `re` tries the group once more, or the parts after it
        total = 1 + own + tries * total[0], 1 + tries * total[1]
    return total


def _size(parts: RegexParts) -> int:
    """Return the number of parts, nested ones included."""
    size = 0
    for part in parts:
        match part:
            case Atom():
                size += 1
            case Branch(ways):
                size += 1 + sum(map(_size, ways))
            case Repeat(inner) | LookAround(inner):
                size += 1 + _size(inner)
    return size


def _is_at_start(parts: RegexParts) -> bool:
    """Whether a match of *parts* can begin only at the start of the text, because its first part says so."""
    match parts[:1]:
        case (Atom(at_start=at_start),):
            return at_start
        case (Branch(ways),):
            return all(_is_at_start(way) for way in ways)
        case _:
            return False


# The search in counted steps, in which no state is entered twice at the same place


class _Program:
    """An expression as a list of states: each has a test of the text, and the states that may follow it."""

    __slots__ = ("_start", "_states", "back", "wanted")

    def __init__(self, parts: RegexParts, room: Meter, back: int = 0, *, must_match: bool = True) -> None:
        self.back = back
        """The number of characters to go back before matching; not 0 only for a look-behind."""
        self.wanted = must_match
        """Whether the program must match; false only for a negative look-around."""
        self._states: list[tuple[_Test, tuple[int, ...]]] = [(None, ())]
        self._start = self._add(parts, 0, room)

    @property
    def size(self) -> int:
        """Number of states."""
        return len(self._states)

    def _add(self, parts: RegexParts, after: int, room: Meter) -> int:
        """Add the states of *parts*, from the last to the first, before the state *after*; return the first state."""
        for part in reversed(parts):
            match part:
                case Atom(fits):
                    after = self._state(fits, (after,), room)
                case LookAround(inner, back, must_match):
                    after = self._state(_Program(inner, room, back, must_match=must_match), (after,), room)
                case Branch(ways):
                    after = self._state(None, tuple(self._add(way, after, room) for way in ways), room)
                case Repeat():
                    after = self._repeat(part, after, room)
        return after

    def _repeat(self, repeat: Repeat, after: int, room: Meter) -> int:
        if repeat.most is None:
            again = self._state(None, (), room)
            first = self._add(repeat.inner, again, room)
            self._states[again] = (None, (first, after))
            entry = again
        else:
            entry = after
            for _ in range(repeat.most - repeat.least):
                first = self._add(repeat.inner, entry, room)
                entry = self._state(None, (first, after), room)
        for _ in range(repeat.least):
            entry = self._add(repeat.inner, entry, room)
        return entry

    def _state(self, test: _Test, after: tuple[int, ...], room: Meter) -> int:
        room.spend(1)
        self._states.append((test, after))
        return len(self._states) - 1

    def run(self, text: str, place: int, meter: Meter, visited: set[int]) -> bool:
        """Whether a match begins at *place*. Pairs of state and place in *visited* failed before, and are skipped."""
        states, width = self._states, len(text) + 1
        todo = [self._start * width + place]
        while todo:
            meter.spend(1)
            at = todo.pop()
            if at in visited:
                continue
            visited.add(at)
            state, here = divmod(at, width)
            if not state:
                return True
            test, after = states[state]
            end = _end(test, text, here, meter)
            if end is not None:
                todo.extend(state_ * width + end for state_ in after)
        return False


def _end(test: _Test, text: str, place: int, meter: Meter) -> int | None:
    """Return the place after the text that *test* matches at *place*; `None` if it does not match."""
    if test is None:
        return place
    if isinstance(test, _Program):
        start = place - test.back
        is_match = start >= 0 and test.run(text, start, meter, set())
        return place if is_match is test.wanted else None
    match = test(text, place)
    return None if match is None else match.end()


_Test: TypeAlias = Callable[[str, int], re.Match[str] | None] | _Program | None
"""The test of a state: an atom, a look-around, or `None` for no test."""
