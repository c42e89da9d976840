"""`new_id`: ids of sessions whose caller gives none; how long the random part of other ids is."""

from __future__ import annotations

import secrets
from typing import Final

INCARNATION_BYTES: Final = 6
"""Random bytes in the ids of an incarnation: two of one session are alike once in 280,000,000,000,000 times."""


def new_id() -> str:
    """Return a random id, for a session whose caller gives none."""
    return f"s-{secrets.token_hex(16)}"
