"""Parses POSIX shell command lines, and raises `StuckError` at anything that it does not know.

It reads lists, pipelines, groups, subshells, comments, quotes, redirections and the commands inside substitutions.
Constructs on which shells differ, or that depend on a value known only to the shell, are refused with their position.
"""

from __future__ import annotations

import re
from typing import Final, NoReturn

from agentrail.plugins.shell.lexer_words import (
    NO_EXPANSION,
    Assignment,
    Expansion,
    Redirection,
    SimpleCommand,
    StuckError,
    Word,
    WordDraft,
    names,
)

MAX_CHARACTERS: Final = 8_192
MAX_COMMANDS: Final = 256
MAX_DEPTH: Final = 16

_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:=,@%+^\-]+")
_IN_QUOTES: Final = re.compile(r'[^"\\$`]+')
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!-]")
_BRACED: Final = re.compile(
    r"\{(?:#?([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])|([A-Za-z_][A-Za-z0-9_]*)(?::?[-+?][\w.,-]*|(?:##?|%%?)[\w.,*/-]*))\}",
    re.ASCII,
)
_ASSIGNED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\+?=")
_REDIRECT: Final = re.compile(r"[0-9]*(?:<<<|<<-|<<|<>|<&|<(?!\()|>>|>&|>\||>(?!\())|&>>|&>")
_DUPLICATE: Final = re.compile(r"[0-9]+-?|-|[A-Za-z_./][A-Za-z0-9_./-]*")
_JOINS: Final = ("&&", "||", "|&", "|")
_ENDS_WORD: Final = frozenset(" \t\n;&|<>()")
RESERVED: Final = names(
    "! { } [[ case coproc do done elif else esac fi for foreach function if repeat select then until while"
)


