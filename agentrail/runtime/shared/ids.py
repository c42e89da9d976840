"""Ids of sessions: the allowed form, and new random ones."""

from __future__ import annotations

import secrets


def new_id() -> str:
    """Return a random id, for a session whose caller gives none."""
    return f"s-{secrets.token_hex(16)}"
