"""The pages of the docs, and the blocks of code on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import frozen

from tests.docs.sources import ROOT

PAGES: Final = (
    *(ROOT / "README.md", ROOT / "CHANGELOG.md"),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / ".github").glob("*.md")),
)

CONTINUES: Final = "<!-- continues -->"
"""Stands above a block that goes on where the block before it ended, and knows all its names."""

_FENCE: Final = re.compile(r"^```(?P<language>\w*)$")


@frozen
class Block:
    """One block of code on a page."""

    page: Path
    line: int
    language: str
    text: str
    continues: bool

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@frozen
class Program:
    """A block of Python with the blocks that continue it, each with what it prints, if the page says so."""

    parts: tuple[tuple[Block, str | None], ...]

    @property
    def place(self) -> str:
        return self.parts[0][0].place

    @property
    def text(self) -> str:
        """The whole of it, as somebody who copies its blocks into one file has it."""
        return "\n\n".join(block.text for block, _ in self.parts)


def blocks_of(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of *page*."""
    lines = page.read_text(encoding="utf-8").splitlines()
    opened: re.Match[str] | None = None
    start = 0
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        if fence is None:
            continue
        if opened is None:
            opened, start = fence, number
            continue
        above = next((text for text in reversed(lines[: start - 1]) if text.strip()), "")
        text = "\n".join(lines[start : number - 1])
        yield Block(page, start + 1, opened["language"], f"{text}\n", above == CONTINUES)
        opened = None
    assert opened is None, f"{page}:{start}: this block has no end"


def programs_of(page: Path) -> list[Program]:
    """Return the programs of *page*; a block of `text` is what the block of Python before it prints."""
    programs: list[list[tuple[Block, str | None]]] = []
    for block in blocks_of(page):
        if block.language == "python" and block.continues:
            programs[-1].append((block, None))
        elif block.language == "python":
            programs.append([(block, None)])
        elif block.language == "text":
            last, expected = programs[-1][-1]
            assert expected is None, f"{block.place}: this output belongs to no code"
            programs[-1][-1] = (last, block.text)
    return [Program(tuple(parts)) for parts in programs]
