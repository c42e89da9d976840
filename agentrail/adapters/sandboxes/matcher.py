"""Searches files for a regular expression, in a separate process: a thread in a regular expression cannot be stopped.

As a script it reads an order, and then files, from its standard input. When it has read all of them, or found enough,
it writes the matches. It imports nothing of agentrail.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO, TypedDict

MAX_LINE = 1000
BINARY = 8192


class Order(TypedDict):
    """What to search for: a pattern, lines to show *before* and *after* a match, and the most matches."""

    pattern: str
    ignore_case: bool
    before: int
    after: int
    limit: int


Found = tuple[str, int, str, list[str], list[str]]


class Matcher:
    """Collects the lines that match, up to the limit of the order; then sets `cut`."""

    def __init__(self, order: Order, matches: Callable[[str], object]) -> None:
        self._matches = matches
        self._order = order
        self.found: list[Found] = []
        self.cut = False
        self.searched = 0
        self.skipped = 0

    def look(self, path: str, data: bytes) -> Iterator[int]:
        """Search one file; yield the number of each line before it is matched. Binary files are skipped."""
        if b"\0" in data[:BINARY]:
            self.skipped += 1
            return
        self.searched += 1
        lines = data.decode(errors="replace").split("\n")
        if lines[-1] == "":
            lines.pop()
        lines_before, lines_after = self._order["before"], self._order["after"]
        for index, line in enumerate(lines):
            yield index + 1
            if self._matches(line.removesuffix("\r")):
                if len(self.found) >= self._order["limit"]:
                    self.cut = True
                    return
                above = [short(line_) for line_ in lines[max(0, index - lines_before) : index]]
                below = [short(line_) for line_ in lines[index + 1 : index + 1 + lines_after]]
                self.found.append((path, index + 1, short(line), above, below))


def short(line: str) -> str:
    """Return *line* without a carriage return at its end, cut to `MAX_LINE` characters."""
    line = line.removesuffix("\r")
    return line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…"


def flags_of(order: Order) -> int:
    """Return the flags of `re` for *order*."""
    return re.IGNORECASE if order["ignore_case"] else 0


def serve(source: BinaryIO, sink: BinaryIO) -> None:
    """Read an order and files from *source*, search them, and write the matches to *sink*, as JSON.

    Each file comes as a line with its path and size, and then its content.
    """
    order: Order = json.loads(source.readline())
    try:
        matcher = Matcher(order, re.compile(order["pattern"], flags_of(order)).search)
    except (re.error, OverflowError, RecursionError) as error:
        sink.write(json.dumps({"flaw": str(error)}).encode())
        return
    while not matcher.cut and (header := source.readline()):
        path, size = json.loads(header)
        for _ in matcher.look(path, source.read(size)):
            pass
    answer = {"found": matcher.found, "cut": matcher.cut, "searched": matcher.searched, "skipped": matcher.skipped}
    sink.write(json.dumps(answer).encode())
    sink.flush()


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
