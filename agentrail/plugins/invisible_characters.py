"""`visible`: a text without the characters that nobody sees, with which a word can be hidden from a search."""

from __future__ import annotations

import re
from typing import Final

_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Control characters but blanks, those that Unicode lets programs leave out, and the blank of Braille."""


def visible(text: str) -> str:
    """Return *text* without invisible characters; blanks and ends of lines stay."""
    return _INVISIBLE.sub("", text)
