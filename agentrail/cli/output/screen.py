"""Puts pieces of text on the screen: decides where lines begin and end between pieces.

`Screen.put` does no I/O: from a piece and the output's abilities it returns the characters to write and a new screen.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, Literal, TypeAlias

from agentrail.plugins.invisible_characters import visible
from agentrail.runtime.shared.clock import utc_time
from agentrail.values.value import Value

ERASE: Final = "\r\x1b[K"
"""Characters that move to the beginning of the line and erase it."""

TONES: Final = re.compile(r"\x1b\[[0-9;]*m")
"""Codes of colours and the like, which take no column."""

JOINERS: Final = ("\N{ZERO WIDTH NON-JOINER}", "\N{ZERO WIDTH JOINER}")
"""Characters that nobody sees, and that words of some languages, and some pictures, are written with."""

LONGEST_ERROR: Final = 4_000
"""The most characters of an error that are shown: what it quotes, such as a key of a file, may fill that file."""

CUT: Final = 100
"""The most columns of a line that is cut in a pipe."""

INVERTED: Final = "\x1b[7m"

_RESET: Final = "\x1b[0m"
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SPACE: Final = re.compile(r"\s+")
_WORD: Final = re.compile(r" *[^ ]+| +")


class Flow(Enum):
    """How a piece joins the text before it.

    `TEXT` and `THOUGHT` continue an open line of the same kind; `LINE` is a line of its own. The next piece takes the
    place of a `STATUS`, where rows can be drawn anew. An `ECHO` repeats what the person typed, unless the terminal has
    shown it already. An `ASIDE` is a line that does not end the text which is being written, where the screen can show
    it above that text.
    """

    TEXT = "text"
    THOUGHT = "thought"
    LINE = "line"
    ASIDE = "aside"
    STATUS = "status"
    ECHO = "echo"


class Tone(Enum):
    """The role of a piece, which has its colour in each palette."""

    PLAIN = "plain"
    DIM = "dim"
    BOLD = "bold"
    GOOD = "good"
    BAD = "bad"
    ASKING = "asking"


Backdrop: TypeAlias = Literal["unknown", "dark", "light"]
"""What is behind the text of a terminal."""


def _palette(dim: int, good: int, bad: int, asking: int) -> Mapping[Tone, str]:
    """Return the codes of the roles, by the numbers of their colours among the 256 of terminals."""
    numbers = {Tone.DIM: dim, Tone.GOOD: good, Tone.BAD: bad, Tone.ASKING: asking}
    return {Tone.PLAIN: "", Tone.BOLD: "\x1b[1m", **{tone: f"\x1b[38;5;{number}m" for tone, number in numbers.items()}}


PALETTES: Final[Mapping[Backdrop, Mapping[Tone, str]]] = {
    "unknown": _palette(dim=243, good=28, bad=161, asking=130),
    "dark": _palette(dim=246, good=114, bad=210, asking=221),
    "light": _palette(dim=240, good=22, bad=124, asking=94),
}
"""The code of each role, by the background. Those for an unknown one can be read on black and on white."""


class TerminalStyle(Value):
    """The abilities and the size of the terminal that is written to."""

    colours: bool = False
    """Whether the output shows colours."""
    background: Backdrop = "unknown"
    """What is behind the text, which chooses the colours."""
    rewrites: bool = False
    """Whether a line can be erased: a status then replaces the previous one."""
    echoes: bool = False
    """Whether the terminal itself shows what the person types."""
    width: int = 100
    """The number of columns of a line."""
    height: int = 24
    """The number of rows."""

    @property
    def room(self) -> int:
        """Number of columns that a line may fill: one less than the width, so that the cursor stays in the line."""
        return max(self.width - 1, 1)


class ScreenText(Value):
    """A text to put on the screen."""

    flow: Flow
    """How the piece joins the text before it."""
    text: str
    """The text."""
    tone: Tone = Tone.PLAIN
    """The colour of the text."""
    is_cut: bool = False
    """Whether what is too wide for a row is left out, and not shown in the next one; in a pipe, it is one line."""
    marks: tuple[tuple[int, int], ...] = ()
    """Ranges of its characters that are marked: inverted, or without colours by a row of `^` below."""
    hang: int = 0
    """Columns before further rows of a text that keeps all its spaces, as code does; 0 for words, which are wrapped."""

    def drawn(self, look: TerminalStyle) -> list[str]:
        """Return the rows with their colours."""
        if not self.hang:
            return [painted(row, self.tone, look) for row in self.rows(look).split("\n")]
        rows = list[str]()
        for start, end in _row_ranges(self.text, look.room if look.rewrites else len(self.text), self.hang):
            indent = " " * self.hang if start else ""
            marks = [(max(first, start), min(last, end)) for first, last in self.marks if first < end and last > start]
            rows.append(indent + self._painted_range(start, end, marks, look))
            if marks and not look.colours:
                rows.append(indent + _carets(self.text, start, marks))
        return rows

    def _painted_range(self, start: int, end: int, marks: Sequence[tuple[int, int]], look: TerminalStyle) -> str:
        """Return the characters from *start* to *end* with their colours, those within *marks* inverted."""
        parts, index = list[str](), start
        for first, last in marks:
            parts.append(painted(clean(self.text[index:first]), self.tone, look))
            parts.append(painted(clean(self.text[first:last]), self.tone, look, is_inverted=True))
            index = last
        return "".join([*parts, painted(clean(self.text[index:end]), self.tone, look)])

    def rows(self, look: TerminalStyle) -> str:
        """Return the text in rows that fit; in a pipe, as it is, or cut to one line of `CUT` columns."""
        text = clean(self.text)
        if not look.rewrites:
            return clipped(f"  {one_line(text)}", CUT) if self.is_cut else text
        rows = [clipped(row, look.room) for row in text.split("\n")] if self.is_cut else wrapped(text, look.room)
        return "\n".join(rows)


class Screen(Value):
    """The state of the output: whether a line is open, and of which kind."""

    open: Flow | None = None
    """Kind of the piece on the unfinished line; `None` if the output is at the beginning of a line."""

    def put(self, piece: ScreenText, look: TerminalStyle) -> tuple[Screen, str]:
        """Return the screen after *piece*, and the characters to write for it."""
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
                    clipped(text.replace("\n", " "), look.room), piece.tone, look
                )
            case _:
                rows = "\n".join(piece.drawn(look)) if piece.hang else painted(piece.rows(look), piece.tone, look)
                return Screen(), f"{self.joint}{rows}\n"

    @property
    def joint(self) -> str:
        """Characters that end the unfinished line; empty at the beginning of a line."""
        if self.open is None:
            return ""
        return ERASE if self.open is Flow.STATUS else "\n"


def line(text: str, tone: Tone = Tone.PLAIN, *, is_cut: bool = False) -> ScreenText:
    """Return *text* as a piece that is a line of its own."""
    return ScreenText(Flow.LINE, text, tone, is_cut)


def aside(text: str, tone: Tone = Tone.PLAIN) -> ScreenText:
    """Return *text* as an aside: a line that may be printed above the text that is still being written."""
    return ScreenText(Flow.ASIDE, text, tone)


def put_all(screen: Screen, pieces: Iterable[ScreenText], look: TerminalStyle) -> tuple[Screen, str]:
    """Return the screen after *pieces*, and the characters to write for them."""
    parts: list[str] = []
    for piece in pieces:
        screen, text = screen.put(piece, look)
        parts.append(text)
    return screen, "".join(parts)


def painted(text: str, tone: Tone, look: TerminalStyle, *, is_inverted: bool = False) -> str:
    """Return *text* with the codes for *tone*, if the output shows colours; *is_inverted*: as text on that colour."""
    code = PALETTES[look.background][tone] + (INVERTED if is_inverted else "") if look.colours and text else ""
    return f"{code}{text}{_RESET}" if code else text


def clean(text: str) -> str:
    """Return *text* without control and direction characters, which could command the terminal, or mislead."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r", "").replace("\t", "    "))


