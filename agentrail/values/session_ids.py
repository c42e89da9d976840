"""The allowed form of the ids of sessions, for whoever takes one from outside."""

from __future__ import annotations

from typing import Final

MAX_ID: Final = 128
"""The most characters of an id."""


def follows_grammar(session_id: str) -> bool:
    """Whether *session_id* is allowed: ASCII letters, digits, `.`, `_` and `-`, beginning with a letter or digit."""
    bare = session_id.replace(".", "a").replace("_", "a").replace("-", "a")
    return 0 < len(session_id) <= MAX_ID and session_id.isascii() and bare.isalnum() and session_id[0].isalnum()