class ShellParser:
    """Parses one text from its beginning to its end; collects the commands in `found`, inner ones first."""

    __slots__ = ("at", "base", "depth", "found", "pending", "text")

    def __init__(self, text: str, base: int = 0, depth: int = 0) -> None:
        self.text = text
        self.at = 0
        self.base = base
        self.depth = depth
        self.found: list[SimpleCommand] = []
        self.pending: list[tuple[str, bool, bool]] = []

    def read(self) -> tuple[SimpleCommand, ...]:
        """Parse the whole text and return its commands."""
        if len(self.text) > MAX_CHARACTERS:
            self.stop(f"more than {MAX_CHARACTERS} characters")
        if (nul := self.text.find("\0")) >= 0:
            self.stop("a NUL character", nul)
        self.commands("")
        if self.pending:
            self.stop("a here-document without a body")
        return tuple(self.found)

    def stop(self, reason: str, at: int | None = None) -> NoReturn:
        """Raise `StuckError` for position *at*, by default the current one."""
        raise StuckError(reason, self.base + (self.at if at is None else at))

    def here(self) -> str:
        """Return the next character; empty at the end."""
        return self.text[self.at : self.at + 1]

    def commands(self, close: str) -> None:
        """Read a list of commands up to *close*: a parenthesis, a brace, or the end of the text if it is empty."""
        needs_command = False
        while True:
            self.skip()
            if self.closes(close):
                if needs_command:
                    self.stop("an operator without a command behind it")
                return
            self.command()
            if len(self.found) > MAX_COMMANDS:
                self.stop(f"more than {MAX_COMMANDS} commands")
            self.blanks()
            needs_command = self.separator()

    def skip(self) -> None:
        """Skip blanks, comments and empty lines."""
        self.blanks()
        while self.here() == "\n":
            self.newline()
            self.blanks()

    def blanks(self) -> None:
        """Skip blanks, continued lines and a comment."""
        while char := self.here():
            if char in " \t":
                self.at += 1
            elif self.text.startswith("\\\n", self.at):
                self.at += 2
            elif char == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def newline(self) -> None:
        """Skip the end of a line, and the here-documents that begin after it."""
        self.at += 1
        for delimiter, quoted, strips in self.pending:
            start = self.at
            while True:
                end = self.text.find("\n", self.at)
                line = self.text[self.at : len(self.text) if end < 0 else end]
                if (line.lstrip("\t") if strips else line) == delimiter:
                    break
                if end < 0:
                    self.stop("a here-document without its end", start)
                self.at = end + 1
            if not quoted and any(char in "$`\\" for char in self.text[start : self.at]):
                self.stop("a here-document with expansions", start)
            self.at = len(self.text) if end < 0 else end + 1
        self.pending.clear()

    def closes(self, close: str) -> bool:
        """If *close* comes next, skip it and return true: the list ends here."""
        char = self.here()
        if not char:
            if close:
                self.stop(f"no `{close}` for what was opened")
            return True
        if char != close:
            return False
        after = self.text[self.at + 1 : self.at + 2]
        if close == "}" and after and after not in _ENDS_WORD:
            return False
        self.at += 1
        return True

    def separator(self) -> bool:
        """Skip the end of a command, such as `;` or `&&`; return whether another command must follow."""
        char = self.here()
        for join in _JOINS:
            if self.text.startswith(join, self.at):
                self.at += len(join)
                return True
        if char in {"", "\n", ")"}:
            return False
        if char not in {";", "&"}:
            self.stop("something behind a group that is no operator")
        self.at += 1
        if char == ";" and self.here() in {";", "&"}:
            self.stop("the end of a case")
        return False

    def is_alone(self, word: str) -> bool:
        """Whether *word* comes next, followed by a blank or the end of the line."""
        after = self.at + len(word)
        return self.text.startswith(word, self.at) and self.text[after : after + 1] in {"", " ", "\t", "\n"}

    def command(self) -> None:
        """Read a simple command, a group or a subshell."""
        while self.is_alone("!"):
            self.at += 1
            self.blanks()
        if self.text.startswith("((", self.at):
            self.stop("arithmetic")
        for opens, closes in (("(", ")"), ("{", "}")):
            if self.here() == opens and (opens == "(" or self.is_alone(opens)):
                start, command_count = self.at, len(self.found)
                self.at += 1
                self.nested(closes)
                if len(self.found) == command_count:
                    self.stop("a group without a command", start)
                if redirections := self.redirections():
                    self.found.append(SimpleCommand((), (), redirections))
                return
        self.simple()

    def nested(self, close: str) -> None:
        """Read the list inside a group or a substitution."""
        if self.depth >= MAX_DEPTH:
            self.stop(f"more than {MAX_DEPTH} levels")
        if self.pending:
            self.stop("a here-document around a group")
        self.depth += 1
        self.commands(close)
        self.depth -= 1
        if self.pending:
            self.stop("a here-document without a body")

    def redirections(self) -> tuple[Redirection, ...]:
        """Read the redirections after a group."""
        redirections: list[Redirection] = []
        self.blanks()
        while operator := _REDIRECT.match(self.text, self.at):
            redirections.append(self.redirection(operator.group()))
            self.blanks()
        return tuple(redirections)

    def redirection(self, operator: str) -> Redirection:
        """Read one redirection."""
        if operator[:2].isdigit():
            self.stop("a descriptor of two digits, which shells read differently")
        self.at += len(operator)
        self.blanks()
        start = self.at
        draft = self.word()
        if operator.endswith("&") and not _DUPLICATE.fullmatch(draft.shape):
            self.stop("a descriptor that is none, which shells read differently", start)
        if operator.lstrip("0123456789") in {"<<", "<<-"}:
            if draft.expansions:
                self.stop("a here-document whose end has an expansion", start)
            self.pending.append((draft.text, not draft.is_bare, operator.endswith("-")))
        return Redirection(operator, draft.word())

    def simple(self) -> None:
        """Read a simple command: assignments, words and redirections."""
        argv: list[Word] = []
        assignments: list[Assignment] = []
        redirections: list[Redirection] = []
        while True:
            self.blanks()
            if operator := _REDIRECT.match(self.text, self.at):
                self.check_descriptor()
                redirections.append(self.redirection(operator.group()))
                continue
            char = self.here()
            if char in {"", ";", "&", "|", "\n", ")"}:
                break
            if char == "(":
                self.stop("a parenthesis in a command: a function, an array or a pattern")
            if any(redirection.operator.startswith("&") for redirection in redirections):
                self.stop("a word behind `&>`, which shells read differently")
            start = self.at
            draft = self.word()
            if not argv and draft.is_bare and draft.text in RESERVED:
                self.stop(f"the reserved word `{draft.text}`", start)
            named = None if argv else _ASSIGNED.match(draft.shape)
            if named and named.end() <= draft.bare:
                assignments.append(Assignment(named.group(1), Word(draft.text[named.end() :], draft.expansions)))
            else:
                argv.append(draft.word())
        if not argv and not assignments and not redirections:
            self.stop("no command where one should be")
        self.found.append(SimpleCommand(tuple(argv), tuple(assignments), tuple(redirections)))

    def check_descriptor(self) -> None:
        """Raise `StuckError` if the text directly before a redirection may be the number of a descriptor."""
        index = self.at
        while self.text.endswith("\\\n", 0, index):
            index -= 2
        if self.text.endswith("}", 0, index) or (index < self.at and self.text[index - 1 : index].isdigit()):
            self.stop("a descriptor in a variable, or on the line before")

    def word(self) -> WordDraft:
        """Read one word."""
        start = self.at
        draft = WordDraft()
        while char := self.here():
            if run := _PLAIN.match(self.text, self.at):
                draft.plain(run.group())
                self.at = run.end()
            elif char in "<>" and self.text.startswith("(", self.at + 1):
                self.at += 2
                self.nested(")")
                draft.quoted("<()", Expansion.PROCESS)
            elif char in _ENDS_WORD:
                break
            else:
                self.special(char, draft)
        if self.at == start:
            self.stop("no word where one should be")
        draft.finish()
        if draft.has_braces:
            self.stop("a brace expansion", start)
        return draft

    def special(self, char: str, draft: WordDraft) -> None:
        """Read a special character inside a word: a quote, a backslash, a dollar sign and others."""
        if char == "\\":
            self.backslash(draft)
        elif char == "'":
            end = self.text.find("'", self.at + 1)
            if end < 0:
                self.stop("a quote without its end")
            draft.quoted(self.text[self.at + 1 : end])
            self.at = end + 1
        elif char == '"':
            self.double(draft)
        elif char == "$":
            self.dollar(draft, in_quotes=False)
        elif char == "`":
            self.backtick(draft, in_quotes=False)
        elif char.isprintable():
            if char in "*?[":
                draft.expansions |= Expansion.GLOB
            elif char == "~" and draft.last in {"", "=", ":"}:
                draft.expansions |= Expansion.TILDE
            draft.plain(char)
            self.at += 1
        else:
            self.stop(f"the invisible character U+{ord(char):04X}")

    def backslash(self, draft: WordDraft) -> None:
        """Read a backslash outside quotes."""
        after = self.text[self.at + 1 : self.at + 2]
        if not after:
            self.stop("a backslash at the end")
        if after != "\n":
            draft.quoted(after)
        self.at += 2

    def double(self, draft: WordDraft) -> None:
        """Read a text in double quotes."""
        start = self.at
        draft.quoted("")
        self.at += 1
        while char := self.here():
            if run := _IN_QUOTES.match(self.text, self.at):
                draft.quoted(run.group())
                self.at = run.end()
            elif char == '"':
                self.at += 1
                return
            elif char == "$":
                self.dollar(draft, in_quotes=True)
            elif char == "`":
                self.backtick(draft, in_quotes=True)
            else:
                after = self.text[self.at + 1 : self.at + 2]
                draft.quoted("" if after == "\n" else after if after in {"$", "`", '"', "\\"} else "\\" + after)
                self.at += 2
        self.stop("a quote without its end", start)

    def dollar(self, draft: WordDraft, *, in_quotes: bool) -> None:
        """Read an expansion that begins with a dollar sign."""
        start = self.at
        self.at += 1
        splits = NO_EXPANSION if in_quotes else Expansion.SPLITS
        char = self.here()
        if self.text.startswith("((", self.at) or char == "[":
            self.stop("arithmetic", start)
        if char == "(":
            self.at += 1
            self.nested(")")
            draft.quoted("$()", Expansion.COMMAND | splits)
        elif char == "{":
            self.parameter(_BRACED.match(self.text, self.at), draft, splits)
        elif named := _NAME.match(self.text, self.at):
            self.parameter(named, draft, splits)
        elif (char in {"'", '"'} and not in_quotes) or self.text.startswith("\\\n", self.at):
            self.stop("a dollar sign before a quote or the end of a line", start)
        else:
            draft.quoted("$")

    def parameter(self, match: re.Match[str] | None, draft: WordDraft, splits: Expansion) -> None:
        """Read a parameter in one of the simple forms; raise `StuckError` for any other."""
        if match is None:
            self.stop("a parameter that is computed")
        name = next((group for group in match.groups() if group), match.group())
        if name == "IFS":
            self.stop("the separator of words as a parameter")
        several = Expansion.SPLITS if name in {"@", "*"} else splits
        draft.quoted(f"${{{name}}}", Expansion.PARAMETER | several)
        self.at = match.end()

    def backtick(self, draft: WordDraft, *, in_quotes: bool) -> None:
        """Read a command in backticks; refuse one in which the special quoting rules of backticks would matter."""
        start = self.at
        end = self.text.find("`", start + 1)
        inner = self.text[start + 1 : end]
        if end < 0 or "\\" in inner or (in_quotes and '"' in inner) or self.depth >= MAX_DEPTH:
            self.stop("backticks that are not simple", start)
        reader = ShellParser(inner, self.base + start + 1, self.depth + 1)
        self.found.extend(reader.read())
        draft.quoted("$()", Expansion.COMMAND | (NO_EXPANSION if in_quotes else Expansion.SPLITS))
        self.at = end + 1