def escaped(text: str, *, keep_lines: bool = False) -> str:
    """Return *text* with each control, direction or invisible character as JSON escapes it."""
    if text.isascii() and text.isprintable():
        return text
    return "".join([char if keep_lines and char == "\n" else _escaped_character(char) for char in text])


def harmless(text: str, most: int = LONGEST_ERROR) -> str:
    """Return an error's *text* in one line of some *most* characters that commands no terminal, whatever it quotes."""
    return shortened(escaped(" ".join(text.splitlines())), most)


def shortened(text: str, most: int) -> str:
    """Return *text*; if it has more than *most* characters, its middle is replaced by how many are left out."""
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end]} [… {len(text) - most} characters left out …] {text[-end:]}"


def _escaped_character(char: str) -> str:
    if char.isprintable() and visible(char):
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join([f"\\u{units[index] << 8 | units[index + 1]:04x}" for index in range(0, len(units), 2)])


def one_line(text: str) -> str:
    """Return *text* with each run of white space as one space, and none at its ends."""
    return _SPACE.sub(" ", text).strip()


def clipped(text: str, width: int) -> str:
    """Return *text*, cut with an ellipsis where it takes more than *width* columns."""
    if columns(text) <= width:
        return text
    room = max(width - 1, 0)
    line_count = 0
    for char in text:
        room -= columns(char)
        if room < 0:
            break
        line_count += 1
    return f"{text[:line_count]}…"


