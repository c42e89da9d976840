"""Patterns of paths, as in `glob` and in `.gitignore`; no pattern can make matching slow.

Each part of a pattern, between slashes, becomes a regular expression that does not backtrack (`fnmatch` writes atomic
groups). `**`, which matches any number of parts, is not part of an expression.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from agentrail.adapters.sandboxes.paths import MAX_PATH, Parts, parts_of
from agentrail.errors import BadPattern
from agentrail.values.step_budget import Meter

MAX_ALTERNATIVES: Final = 64
"""The most patterns that a pattern with braces may expand to; beyond that it is refused (`BadPattern`)."""

MAX_RULES: Final = 2000
"""The most lines of one `.gitignore` that are read; later ones are ignored."""

MAX_RULE: Final = MAX_PATH
"""The most characters of a line of a `.gitignore`; longer lines are ignored."""

READING_STEPS: Final = 500
"""Steps of a meter for reading a rule, mainly for compiling its expression."""

STEPS_A_CHARACTER: Final = 16
"""Steps of a meter for each character of a rule, in addition."""

MATCHING_STEPS: Final = 2
"""Steps of a meter for matching a pattern, in addition to those for its parts."""

CHARACTERS: Final = 64
"""Characters of a part of a pattern that count as one more step."""

_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_ESCAPED: Final = re.compile(r"\\(.)")
_IN_BRACKETS: Final = {
    "[^": "[!",
    "[:alnum:]": "a-zA-Z0-9",
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:space:]": " \t",
    "[:upper:]": "A-Z",
    "[:xdigit:]": "0-9a-fA-F",
}
"""Syntax within brackets that git knows and `fnmatch` does not, with the equivalent for `fnmatch`."""


class GlobPattern:
    """One pattern without braces. A pattern without `/` matches the last part of a path, unless *anchored*."""

    __slots__ = ("_cost", "_name", "_parts")

    def __init__(self, text: str, *, anchored: bool = False) -> None:
        parts = [part for part in text.split("/") if part not in {"", "."}]
        self._cost = MATCHING_STEPS + sum(1 + len(part) // CHARACTERS for part in parts)
        self._name = len(parts) == 1 and not anchored
        self._parts = [None if part == "**" and not self._name else _compile(part) for part in parts]

    def matches(self, parts: Parts, meter: Meter) -> bool:
        """Whether the path *parts* matches the pattern; spend steps of *meter*."""
        meter.spend(self._cost if self._name else self._cost * (len(parts) + 1))
        if not parts or not self._parts:
            return False
        if self._name:
            only = self._parts[0]
            return only is not None and only.match(parts[-1]) is not None
        reached = {0}  # numbers of leading parts of the path that the parts of the pattern so far can match
        for index, part in enumerate(self._parts):
            if part is None:
                least = min(reached) + (index == len(self._parts) - 1)
                reached = set(range(least, len(parts) + 1))
            else:
                reached = {count + 1 for count in reached if count < len(parts) and part.match(parts[count])}
            if not reached:
                return False
        return len(parts) in reached


def _compile(part: str) -> re.Pattern[str]:
    for theirs, ours in _IN_BRACKETS.items():
        part = part.replace(theirs, ours)
    return re.compile(fnmatch.translate(_ESCAPED.sub(_literal, part)))


def _literal(match: re.Match[str]) -> str:
    return f"[{match[1]}]" if match[1] in "*?[" else match[1]


class Glob:
    """A pattern for `glob`, which may have braces: it matches if one of the patterns that they expand to does."""

    __slots__ = ("_patterns",)

    def __init__(self, text: str) -> None:
        parts_of(text)
        self._patterns = [GlobPattern(alternative) for alternative in _alternatives(text)]

    def matches(self, parts: Parts, meter: Meter) -> bool:
        """Whether the path *parts* matches; spend steps of *meter*."""
        return any(pattern.matches(parts, meter) for pattern in self._patterns)


def _alternatives(text: str) -> list[str]:
    todo, patterns = [text], list[str]()
    while todo:
        pattern = todo.pop()
        braces = _BRACES.search(pattern)
        if braces is None:
            patterns.append(pattern)
        else:
            todo.extend(pattern[: braces.start()] + word + pattern[braces.end() :] for word in braces[1].split(","))
        if len(todo) + len(patterns) > MAX_ALTERNATIVES:
            raise BadPattern(text, f"its braces stand for more than {MAX_ALTERNATIVES} patterns")
    return patterns


class Ignored:
    """The rules of the `.gitignore` files from the root down to one folder; the last rule that matches decides."""

    __slots__ = ("above", "depth", "rules")

    def __init__(self, above: Ignored | None = None, folder: Parts = ()) -> None:
        self.above = above
        self.depth = len(folder)
        self.rules: list[tuple[GlobPattern, bool, bool]] = []

    def reading(self, lines: Iterable[str], meter: Meter) -> Iterator[None]:
        """Add the rules in *lines*; yield after each, because compiling all of them takes long."""
        for line in islice(lines, MAX_RULES):
            if len(line) <= MAX_RULE:
                meter.spend(READING_STEPS + STEPS_A_CHARACTER * len(line))
                rule = _rule(line)
                if rule is not None:
                    self.rules.append(rule)
            yield

    def names(self, parts: Parts, meter: Meter, *, folder: bool) -> bool:
        """Whether the rules ignore the file (or *folder*) at *parts* itself; folders above it are not considered."""
        rules: Ignored | None = self
        while rules is not None:
            below = parts[rules.depth :]
            for pattern, negated, folders in reversed(rules.rules):
                if (folder or not folders) and pattern.matches(below, meter):
                    return not negated
            rules = rules.above
        return False


def _rule(line: str) -> tuple[GlobPattern, bool, bool] | None:
    text = line.rstrip("\r\n")
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    negated = text.startswith("!")
    text = text.removeprefix("!")
    if not text.strip("/") or text.startswith("#"):
        return None
    folders = text.endswith("/")
    text = text.rstrip("/")
    try:
        return GlobPattern(text, anchored="/" in text), negated, folders
    except re.error:
        return None


def lines_of(data: bytes | None) -> Sequence[str]:
    """Return the lines in the first 256 KiB of *data*, the content of a `.gitignore`; none if there is no such file."""
    return () if data is None else data[: 256 * 1024].decode(errors="replace").splitlines()
