"""Resolves paths by their text alone (`ResolvedPath`), and compares them with patterns of blocked paths (`Fence`).

The disk is not read, so symbolic links, mounts and other names of the same file are not known.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from agentrail.plugins.shell.lexer_words import Expansion, Word, names
from agentrail.values.value import Value

HOME_PARENTS: Final = names("home users")
_WILD: Final = re.compile(r"[*?\[]")
_NOT_PATH: Final = re.compile(r"[\s'\"();<>|&`]+")
_EXPANDED: Final = re.compile(r"\$\{[^{}$]*\}|\$\(\)|<\(\)")
_SEPARATORS: Final = re.compile(r"[=:,@]")
_MAX_PIECES: Final = 64
_MAX_GLOB: Final = 255


class ResolvedPath(Value):
    """A path, resolved as far as its text allows."""

    absolute: bool
    """Whether the path begins at the root; if not, at a directory that is not known."""
    parts: tuple[str, ...] = ()
    """The parts of the path, without `.` and `..`."""
    known: bool = True
    """Whether a relative path begins at the session's directory; if not, its directory is unknown."""

    @property
    def folded(self) -> tuple[str, ...]:
        """The parts in the form in which paths are compared (see `fold`)."""
        return tuple(map(fold, self.parts))

    def is_under(self, other: ResolvedPath) -> bool:
        """Whether this path is *other*, or below it."""
        return self.absolute == other.absolute and self.parts[: len(other.parts)] == other.parts


HERE: Final = ResolvedPath(absolute=False)
LOST: Final = ResolvedPath(absolute=False, known=False)
HOMES: Final = (ResolvedPath(True, ("home", "~")), ResolvedPath(True, ("root",)))
"""The paths that `~` may mean: any home below `/home`, or that of root."""


def fold(part: str) -> str:
    """Return *part* in a form for comparison: names that some file system takes as equal get the same form.

    Such file systems ignore case, invisible characters, or dots and spaces at the end.
    """
    if not part.isascii():
        part = "".join(char for char in unicodedata.normalize("NFKC", part) if unicodedata.category(char) != "Cf")
    return part.casefold().rstrip(" .") or part


def join(base: ResolvedPath, text: str) -> ResolvedPath:
    """Return the path *text*, resolved relative to *base*.

    If `..` leads above a directory that is not known, the path counts as absolute, so that all patterns apply.
    """
    absolute = text.startswith("/")
    parts = [] if absolute else list(base.parts)
    above = absolute or base.absolute
    for part in text.split("/"):
        if part == "..":
            above = above or not parts
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return ResolvedPath(above, tuple(parts), known=absolute or base.known)


def resolve(text: str, bases: Sequence[ResolvedPath], *, tilde: bool = True) -> tuple[ResolvedPath, ...]:
    """Return the path *text*, resolved relative to each of *bases*; with *tilde*, a leading `~` is a home."""
    if text[:5].lower() == "file:":
        text = text[5:]
        if text.startswith("//"):
            text = "/" + text[2:].partition("/")[2]
    if tilde and text.startswith("~"):
        user, _, text = text[1:].partition("/")
        text = text.lstrip("/")
        if user == "":
            bases = HOMES
        elif user not in {"+", "-"}:
            bases = (ResolvedPath(True, ("root",)) if user == "root" else ResolvedPath(True, ("home", user)),)
    return tuple(dict.fromkeys(join(base, text) for base in bases))


def directory(text: str) -> ResolvedPath:
    """Return the working directory *text*, resolved."""
    return resolve(text, (HERE,))[0]


class Aim(Value):
    """The paths that a word of a command may name, if it is a path."""

    paths: tuple[ResolvedPath, ...]
    """The possible paths."""
    globs: bool
    """Whether the paths are patterns with wild cards."""
    unknown: bool
    """Whether the paths are known only when the command runs.

    That is so if the shell expands a part of the word other than `$HOME` and `$PWD`, or if the directory is unknown.
    """


def aim(word: Word, bases: Sequence[ResolvedPath], assigned: frozenset[str]) -> Aim:
    """Return the paths that *word* as a whole may name. `$HOME` and `$PWD` are known unless the line assigns them."""
    text, tilde = _home_path(word, assigned)
    paths = resolve(text, bases, tilde=tilde)
    return Aim(paths, word.globs, is_unsure(word, assigned) or not all(path.known for path in paths))


