"""The commands that single keys stand for: a key does what a person could also type."""

from __future__ import annotations

from typing import Final

LATER: Final = "/later "
"""Alt-Enter: what is typed is a prompt for later."""

STOP: Final = "/stop"
"""Escape: what runs is stopped."""
