"""Reads lines of a file piece by piece, so that neither a long file nor a long line takes much memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from agentrail.ports.sandbox import Sandbox
from agentrail.tools.builtin.workspace import MAX_TEXT, refuse, shown
from agentrail.values.value import Value

PIECE: Final = 64 * 1024
"""The most bytes of the file that one call of the sandbox reads."""

MAX_LINE: Final = 2000
"""The most characters of a line that the model gets; the rest is cut."""

WIDEST: Final = 20_000
"""The most characters of a line if none is to be cut that an answer has room for."""


class Lines(Value):
    """Some lines of a file that follow each other."""

    first: int
    """The number of the first line in `lines`, counted from 1."""
    lines: tuple[str, ...]
    """The lines, without their line ends."""
    known: int
    """The number of lines from the beginning of the file that were read."""
    is_whole: bool
    """Whether the file was read to its end, so that `known` is its number of lines."""
    size: int
    """The size of the file in bytes."""

    @property
    def last(self) -> int:
        """The number of the last line in `lines`."""
        return self.first + len(self.lines) - 1

    @property
    def text(self) -> str:
        """The lines with their numbers, as `cat -n` shows them."""
        return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(self.lines, self.first))


class _Window:
    """Collects up to *most* lines from line *first* on, each up to *widest*, as far as they fit into an answer."""

    def __init__(self, first: int, most: int, widest: int) -> None:
        self._skip = first - 1
        self._most = most
        self._widest = widest
        self._room = MAX_TEXT
        self._open = bytearray()
        self._is_open = False
        self.passed = 0
        self.kept: list[str] = []
        self.is_full = False

    def add(self, piece: bytes) -> None:
        """Add the next piece of the file."""
        if self._skip:
            ends = piece.count(b"\n")
            passed = min(ends, self._skip)
            self._skip -= passed
            self.passed += passed
            piece = b"" if self._skip or not passed else piece.split(b"\n", passed)[-1]
        *ended, rest = piece.split(b"\n")
        for line in ended:
            self._open += line[: 4 * self._widest]
            self._end()
            if self.is_full:
                return
        if rest:
            self._open += rest[: max(4 * self._widest - len(self._open), 0)]
            self._is_open = True

    def close(self) -> None:
        """Finish: the file has ended, and its last line may lack a line end."""
        if self._is_open and not self.is_full and not self._skip:
            self._end()

    def _end(self) -> None:
        line = shown(self._open.removesuffix(b"\r").decode(errors="replace"), self._widest)
        self._open.clear()
        self._is_open = False
        if len(self.kept) >= self._most or self._room < len(line) + 8:
            self.is_full = True
            return
        self._room -= len(line) + 8
        self.kept.append(line)
        self.passed += 1


async def lines_of(sandbox: Sandbox, path: str, first: int, most: int, widest: int) -> Lines:
    """Return up to *most* lines from line *first* on, fewer if they are long; raise `ToolError` if it is no text.

    A line of more than *widest* characters is cut.
    """
    window = _Window(first, most, widest)
    position, size = 0, 0
    while not window.is_full:
        content = await sandbox.read(path, position, PIECE)
        size = content.size
        if not content.data:
            window.close()
            break
        if position == 0 and b"\0" in content.data:
            refuse(f"`{path}` is no text: it has {size} bytes, and some of them are zero; use `shell` to look into it")
        position += len(content.data)
        window.add(content.data)
    return Lines(first, tuple(window.kept), window.passed, not window.is_full, size)


def numbered(data: bytes, part: bytes) -> Iterator[int]:
    """Yield the numbers of the lines in which *part* begins."""
    number, position = 1, 0
    while (found := data.find(part, position)) >= 0:
        number += data.count(b"\n", position, found)
        yield number
        number += data.count(b"\n", found, found + len(part))
        position = found + len(part)