def wrapped(text: str, width: int) -> list[str]:
    """Return *text* in rows of at most *width* columns, broken between words; what is indented stays so."""
    return [row for line_ in text.split("\n") for row in _rows_of(line_.rstrip(), width)]


def _rows_of(text: str, width: int) -> list[str]:
    if columns(text) <= width:
        return [text]
    indent = text[: len(text) - len(text.lstrip(" "))][: width // 2]
    rows: list[str] = []
    row, used = "", 0
    for word in _WORD.findall(text):
        more = columns(word)
        if used + more > width and row.strip():
            rows.append(row)
            row = indent
            word = word.lstrip(" ")  # noqa: PLW2901 - the line break replaces the space
            used, more = columns(indent), columns(word)
        row, used = row + word, used + more
        if used > width:
            *full, row = cut_to_rows(row, width)
            rows.extend(full)
            used = columns(row)
    return [*rows, row]


def cut_to_rows(text: str, width: int) -> list[str]:
    """Return *text* in rows of at most *width* columns, broken wherever a row is full."""
    rows: list[str] = []
    row, used = "", 0
    for char in text:
        more = columns(char)
        if used + more > width and row:
            rows.append(row)
            row, used = "", 0
        row, used = row + char, used + more
    return [*rows, row]


def _row_ranges(text: str, width: int, hang: int) -> Iterator[tuple[int, int]]:
    """Yield where each row of *text* begins and ends; from the second one on, *hang* columns are before it."""
    start, used = 0, 0
    for index, char in enumerate("" if text.isascii() and len(text) <= width else text):
        used += columns(char)
        if used > max(width - (hang if start else 0), 1) and index > start:
            yield start, index
            start, used = index, columns(char)
    yield start, len(text)


def _carets(text: str, start: int, marks: Sequence[tuple[int, int]]) -> str:
    """Return the row below a row that begins at *start*, with `^` below what is in *marks*."""
    row = ""
    for first, last in marks:
        row += " " * (columns(text[start:first]) - len(row)) + "^" * columns(text[first:last])
    return row


def columns(text: str) -> int:
    """Return how many columns of a terminal *text* takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) or char in JOINERS else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def counted(number: int, noun: str) -> str:
    """Return a number with its *noun*, in the plural if need be."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def date_and_time(milliseconds: int) -> str:
    """Return the local date and time, to the minute, of *milliseconds* since 1970."""
    return f"{utc_time(milliseconds).astimezone():%Y-%m-%d %H:%M}"


def iso_time(milliseconds: int) -> str:
    """Return the time of *milliseconds* since 1970 in UTC, as ISO 8601 has it."""
    return f"{utc_time(milliseconds):%Y-%m-%dT%H:%M:%SZ}"
