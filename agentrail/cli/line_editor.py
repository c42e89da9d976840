"""Edits the line that a person types, key by key; without I/O, for terminals in raw mode."""

from __future__ import annotations

import re
from typing import Final

from agentrail.cli.screen import JOINERS, clean, columns, cut_to_rows
from agentrail.values.value import Value

ENTER: Final = "\n"
END_OF_INPUT: Final = "\x04"
LATER: Final = "later"
"""Alt and Enter: what is typed is a prompt for later, even while a turn runs."""

PASTE: Final = "\x1b[200~"
"""What a terminal sends before a text that is pasted; with that text behind it, it is one key."""

END_OF_PASTE: Final = "\x1b[201~"
COMPLETE: Final = "\t"
"""Completes a word, where that is possible; elsewhere it is inserted."""

_KEY: Final = re.compile(
    r"[^\x1b]|\x1b(?:\[[0-?]*+[ -/]*+(?:[@-~]|(?=[^ -/@-~]))|O(?:[^\x1b]|(?=\x1b))|(?=\x1b)|[^\[O\x1b])", re.DOTALL
)
_MEANS: Final = {
    "\r": ENTER,
    "\x1b\r": LATER,
    "\x1b\n": LATER,
    "\x7f": "back",
    "\x08": "back",
    "\x01": "home",
    "\x1b[H": "home",
    "\x1bOH": "home",
    "\x1b[1~": "home",
    "\x05": "end",
    "\x1b[F": "end",
    "\x1bOF": "end",
    "\x1b[4~": "end",
    "\x02": "left",
    "\x1b[D": "left",
    "\x1bOD": "left",
    "\x06": "right",
    "\x1b[C": "right",
    "\x1bOC": "right",
    "\x1b[3~": "delete",
    "\x15": "wipe",
    "\x0b": "cut",
    "\x17": "word",
    "\x10": "up",
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x0e": "down",
    "\x1b[B": "down",
    "\x1bOB": "down",
}
_LAST_WORD: Final = re.compile(r"\S*\s*$")


def keys_in(typed: str) -> tuple[tuple[str, ...], str]:
    """Return the keys in *typed*, and the rest: the beginning of a key code that is incomplete."""
    keys: list[str] = []
    at = 0
    while match := _KEY.match(typed, at):
        if match[0] == PASTE:
            end = typed.find(END_OF_PASTE, match.end())
            if end < 0:
                break
            keys.append(typed[at:end])
            at = end + len(END_OF_PASTE)
            continue
        at = match.end()
        keys.append(_MEANS.get(match[0], match[0]))
    return tuple(keys), typed[at:]


def is_text(key: str) -> bool:
    """Whether *key* is a character to insert, and not a control key."""
    return key == "\t" or key in JOINERS or (len(key) == 1 and key.isprintable())


class EditedLine(Value):
    """The text that is being typed, with its cursor and the earlier texts."""

    text: str = ""
    """The text of the line."""
    at: int = 0
    """Index of the character under the cursor."""
    past: tuple[str, ...] = ()
    """Earlier lines, the oldest first."""
    back: int = 0
    """How many lines back the text was fetched from the earlier lines; 0 if it is a new line."""

    def press(self, key: str) -> EditedLine:
        """Return the line after *key* was pressed; the same line if the key has no function."""
        before, behind = self.text[: self.at], self.text[self.at :]
        match key:
            case "back":
                return self._with(before[:-1], behind)
            case "delete":
                return self._with(before, behind[1:])
            case "wipe":
                return self._with("", behind)
            case "cut":
                return self._with(before, "")
            case "word":
                return self._with(_LAST_WORD.sub("", before), behind)
            case "home" | "end":
                return self.but(at=0 if key == "home" else len(self.text))
            case "left" | "right":
                return self.but(at=min(max(self.at + (1 if key == "right" else -1), 0), len(self.text)))
            case "up" | "down":
                return self._moved(key)
            case _ if key.startswith(PASTE):
                return self.insert(key.removeprefix(PASTE))
            case _:
                return self.insert(key) if is_text(key) else self

    def insert(self, text: str) -> EditedLine:
        """Return the line with *text* inserted at the cursor, as it is but for the ends of its lines.

        A paste is inserted at once: key by key, each would copy the whole line.
        """
        lines = text.replace("\r\n", "\n").replace("\r", "\n")
        return self._with(self.text[: self.at] + lines, self.text[self.at :])

    def end_line(self) -> EditedLine:
        """Return an empty line; this one is added to the earlier lines, unless it is blank or repeats the last."""
        is_kept = not self.text.strip() or (self.past and self.past[-1] == self.text)
        return EditedLine(past=self.past if is_kept else (*self.past, self.text))

    def says(self, text: str) -> EditedLine:
        """Return a copy whose text is *text*, with the cursor at its end."""
        return self._with(text, "")

    def visible_rows(self, width: int, most: int) -> tuple[list[str], tuple[int, int]]:
        """Return the rows of the text, at most *most* around the cursor, and the cursor's row and column among them.

        Tabs are drawn as spaces, and what could command the terminal as a replacement character; the text keeps them.
        Of a long text, only what may be among them is looked at.
        """
        start = max(self.at - width * most, 0)
        before = _full_rows(clean(self.text[start : self.at]), width)
        behind = clean(self.text[self.at : self.at + width * most])
        rows = _full_rows(before[-1] + behind, width)
        row, column = len(before) - 1, columns(before[-1])
        rows = before[:-1] + rows
        first = max(min(row - most // 2, len(rows) - most), 0)
        return rows[first : first + most], (row - first, column)

    def _moved(self, key: str) -> EditedLine:
        """Return the text with the cursor one line up or down; past its first or last line, another text."""
        start = self.text.rfind("\n", 0, self.at) + 1
        end = self.text.find("\n", self.at)
        if key == "up" and start:
            above = self.text.rfind("\n", 0, start - 1) + 1
            return self.but(at=min(above + self.at - start, start - 1))
        if key == "down" and end >= 0:
            last = self.text.find("\n", end + 1)
            return self.but(at=min(end + 1 + self.at - start, last if last >= 0 else len(self.text)))
        return self._fetched(self.back + (1 if key == "up" else -1))

    def _with(self, before: str, behind: str) -> EditedLine:
        return self.but(text=before + behind, at=len(before))

    def _fetched(self, back: int) -> EditedLine:
        if not 0 <= back <= len(self.past):
            return self
        text = self.past[-back] if back else ""
        return self.but(text=text, at=len(text), back=back)


def _full_rows(text: str, width: int) -> list[str]:
    """Return *text* in rows of at most *width* columns: a row ends where it is full, or at the end of a line."""
    return [row for line in text.split("\n") for row in cut_to_rows(line, width)]
