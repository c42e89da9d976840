"""Ids of sessions: the allowed form, and new random ones."""

from __future__ import annotations

import secrets
from typing import Final

MAX_ID: Final = 128


def new_id() -> str:
    """Return a random id, for a session whose caller gives none."""
    return f"s-{secrets.token_hex(16)}"


def follows_grammar(session_id: str) -> bool:
    """Whether *found* is an allowed id: ASCII letters, digits, dots, dashes, underscores; not starting with a sign."""
    bare = session_id.replace(".", "a").replace("_", "a").replace("-", "a")
    return 0 < len(session_id) <= MAX_ID and session_id.isascii() and bare.isalnum() and session_id[0].isalnum()
