"""The parts of a parsed shell command line: words, assignments, redirections and simple commands."""

from __future__ import annotations

import re
from enum import Flag, auto
from typing import Final, NoReturn

from agentrail.values.value import Value

_DESCRIPTOR: Final = re.compile(r"[0-9]*-?")


class Expansion(Flag):
    """The expansions that a shell would do in a word; a word may have several."""

    PARAMETER = auto()
    """`$NAME`; the text has it as `${NAME}`."""
    COMMAND = auto()
    """`$(…)` or backticks; the text has it as `$()`."""
    PROCESS = auto()
    """`<(…)` or `>(…)`; the text has it as `<()`."""
    GLOB = auto()
    """`*`, `?` or `[`."""
    TILDE = auto()
    """A leading `~`."""
    SPLITS = auto()
    """The shell may split the word: it may become no word, or several."""


NO_EXPANSION: Final = Expansion(0)
UNKNOWN: Final = Expansion.PARAMETER | Expansion.COMMAND | Expansion.PROCESS


class Word(Value, gc=True):
    """One word of a command line, with its quotes removed."""

    text: str
    """The text that the program would get, with a mark in place of each expansion."""
    expansions: Expansion = NO_EXPANSION
    """Kinds of expansions in the word."""

    @property
    def expands(self) -> bool:
        """Whether the shell would change the text, so that the program gets a different one."""
        return bool(self.expansions)

    @property
    def is_unknown(self) -> bool:
        """Whether a part of the word is known only when the command runs."""
        return bool(self.expansions & UNKNOWN)

    @property
    def splits(self) -> bool:
        """Whether the shell may turn this word into several words, or into none."""
        return bool(self.expansions & Expansion.SPLITS)

    @property
    def globs(self) -> bool:
        """Whether the word is a pattern of file names."""
        return bool(self.expansions & Expansion.GLOB)

    @property
    def may_be_option(self) -> bool:
        """Whether the word, once expanded, may begin with a dash."""
        if self.text.startswith("-") or self.splits:
            return True
        return (self.is_unknown and self.text.startswith("$")) or (self.globs and self.text[:1] in {"*", "?", "["})


class WordDraft:
    """A word that is being read: its text, and its shape, in which each quoted or expanded character is a `"`.

    `bare` is the number of characters before the first quote or expansion.
    """

    __slots__ = ("_shape", "_text", "bare", "expansions", "last", "shape", "text")

    def __init__(self) -> None:
        self._text: list[str] = []
        self._shape: list[str] = []
        self.expansions = NO_EXPANSION
        self.bare = -1
        self.last = ""
        self.text = ""
        self.shape = ""

    def plain(self, text: str) -> None:
        """Add *text* that was not quoted."""
        self._text.append(text)
        self._shape.append(text)
        self.last = text[-1]

    def quoted(self, text: str, expansions: Expansion = NO_EXPANSION) -> None:
        """Add *text* that was quoted, or that stands for an expansion."""
        self._text.append(text)
        self._shape.append('"' * len(text))
        self.last = '"'
        self.expansions |= expansions
        if self.bare < 0:
            self.bare = sum(map(len, self._text)) - len(text)

    def finish(self) -> None:
        """Join the added pieces, and compute `shape`."""
        self.text = "".join(self._text)
        self.shape = "".join(self._shape)
        if self.bare < 0:
            self.bare = len(self.text)
        if self.shape == "[" and self.is_bare:
            self.expansions = NO_EXPANSION

    @property
    def is_bare(self) -> bool:
        """Whether no part of the word was quoted or expanded."""
        return self.text == self.shape and self.bare == len(self.text)

    @property
    def has_braces(self) -> bool:
        """Whether the word has braces with a list or range (`{a,b}`), which some shells expand to several words."""
        opens, closes = self.shape.find("{"), self.shape.rfind("}")
        between = self.shape[opens:closes] if opens >= 0 else ""
        return "," in between or ".." in between

    def word(self) -> Word:
        """Return the finished word."""
        return Word(self.text, self.expansions)


class Assignment(Value, gc=True):
    """`NAME=value` before a command, or alone."""

    name: str
    """The name of the variable."""
    assigned: Word
    """The value that the variable gets."""


class Redirection(Value, gc=True):
    """A redirection of a command, such as `2>file`."""

    operator: str
    """The operator as written, with the number of the descriptor."""
    target: Word
    """The file, the descriptor, or the delimiter of a here-document."""

    @property
    def names_file(self) -> bool:
        """Whether the target is a file, and not a descriptor or a text."""
        if "<<" in self.operator:
            return False
        return not (self.operator.endswith("&") and _DESCRIPTOR.fullmatch(self.target.text))

    @property
    def writes(self) -> bool:
        """Whether the redirection opens a file for writing."""
        return ">" in self.operator and self.names_file


class SimpleCommand(Value, gc=True):
    """A program with its arguments, or, with an empty `argv`, the redirections of a group or assignments alone."""

    argv: tuple[Word, ...]
    """The program and its arguments."""
    assignments: tuple[Assignment, ...] = ()
    """The assignments of variables before the command."""
    redirections: tuple[Redirection, ...] = ()
    """The redirections of its input and output."""
    via: tuple[str, ...] = ()
    """The names of the wrappers (`sudo`, `sh -c`, …) that run the command, outermost first."""
    around: tuple[Word, ...] = ()
    """The other words of those wrappers: their options, and arguments that they pass to a script."""

    @property
    def program(self) -> str:
        """The last part of the program's path, in lower case; used to recognise blocked programs."""
        return self.argv[0].text.rpartition("/")[2].lower() if self.argv else ""

    @property
    def name(self) -> str:
        """The program for comparison with allow-lists: without its directory if that is well known (see `trusted`)."""
        return trusted(self.argv[0].text) if self.argv else ""

    @property
    def args(self) -> tuple[Word, ...]:
        """The arguments, without the program."""
        return self.argv[1:]


class Unlexable(Value):
    """A command line that was not understood: no rule may assume what it does."""

    reason: str
    """The construct that was not understood."""
    at: int
    """Index of the character in the line, or in the script that the reason names; 0 if the reason is the whole line."""


class StuckError(Exception):
    """Raised where a command line cannot be understood; `lex` turns it into `Unlexable`."""

    def __init__(self, reason: str, at: int = 0) -> None:
        super().__init__(reason, at)
        self.reason = reason
        self.at = at


def stop(reason: str, at: int = 0) -> NoReturn:
    """Give up reading because of *reason*."""
    raise StuckError(reason, at)


def names(listed: str) -> frozenset[str]:
    """Return the names in *listed*, which blanks separate."""
    return frozenset(listed.split())


def trusted(program: str) -> str:
    """Return *program* without its directory if that is a well-known one, else unchanged: `./git` is not `git`."""
    directory, slash, name = program.rpartition("/")
    return name if slash and directory in _BIN_DIRECTORIES else program


_BIN_DIRECTORIES: Final = names("/bin /opt/homebrew/bin /sbin /usr/bin /usr/local/bin /usr/local/sbin /usr/sbin")
