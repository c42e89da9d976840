"""The commands that single keys stand for: a key does what a person could also type."""

from __future__ import annotations

from typing import Final

LATER: Final = "/later "
"""Alt-Enter: what is typed is a prompt for later."""

NEXT: Final = "next"
"""What the command says for the mode after the one that is in force."""

NEXT_MODE: Final = f"/mode {NEXT}"
"""Shift-Tab: other calls run without asking."""

STOP: Final = "/stop"
"""Escape: what runs is stopped."""