def _home_path(word: Word, assigned: frozenset[str]) -> tuple[str, bool]:
    """Return *word* as text with `~` and `.` for `$HOME` and `$PWD`, and whether a leading `~` is a home."""
    text, tilde = word.text, bool(word.expansions & Expansion.TILDE)
    if word.is_unknown:
        for name, stand_in in (("HOME", "~"), ("PWD", ".")):
            if name not in assigned and (match := re.match(rf"([\w.+-]*=)?\$\{{{name}\}}(?=[/:]|$)", text)):
                text, tilde = (match[1] or "") + stand_in + text[match.end() :], True
    return text, tilde


def is_unsure(word: Word, assigned: frozenset[str]) -> bool:
    """Whether only the shell knows a part of *word*. `<(…)` does not count, because its commands are listed."""
    if word.expansions & Expansion.TILDE and "HOME" in assigned and re.match(r"~(?:/|$)", word.text):
        return True
    if not word.expansions & (Expansion.PARAMETER | Expansion.COMMAND):
        return False
    return _EXPANDED.search(_home_path(word, assigned)[0]) is not None


def pieces(word: Word, bases: Sequence[ResolvedPath], assigned: frozenset[str]) -> Iterator[Aim]:
    """Yield the paths that *word* may name, and each part of it that may be a path, such as the value of an option."""
    yield aim(word, bases, assigned)
    home_text, _ = _home_path(word, assigned)
    texts = _SEPARATORS.split(home_text, maxsplit=_MAX_PIECES)
    if word.text.startswith("-"):
        texts.append(word.text[2:])
    for text in dict.fromkeys(texts):
        if text and text != word.text:
            yield Aim(resolve(text, bases), word.globs, unknown=False)
    if word.is_unknown:
        for text in _EXPANDED.split(word.text, maxsplit=_MAX_PIECES):
            if text.startswith("/"):
                yield Aim(resolve(text, bases), word.globs, unknown=True)


def mentioned(word: Word, bases: Sequence[ResolvedPath]) -> Iterator[Aim]:
    """Yield the paths inside *word*, which has other text too, such as a script."""
    texts = _NOT_PATH.split(word.text, maxsplit=_MAX_PIECES)
    for text in dict.fromkeys(texts if len(texts) > 1 else ()):
        if text:
            yield Aim(resolve(text, bases), globs=True, unknown=False)


def is_everything(part: str) -> bool:
    """Whether *part* is a pattern that matches all, or nearly all, names in a directory, such as `*`."""
    return "*" in part and set(part) <= set("*?.[]!^")


def is_wild(part: str) -> bool:
    """Whether *part* is a pattern for several names."""
    return _WILD.search(part) is not None


def before_wild(part: str) -> str:
    """Return the text that each name begins with that `meets` the pattern *part*."""
    wild = _WILD.search(part)
    return part[: wild.start()] if wild is not None and len(part) <= _MAX_GLOB else ""


def meets(pattern: str, name: str, *, hidden: bool = False) -> bool:
    """Whether *name* may match *pattern*, where `*` is any text and `?` any character.

    From a class in brackets on, any text matches. A wild card at the beginning matches a leading dot only if *hidden*.
    """
    if name.startswith(".") and pattern[:1] in {"*", "?", "["} and not hidden:
        return False
    if len(pattern) > _MAX_GLOB:
        return True
    prefix, bracket, _ = pattern.partition("[")
    pattern = prefix + "*" if bracket else pattern
    pattern_index = name_index = mark = 0
    star = -1
    while name_index < len(name):
        if pattern_index < len(pattern) and pattern[pattern_index] == "*":
            star, mark = pattern_index, name_index
            pattern_index += 1
        elif pattern_index < len(pattern) and pattern[pattern_index] in {"?", name[name_index]}:
            pattern_index += 1
            name_index += 1
        elif star >= 0:
            mark += 1
            pattern_index, name_index = star + 1, mark
        else:
            return False
    return not pattern[pattern_index:].strip("*")


_Pattern: TypeAlias = tuple[tuple[str, ...], str]


