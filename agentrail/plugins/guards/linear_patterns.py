"""Refuses regular expressions with which a search may take very long: no time grows faster than the text.

`re` cannot be stopped, and tries again what it has read in vain. So the most steps from one place of a text must be
known, except for one repetition without a bound that never has to be tried again from the places that it has read.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Final, Protocol, TypeAlias, cast

from agentrail.values.value import Value

MAX_STEPS: Final = 2_000
"""The most steps that a search may take from one place of a text."""

MAX_REPEATED: Final = 100
"""The most repetitions of a group."""

MAX_PATTERN: Final = 4_096
"""The most characters of a pattern."""

PatternNode: TypeAlias = tuple[object, object]
"""A part of a parsed expression: the name of its kind, and what it has."""


class ParsedPattern(Protocol):
    """A parsed expression."""

    def __iter__(self) -> Iterator[PatternNode]: ...

    def getwidth(self) -> tuple[int, int]:
        """Return the fewest and the most characters of a match."""
        ...


_PARSER: Final = import_module("re._parser")
"""The parser of `re`. It is not public, but no other parser reads expressions exactly as `re` does."""
_parse: Final = cast("Callable[[str], ParsedPattern]", _PARSER.parse)
_ENDLESS: Final = cast("int", _PARSER.MAXREPEAT)
_SINGLE: Final = ("LITERAL", "NOT_LITERAL", "ANY", "IN", "CATEGORY")
_REPEATS: Final = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


class UnboundedError(Exception):
    """A search for the expression may take too long; the text of the error says why, in words that follow "it"."""


class Cost(Value):
    """The cost of parts of an expression: the most steps at one place, and how often the parts after them are tried."""

    own: float = 0.0
    """The most steps of the parts themselves."""
    tries: float = 1.0
    """How many ends they may have."""

    def then(self, more: Cost) -> Cost:
        """Return the cost of these parts followed by *more*."""
        return Cost(self.own + self.tries * more.own, self.tries * more.tries)


def flaw_of(pattern: str) -> str | None:
    """Return why *pattern* cannot be used, in words that follow "it"; `None` if it can."""
    if len(pattern) > MAX_PATTERN:
        return f"has more than {MAX_PATTERN:,} characters"
    try:
        re.compile(pattern)
        tree = _parts(_parse(pattern))
        if re.search(pattern, "") is not None:
            return "matches the empty text, so it is everywhere"
        endless = _EndlessRepeats(tree, is_dotall=bool(re.compile(pattern).flags & re.DOTALL))
        endless.check()
        steps = _cost(tree).own * endless.reads
    except UnboundedError as why:
        return str(why)
    except (re.error, RecursionError, OverflowError) as error:
        return f"is no regular expression: {error}"
    if steps > MAX_STEPS:
        return (
            f"may take more than {MAX_STEPS:,} steps at each place of a text; repeat less, or without trying again:"
            " `{1,64}+`"
        )
    return None


def width_of(pattern: str) -> int | None:
    """Return the most characters that a match may have; `None` if there is no bound."""
    most = _parse(pattern).getwidth()[1]
    return None if most >= _ENDLESS - 1 else most


def _parts(parsed: object) -> tuple[PatternNode, ...]:
    return tuple((str(kind), value) for kind, value in cast("Iterable[PatternNode]", parsed))


def _inner(node: PatternNode) -> tuple[tuple[PatternNode, ...], ...]:
    """Return the sequences of parts inside *node*; empty if it has none."""
    kind = node[0]
    if kind == "ATOMIC_GROUP":
        return (_parts(node[1]),)
    if kind not in ("SUBPATTERN", "ASSERT", "ASSERT_NOT", "BRANCH", *_REPEATS):
        return ()
    last = cast("tuple[object, ...]", node[1])[-1]
    return tuple(map(_parts, cast("Iterable[object]", last))) if kind == "BRANCH" else (_parts(last),)


def _cost(parts: tuple[PatternNode, ...]) -> Cost:
    cost = Cost()
    for part in parts:
        cost = cost.then(_cost_of(part))
        if cost.own > 10 * MAX_STEPS:
            return cost
    return cost


def _cost_of(node: PatternNode) -> Cost:
    kind, inner = node[0], _inner(node)
    match kind:
        case "SUBPATTERN":
            return _cost(inner[0])
        case "BRANCH":
            ways = [_cost(way) for way in inner]
            return Cost(1 + sum(way.own for way in ways), sum(way.tries for way in ways))
        case "ATOMIC_GROUP" | "ASSERT" | "ASSERT_NOT":
            return Cost(_cost(inner[0]).own, 1)
        case "AT":
            return Cost(1, 1)
        case _ if kind in _REPEATS:
            return _cost_of_repeat(node)
        case _ if kind in _SINGLE:
            return Cost(1, 1)
        case _:
            raise UnboundedError("refers back to a group")


def _cost_of_repeat(node: PatternNode) -> Cost:
    least, most, _ = cast("tuple[int, int, object]", node[1])
    (inner,) = _inner(node)
    if len(inner) == 1 and inner[0][0] in _SINGLE:
        most = least if most == _ENDLESS else most  # `_EndlessRepeats` checks the repetition itself
        return Cost(1 + most, 1 if node[0] == "POSSESSIVE_REPEAT" else most - least + 1)
    if most == _ENDLESS or most > MAX_REPEATED:
        raise UnboundedError(f"repeats a group more than {MAX_REPEATED} times; say how often, such as `{{1,9}}`")
    once, total = _cost(inner), Cost()
    for _ in range(most):
        total = Cost(1 + once.own + once.tries * total.own, 1 + once.tries * total.tries)
        if total.own > 10 * MAX_STEPS:
            break
    return Cost(total.own, 1) if node[0] == "POSSESSIVE_REPEAT" else total


# Repetitions without a bound


class _EndlessRepeats:
    """Finds unbounded repetitions with which a search may read the same text from many places, each time in vain.

    One is harmless if nothing after it can fail: then what it has read is taken out, and read no more. One more is
    if what begins the expression has a character that it cannot go over: then two searches never read the same text.
    """

    __slots__ = ("_fenced", "_is_dotall", "_tree", "reads")

    reads: int
    """How often at most a repetition reads a place of a text, for each way that leads to it."""

    def __init__(self, tree: tuple[PatternNode, ...], *, is_dotall: bool) -> None:
        self.reads = 1
        self._tree = tree
        self._is_dotall = is_dotall
        self._fenced = 0

    def check(self) -> None:
        """Raise `UnboundedError` if an unbounded repetition may take too long; else set `reads`."""
        self._look(self._tree, last=True)

    def _look(self, parts: tuple[PatternNode, ...], *, last: bool) -> None:
        """Check *parts* and the parts inside them; *last*: no part that can fail follows them."""
        for place, part in enumerate(parts):
            after = parts[place + 1 :]
            endless = _endless_atom(part)
            if endless is not None:
                ends = last and all(self._always_matches(later, endless) for later in after)
                fence = None if ends else _fence(parts[:place], endless)
                if not ends and fence is None:
                    problem = (
                        "repeats a character without a bound; say how often at most, such as `{1,200}`, or begin with a"
                        " character that is not repeated"
                    )
                    raise UnboundedError(problem)
                self._fenced += not ends
                if self._fenced > 1:
                    raise UnboundedError("repeats characters without a bound in two places; bound one of them")
                # A match may begin at any earlier fence between the two, and each one reads the text again
                if fence is not None:
                    self.reads = 1 + sum(map(_width, parts[fence + 1 : place]))
            for row in _inner(part):
                self._look(row, last=last and not after and _ends_with_its_row(part))

    def _always_matches(self, node: PatternNode, endless: PatternNode) -> bool:
        """Whether *node* matches at every place where *endless* may end, or at least at the end of the text."""
        kind, inner = node[0], _inner(node)
        if kind in _REPEATS:
            return cast("tuple[int, int, object]", node[1])[0] == 0
        if kind in ("SUBPATTERN", "ATOMIC_GROUP"):
            return all(self._always_matches(part, endless) for part in inner[0])
        if kind == "BRANCH":
            return any(all(self._always_matches(part, endless) for part in way) for way in inner)
        goes_over_all = (endless[0] == "ANY" and self._is_dotall) or _is_every_character(endless)
        return kind == "AT" and str(node[1]) == "AT_END_STRING" and goes_over_all


def _fence(before: tuple[PatternNode, ...], endless: PatternNode) -> int | None:
    """Return the index in *before* of the last literal character that *endless* cannot match; `None` without one."""
    if endless[0] not in ("IN", "LITERAL", "NOT_LITERAL"):
        return None
    for place, (kind, value) in reversed(list(enumerate(before))):
        char = chr(cast("int", value)) if kind == "LITERAL" else ""
        if char and not any(_fits(endless, ord(variant)) for variant in (char, *char.lower(), *char.upper())):
            return place
    return None


def _width(node: PatternNode) -> int:
    """Return the most characters that a match of *node* may have."""
    kind, inner = node[0], _inner(node)
    if kind in ("AT", "ASSERT", "ASSERT_NOT"):
        return 0
    widths = [sum(map(_width, row)) for row in inner]
    times = cast("tuple[int, int, object]", node[1])[1] if kind in _REPEATS else 1
    return times * max(widths, default=1)


def _endless_atom(node: PatternNode) -> PatternNode | None:
    """Return the character that *node* repeats without a bound; `None` if it does not."""
    if node[0] not in _REPEATS or cast("tuple[int, int, object]", node[1])[1] != _ENDLESS:
        return None
    (inner,) = _inner(node)
    return inner[0] if len(inner) == 1 and inner[0][0] in _SINGLE else None


def _ends_with_its_row(node: PatternNode) -> bool:
    """Whether the parts in *node* are followed by nothing that can fail, provided that nothing follows *node*."""
    if node[0] in _REPEATS:
        return cast("tuple[int, int, object]", node[1])[0] <= 1
    return node[0] in ("SUBPATTERN", "ATOMIC_GROUP", "BRANCH")


def _is_every_character(node: PatternNode) -> bool:
    """Whether a set matches every character.

    One character of each kind is tried, and those at the ends of its ranges.
    """
    if node[0] != "IN":
        return False
    ends: list[int] = []
    for part in _parts(node[1]):
        match part:
            case ("LITERAL", int(one)):
                ends.append(one)
            case ("RANGE", (int(first), int(last))):
                ends += (first, last)
            case _:
                pass
    beside = [char for end in ends for char in (end - 1, end, end + 1) if 0 <= char <= sys.maxunicode]
    return all(_fits(node, char) for char in (*map(ord, _OF_EACH_KIND), *beside))


_OF_EACH_KIND: Final = "".join(map(chr, range(0x80))) + "\xa0\xe9\u0660\u2028\u4e00\ue000\U0010ffff"
"""Characters of all kinds: ASCII, and some spaces, digits, letters and others beyond it."""


def _fits(node: PatternNode, char: int) -> bool:
    kind, value = node
    if kind == "LITERAL":
        return value == char
    if kind == "NOT_LITERAL":
        return value != char
    rows = _parts(value)
    is_among = any(_fits_one(row, char) for row in rows)
    return not is_among if rows[:1] and rows[0][0] == "NEGATE" else is_among


def _fits_one(row: PatternNode, char: int) -> bool:
    match row:
        case ("LITERAL", int(one)):
            return one == char
        case ("RANGE", (int(first), int(last))):
            return first <= char <= last
        case ("CATEGORY", category):
            pattern = _CATEGORIES[str(category)]
            return re.match(pattern, chr(char)) is not None
        case _:
            return False


_CATEGORIES: Final = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
