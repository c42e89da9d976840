"""`TextBlocks`: cuts a text that is still being written into blocks of Markdown, which do not change any more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_FENCE: Final = re.compile(r" {0,12}(`{3,}|~{3,})")
_INDENTED: Final = re.compile(r"(?: {2,}|\t)\S")


class TextBlocks:
    """A growing Markdown text, cut into blocks: a block is finished when a new one begins after an empty line.

    An empty line ends a block, but not within a fence, and not if the next line is indented: that goes on with an item.
    """

    def __init__(self) -> None:
        self.text = ""
        """What is in no finished block yet."""
        self.has_begun = False
        """Whether something of the text is finished."""
        self._read_to = 0  # position of the first line that was not examined
        self._fence = ""  # the open one
        self._is_behind_gap = False  # whether the last examined lines were empty

    def add(self, text: str) -> None:
        """Append *text*."""
        self.text += text

    def take(self) -> Iterator[str]:
        """Remove the finished blocks from the text, and yield them."""
        while (end := self._next_end()) >= 0:
            block, self.text = self.text[:end], self.text[end:]
            self._read_to, self._is_behind_gap = 0, False
            yield block.strip("\n")

    def rest(self) -> str:
        """Remove all text that is left, and return it."""
        text, self.text = self.text, ""
        self._read_to, self._fence, self._is_behind_gap = 0, "", False
        return text.strip("\n")

    def _next_end(self) -> int:
        """Return the position where the first finished block ends; -1 if none is finished.

        Each line is examined once.
        """
        while (end := self.text.find("\n", self._read_to)) >= 0:
            line, start, self._read_to = self.text[self._read_to : end], self._read_to, end + 1
            if not line.strip() and not self._fence:
                self._is_behind_gap = True
                continue
            begins, self._is_behind_gap = self._is_behind_gap and not _INDENTED.match(line), False
            if begins:
                return start
            self._note_fence(line)
        return -1

    def _note_fence(self, line: str) -> None:
        """Note whether *line* opens a fence, or closes the open one."""
        mark = _FENCE.match(line)
        if mark is not None:
            from agentrail.values.code_fences import open_fence  # noqa: PLC0415 - keys are read before there is a fence

            self._fence = open_fence(self._fence, mark[1], line[mark.end() :])
