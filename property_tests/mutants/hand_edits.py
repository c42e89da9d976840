"""Reads `by_hand.txt`: edits that somebody has written who had read the code and not the tests.

An edit has a line with the path of its module, the function, a colon and what is lost; then lines that begin with `- `,
the text that stands once in the function; lines that begin with `+ `, at most as many, which take its place; and below
a line that begins with `= `, what has come of it, if it was tested. Where lines of the old text begin does not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from attrs import frozen

from property_tests.mutants.operators import ROOT, Edit

FILE: Final = Path(__file__).with_name("by_hand.txt")

NOTICED: Final = "noticed by "
"""How the outcome of an edit begins that a test notices; the id of the test follows."""

NOT_NOTICED: Final = "not noticed"
"""The outcome of an edit that no quick test notices."""

EQUIVALENT: Final = "equivalent: "
"""How the outcome begins of an edit after which nobody can tell a difference; a person has written why."""

OPENS: Final = ("(", "[", "{")
"""How a line ends whose statement goes on in the lines below."""

_HEAD: Final = re.compile(r"(\S+\.py) (\S*): (.+)")


class NotAnEditError(Exception):
    """An edit of the file cannot be made: its words say which, and why."""


@frozen
class HandEdit(Edit):
    """An edit that was written by hand."""

    loses: str = ""
    """What is lost by it, in words."""
    outcome: str = ""
    """What has come of it; empty if it was not tested."""

    @property
    def name(self) -> str:
        """The line with which it begins in the file."""
        return f"{self.module} {self.function}: {self.loses}"

    @property
    def area(self) -> str:
        """Folder of the package that the module is in; that of MCP is one of its own."""
        return "mcp" if self.module.startswith("adapters/mcp/") else super().area

    @property
    def is_equivalent(self) -> bool:
        """Whether nobody can tell a difference."""
        return self.outcome.startswith(EQUIVALENT)

    def applied(self, text: str) -> str:
        """Return *text* with the edit; each line keeps its number."""
        line_start = text.rfind("\n", 0, self.start) + 1
        indent = text[line_start : self.start] if text[line_start : self.start].isspace() else ""
        first, *others = self.new.split("\n")
        outer = len(first) - len(first.lstrip())
        lines = [first.lstrip(), *(f"{indent}{line[outer:]}" for line in others)]
        newlines = "\n" * (text.count("\n", self.start, self.end) - len(others))
        before, after = (f"{newlines}{indent}", "") if newlines and indent else ("", newlines)
        return text[: self.start] + before + "\n".join(lines) + after + text[self.end :]

    def check(self) -> None:
        """Raise `NotAnEditError` if what comes of it is no Python."""
        path = ROOT / "agentrail" / self.module
        try:
            compile(self.applied(_text_of(self.module)), path, "exec", dont_inherit=True)
        except SyntaxError as error:
            raise NotAnEditError(f"{self.name}: what comes of it is no Python: {error.msg}") from None


def read(text: str) -> tuple[list[HandEdit], list[str]]:
    """Return the edits in the *text* of the file, and for each that does not fit the source any more, why."""
    edits: list[HandEdit] = []
    problems: list[str] = []
    for block in re.split(r"\n\n+", text.strip()):
        lines = [line for line in block.split("\n") if not line.startswith("#")]
        try:
            edits += [_edit(lines)] if lines else []
        except NotAnEditError as problem:
            problems.append(str(problem))
    return edits, problems


def _edit(block: Sequence[str]) -> HandEdit:
    head, *rest = block
    words = _HEAD.fullmatch(head)
    if words is None:
        raise NotAnEditError(f"no edit begins with `{head}`")
    old, new, outcome = ([line[2:] for line in rest if line[:1] == mark] for mark in "-+=")
    if not len(old) >= len(new) > 0 or len(outcome) > 1 or len(old) + len(new) + len(outcome) < len(rest):
        raise NotAnEditError(f"{head}: it has other lines than `- `, as many `+ ` at most, and one `= `")
    module, function, loses = words.groups()
    if not (ROOT / "agentrail" / module).exists():
        raise NotAnEditError(f"{head}: there is no such module")
    text = _text_of(module)
    top, bottom = _span(text, function, head)
    pattern = re.compile(r"\n *".join(re.escape(line.strip()) for line in old))
    found = list(pattern.finditer(text, top, bottom))
    if len(found) != 1:
        raise NotAnEditError(f"{head}: its old text stands there {len(found)} times, and not once")
    start, end = found[0].span()
    lines = frozenset(_lines(text, start, end))
    return HandEdit(module, function, found[0][0], "\n".join(new), 0, lines, start, end, loses, "".join(outcome))


@lru_cache(maxsize=16)
def _text_of(module: str) -> str:
    return (ROOT / "agentrail" / module).read_text(encoding="utf-8")


@lru_cache(maxsize=2)
def _split(text: str) -> list[str]:
    return text.split("\n")


def _span(text: str, function: str, head: str) -> tuple[int, int]:
    """Return where *function* begins and ends in the *text* of its module, or the module if it is empty."""
    start, end, deeper = 0, len(text), ""
    for name in filter(None, function.split(".")):
        definition = re.compile(rf"^({deeper} *)(?:async def|def|class) {name}\b", re.MULTILINE)
        found = list(definition.finditer(text, start, end))
        if not found:
            raise NotAnEditError(f"{head}: there is no such function")
        start, deeper = found[-1].start(), f"{found[-1][1]} "  # the last one: those before it are overloads
        following = re.compile(rf"^ {{0,{len(found[-1][1])}}}[^ \n)]", re.MULTILINE).search(text, found[-1].end(), end)
        end = end if following is None else following.start()
    return start, end


def _lines(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the lines of the old text, and those above that open the brackets around it."""
    first = text.count("\n", 0, start)
    yield from range(first + 1, text.count("\n", 0, end) + 2)
    lines = _split(text)
    depth = len(lines[first]) - len(lines[first].lstrip())
    for number in range(first - 1, -1, -1):
        line = lines[number]
        if line.strip() and len(line) - len(line.lstrip()) < depth:
            if not line.endswith(OPENS):
                return
            depth = len(line) - len(line.lstrip())
            yield number + 1


def write(outcomes: Mapping[str, str], file: Path = FILE) -> None:
    """Write the *outcomes* of edits, by their names, into *file*; all else in it stays as it is."""
    blocks = re.split(r"(\n\n+)", file.read_text(encoding="utf-8").strip())
    for nth, block in enumerate(blocks):
        head, *lines = block.split("\n")
        if head in outcomes:
            blocks[nth] = "\n".join([head, *(line for line in lines if line[:2] != "= "), f"= {outcomes[head]}"])
    file.write_text("".join(blocks) + "\n", encoding="utf-8")
