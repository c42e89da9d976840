"""`data_block`: a text that strangers wrote, between tags that mark it as data for the model."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

LESS: Final = "[<\u226e\u2039\u27e8\u3008\ufe64\uff1c]"
"""What begins a tag, also as other characters show it."""

UNSEEN: Final = "[\xad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]*"
"""Characters that nobody sees between those of a name."""

BEFORE: Final = r"(?:[\s\\/\u2044\u2215\u29f8\uff0f]|" + UNSEEN[:-1] + ")*"
"""What may stand between the beginning of a tag and its name: a slash, also as others show it, and blanks."""

WIDE: Final = 0xFEE0
"""How far the wide form of an ASCII character is from it."""

ANY_TAG: Final = re.compile(LESS)


def data_block(tag: str, text: str) -> str:
    """Return *text* between tags called *tag*, which it cannot end. Other tags in it stay: it may be code."""
    return f"<{tag}>\n{quoted(text, tag)}\n</{tag}>"


def quoted(text: str, tag: str = "") -> str:
    """Return *text* with `&lt;` in place of what begins a tag called *tag*; any tag, if it is empty.

    It may be written in capitals, with blanks and characters that nobody sees, or in others that look alike: a model
    reads them all as the tag.
    """
    return (_pattern(tag) if tag else ANY_TAG).sub("&lt;", text)


@lru_cache
def _pattern(tag: str) -> re.Pattern[str]:
    letters = [f"[{re.escape(letter)}{chr(ord(letter) + WIDE)}]" for letter in tag]
    return re.compile(f"{LESS}(?={BEFORE}{UNSEEN.join(letters)})", re.IGNORECASE)