class Fence:
    """Patterns of paths, each with all paths below it: `/from/the/root`, `~/from/a/home`, or `a/b` in any folder."""

    __slots__ = ("_all", "_by_first", "firsts", "lasts", "names")

    def __init__(self, patterns: Collection[str]) -> None:
        self._all: dict[str, list[_Pattern]] = {"/": [], "~": [], "": []}
        self._by_first: dict[tuple[str, str], list[_Pattern]] = {}
        self.lasts = _lasts(patterns)
        self.names = frozenset(
            fold(part) for pattern in patterns for part in pattern.split("/") if part not in {"", "~"}
        )
        self.firsts = frozenset(pattern.split("/")[0] for pattern in patterns if pattern[:1] not in {"/", "~"})
        for pattern in patterns:
            anchor = pattern[0] if pattern[:1] in {"/", "~"} else ""
            parts = join(HERE, "/" + pattern.removeprefix("~")).folded
            first = parts[0] if parts and not _WILD.search(parts[0]) else ""
            self._all[anchor].append((parts, pattern))
            self._by_first.setdefault((anchor, first), []).append((parts, pattern))

    def find(
        self, path: ResolvedPath, *, globs: bool = False, within: ResolvedPath = HERE, below: int = -1
    ) -> str | None:
        """Return a pattern that covers *path*, or `None`.

        A pattern that covers the whole directory *within* is ignored for paths in it: there all work would be blocked.
        So is a pattern that covers the folder of the first *below* parts, if that is no negative number.
        """
        folded = path.folded
        inside = within.folded if within.absolute and path.is_under(within) else ()
        for anchor, start in _starts(path, folded):
            for parts, pattern in self._candidates(anchor, folded[start : start + 1], globs=globs):
                if anchor == "/" and inside and inside[: len(parts)] == parts:
                    continue
                some = folded[start : start + len(parts)]
                if (
                    start + len(parts) > below
                    and _begins(some, parts, globs=globs)
                    and (anchor or not _is_any(some[0]))
                ):
                    return pattern
        return None

    def is_beneath(self, path: ResolvedPath) -> bool:
        """Whether a blocked path may be below *path*. Patterns for any folder count only if their first parts match.

        Such a pattern, `a/b`, counts if *path* ends in its first part, `a`.
        """
        folded = path.folded
        return any(
            len(some := folded[start : start + len(parts)]) < len(parts)
            and (some or anchor)
            and _begins(some, parts[: len(some)], globs=True)
            for anchor, start in _starts(path, folded)
            for parts, _ in self._all[anchor]
        )

    def _candidates(self, anchor: str, first: tuple[str, ...], *, globs: bool) -> Iterator[_Pattern]:
        if globs:
            yield from self._all[anchor]
            return
        for part in ("", *first):
            yield from self._by_first.get((anchor, part), ())


def _lasts(patterns: Collection[str]) -> frozenset[str]:
    """Return the last parts of *patterns*, in the form for comparison."""
    return frozenset(fold(pattern.rpartition("/")[2]) for pattern in patterns)


@lru_cache(maxsize=32)
def fence(patterns: tuple[str, ...]) -> Fence:
    """Return the `Fence` of *patterns*, cached."""
    return Fence(patterns)


def _starts(path: ResolvedPath, folded: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """Yield the kinds of patterns (`/`, `~`, any folder) that may cover *path*, with the index to compare from."""
    if not path.absolute:
        yield "~", 0
    else:
        yield "/", 0
        if folded[:1] == ("root",):
            yield "~", 1
        elif folded[1:] and folded[0] in HOME_PARENTS:
            yield "~", 2
    yield from (("", start) for start in range(len(folded)))


def _is_any(part: str) -> bool:
    """Whether *part* is a wild card for any name, which is no reason to block although it matches blocked names too."""
    return is_everything(part) and not part.startswith(".")


def _begins(some: tuple[str, ...], parts: tuple[str, ...], *, globs: bool) -> bool:
    return len(some) == len(parts) and all(
        part == other
        or meets(other, part, hidden=True)
        or (globs and _WILD.search(part) is not None and meets(part, other))
        for part, other in zip(some, parts, strict=True)
    )
