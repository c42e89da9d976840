"""`new_id`: ids of sessions whose caller gives none."""

from __future__ import annotations

import secrets


def new_id() -> str:
    """Return a random id, for a session whose caller gives none."""
    return f"s-{secrets.token_hex(16)}"
