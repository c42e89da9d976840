"""`TextDifference`: what differs between two texts, by lines and within lines, for all that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias, cast

import msgspec

from agentrail.values.json import JsonObject
from agentrail.values.value import Value, learned

MOST_ROWS: Final = 400
"""Rows that are kept of a difference beside the result of a call."""

MOST_CHARS: Final = 16_384
"""Characters of all rows that are kept beside the result of a call."""

Mark: TypeAlias = Literal["-", "+", " "]
"""`-` for a line that goes, `+` for one that comes, and a space for one that stays."""


class HunkRow(Value, omit_defaults=False):
    """One line of a difference."""

    mark: Mark
    """Whether the line goes, comes or stays."""
    parts: tuple[str, ...]
    """The line in pieces: the first stays, the second changes, and so on; a single piece has no such mark."""
    lacks_end: bool
    """Whether the text ends with this line and without an end of line, which the other text has."""

    @property
    def text(self) -> str:
        """The line, without its end."""
        return "".join(self.parts)


class Hunk(Value, omit_defaults=False):
    """Lines that follow each other: some that change, and a few around them."""

    old: int
    """Number of the first line in the old text, from 1."""
    new: int
    """Number of the first line in the new text, from 1."""
    rows: tuple[HunkRow, ...]
    """The lines."""

    def numbered(self) -> Iterator[tuple[int | None, int | None, HunkRow]]:
        """Yield each row with its number in the old text and in the new one, `None` where it is not."""
        old, new = self.old, self.new
        for row in self.rows:
            yield (None if row.mark == "+" else old), (None if row.mark == "-" else new), row
            old += row.mark != "+"
            new += row.mark != "-"


class TextDifference(Value, omit_defaults=False):
    """What differs between two texts."""

    removed: int
    """Number of the lines that go."""
    added: int
    """Number of the lines that come."""
    lines: int
    """Number of the lines of the old text."""
    left_out: int
    """Number of the rows that are missing at the end of the hunks, because there were too many."""
    hunks: tuple[Hunk, ...]
    """The lines that change, with some around them."""

    def shortened(self) -> TextDifference:
        """Return it with its first rows alone, as many as may be kept beside the result of a call."""
        rows, chars, hunks = MOST_ROWS, MOST_CHARS, list[Hunk]()
        total = sum(len(hunk.rows) for hunk in self.hunks)
        for hunk in self.hunks:
            first_rows = list[HunkRow]()
            for row in hunk.rows:
                rows, chars = rows - 1, chars - len(row.text)
                if rows < 0 or chars < 0:
                    break
                first_rows.append(row)
            if first_rows:
                hunks.append(hunk.but(rows=tuple(first_rows)))
            if len(first_rows) < len(hunk.rows):
                break
        return self.but(hunks=tuple(hunks), left_out=total - sum(len(hunk.rows) for hunk in hunks))

    def as_json(self) -> JsonObject:
        """Return it as the data that `difference_in` reads."""
        data: JsonObject = msgspec.to_builtins(self)
        return data


def difference_in(details: object) -> TextDifference | None:
    """Return the difference in the *details* of a call's result; `None` if there is none that is sound."""
    if not isinstance(details, Mapping):
        return None
    try:
        difference = msgspec.convert(cast("JsonObject", details).get("difference"), learned(TextDifference))
        return cast("TextDifference", difference)
    except msgspec.ValidationError:
        return None
