"""What is put on the screen: pieces of text, and how each joins what stands there already.

`Screen.put` is pure: from a piece and what the output can do to the characters to write, and the screen behind them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from enum import Enum
from typing import Final

from agentrail.values.value import Value, value

ERASE: Final = "\r\x1b[K"
"""Back to the beginning of the line, and wipe it."""

_RESET: Final = "\x1b[0m"
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SPACE: Final = re.compile(r"\s+")


class Flow(Enum):
    """How a piece joins what stands before it."""

    TEXT = "text"
    THOUGHT = "thought"
    LINE = "line"
    STATUS = "status"
    ECHO = "echo"


class Tone(Enum):
    """How a piece looks where there are colours: the code of it."""

    PLAIN = ""
    DIM = "\x1b[2m"
    BOLD = "\x1b[1m"
    GOOD = "\x1b[32m"
    BAD = "\x1b[31m"
    ASKING = "\x1b[33m"


@value
class Look(Value):
    """What the output can do."""

    colours: bool = False
    """Whether tones are visible."""
    rewrites: bool = False
    """Whether a line can be wiped: a status then takes the place of the one before."""
    echoes: bool = False
    """Whether what the person types is visible without our help."""
    width: int = 100
    """How many columns a line has."""


@value
class Piece(Value):
    """Something to put on the screen."""

    flow: Flow
    """How it joins what stands before it."""
    text: str
    """What it says."""
    tone: Tone = Tone.PLAIN
    """How it looks."""


@value
class Screen(Value):
    """Where the output stands."""

    open: Flow | None = None
    """What the line that has no end yet consists of; `None`: a new line begins."""

    def put(self, piece: Piece, look: Look) -> tuple[Screen, str]:
        """Return the screen behind *piece*, and the characters that bring it there."""
        text = clean(piece.text)
        match piece.flow:
            case Flow.ECHO if look.echoes:
                return self, ""
            case Flow.TEXT | Flow.THOUGHT:
                if not text:
                    return self, ""
                joint = "" if self.open is piece.flow else self.joint
                return Screen(None if text.endswith("\n") else piece.flow), joint + painted(text, piece.tone, look)
            case Flow.STATUS if look.rewrites:
                return Screen(Flow.STATUS), self.joint + painted(
                    clipped(text.replace("\n", " "), look.width - 1), piece.tone, look
                )
            case _:
                return Screen(), f"{self.joint}{painted(text, piece.tone, look)}\n"

    @property
    def joint(self) -> str:
        """What makes a new line begin."""
        if self.open is None:
            return ""
        return ERASE if self.open is Flow.STATUS else "\n"


def line(text: str, tone: Tone = Tone.PLAIN) -> Piece:
    """Return *text* as a line of its own."""
    return Piece(Flow.LINE, text, tone)


def put_all(screen: Screen, pieces: Iterable[Piece], look: Look) -> tuple[Screen, str]:
    """Return the screen behind *pieces*, and the characters that bring it there."""
    said: list[str] = []
    for piece in pieces:
        screen, text = screen.put(piece, look)
        said.append(text)
    return screen, "".join(said)


def painted(text: str, tone: Tone, look: Look) -> str:
    """Return *text* in *tone*, where there are colours."""
    return f"{tone.value}{text}{_RESET}" if look.colours and tone.value and text else text


def clean(text: str) -> str:
    """Return *text* without what would steer the terminal, or make it show what is not there."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r", "").replace("\t", "    "))


def one_line(text: str) -> str:
    """Return *text* with each run of white space as one space."""
    return _SPACE.sub(" ", text).strip()


def clipped(text: str, width: int) -> str:
    """Return *text*, cut with an ellipsis where it takes more than *width* columns."""
    if columns(text) <= width:
        return text
    room = max(width - 1, 0)
    kept = 0
    for char in text:
        room -= columns(char)
        if room < 0:
            break
        kept += 1
    return f"{text[:kept]}…"


def columns(text: str) -> int:
    """Return how many columns of a terminal *text* takes."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(char) or char == "\N{ZERO WIDTH JOINER}"
        else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )
