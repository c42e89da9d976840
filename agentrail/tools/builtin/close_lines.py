"""The lines of a file that come closest to a text which is not in it."""

from __future__ import annotations

from typing import Final

from agentrail.ports.sandbox import Sandbox
from agentrail.tools.builtin.file_lines import lines_of

PIECE: Final = 16 * 1024
"""Bytes that are compared at once; others get their turn in between."""

MAX_COMPARED: Final = 1024 * 1024
"""Bytes of a file that are compared."""

MAX_ANCHOR: Final = 200
"""Characters of a line that are compared."""

MAX_SHOWN: Final = 12
"""Lines that are shown."""

NEAR: Final = 0.5
"""How much of two lines must be the same for one to be near the other."""


async def nearest(sandbox: Sandbox, path: str, text: str) -> str:
    """Return the lines, numbered, that come closest to *text*; empty if nothing is near."""
    lines = text.splitlines() or [text]
    place, anchor = max(enumerate(lines), key=lambda pair: len(pair[1].strip()))
    wanted = _pairs(anchor)
    if not wanted:
        return ""
    best, at, number = NEAR, 0, 0
    position, rest = 0, b""
    while position < MAX_COMPARED:
        data = (await sandbox.read(path, position, PIECE)).data
        position += len(data)
        *ended, rest = (rest[-PIECE:] + data).split(b"\n")
        for line in ended if data else [rest]:
            number += 1
            alike = likeness(wanted, _pairs(line.decode(errors="replace")))
            if alike > best:
                best, at = alike, number
        if not data:
            break
    if not at:
        return ""
    return (await lines_of(sandbox, path, max(at - place, 1), min(len(lines), MAX_SHOWN))).text


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Return how much of two lines is the same, from 0 to 1."""
    return 2 * len(one & other) / (len(one) + len(other)) if one or other else 0.0


def _pairs(line: str) -> frozenset[str]:
    """Return what a line is compared by: its neighbouring characters, whatever the spaces and the case."""
    bare = f"^{''.join(line[: 4 * MAX_ANCHOR].split()).casefold()[:MAX_ANCHOR]}$"
    return frozenset(bare[at : at + 2] for at in range(len(bare) - 1)) if len(bare) > 2 else frozenset()  # noqa: PLR2004 - more than the marks of both ends
