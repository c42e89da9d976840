"""`InputHistory`: what a person has typed in a folder, for the arrow keys of later conversations there.

It is a file of the user that nobody else may read. Answers to questions are not in it, nor texts that begin with a
space or that look as if they had a secret in them, such as an API key.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final, cast

import msgspec

from agentrail.adapters.user_folders import home
from agentrail.cli.own_files import append_to_own, replace_own
from agentrail.codec.json_text import to_text
from agentrail.plugins.guards.pii_patterns import SECRET_KINDS, patterns_of, taken_out
from agentrail.values.untrusted_values import mended
from agentrail.values.value import learned

NAME: Final = "history"
"""Name of the file in the user's folder: a line of JSON for each text, with the folder in which it was typed."""

MOST: Final = 1_000
"""The most texts that are kept, of all folders together."""

LONGEST: Final = 2_000
"""The most characters of a text that is kept; longer ones are pasted rather than typed."""


class InputHistory:
    """The texts of one folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._file = home() / NAME

    def texts(self) -> tuple[str, ...]:
        """Return the texts of the folder, the oldest first; shorten a file that has become too long."""
        lines = _lines(self._file)
        if len(lines) > 2 * MOST:
            lines = lines[-MOST:]
            with suppress(OSError):
                replace_own(self._file, "".join(f"{line}\n" for line in lines))
        return tuple([text for folder, text in map(_entry, lines) if folder == self._folder])

    def add(self, text: str) -> None:
        """Keep *text*, unless it is not to be kept. A folder that cannot be written keeps nothing."""
        if not text.strip() or text.startswith(" ") or len(text) > LONGEST or _has_secret(text):
            return
        if mended(text) != text:  # it names a file whose name is no UTF-8
            return
        with suppress(OSError):
            append_to_own(self._file, f"{to_text([self._folder, text])}\n")


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").removesuffix("\n").split("\n")
    except OSError:
        return []


def _entry(line: str) -> tuple[str, str]:
    """Return the folder and the text of a line; empty ones for a line that something else has written."""
    try:
        return cast("tuple[str, str]", msgspec.json.decode(line, type=learned(tuple[str, str])))
    except (msgspec.DecodeError, UnicodeError):
        return "", ""


def _has_secret(text: str) -> bool:
    return taken_out(text, patterns_of(SECRET_KINDS), "") != text
