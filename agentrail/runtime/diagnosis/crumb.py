"""`Crumb`: what the watchdog knows of a step or task that runs."""

from __future__ import annotations

from typing import Final, TypeAlias

Crumb: TypeAlias = tuple[str, str, float, float, int]
"""A running step: session id, kind of message, and at its start the time, seconds of collections, modules.

For a task that runs no step: its name instead of the session, and an empty text as the kind.
"""

NOTHING: Final[Crumb] = ("", "", 0.0, 0.0, 0)
"""A step that began before any collection."""
