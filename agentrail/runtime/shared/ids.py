"""The ids of sessions: what they may look like, and those that are made up."""

from __future__ import annotations

import secrets
from typing import Final

MAX_ID: Final = 128


def new_id() -> str:
    """Return an id for a session that is given none."""
    return f"s-{secrets.token_hex(16)}"


def follows_grammar(session_id: str) -> bool:
    """Whether an id has ASCII letters, digits, dots, dashes and underscores only, a letter or digit first."""
    bare = session_id.replace(".", "a").replace("_", "a").replace("-", "a")
    return 0 < len(session_id) <= MAX_ID and session_id.isascii() and bare.isalnum() and session_id[0].isalnum()
