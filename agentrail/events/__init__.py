"""The events of sessions, `Envelope` (an event with its session, number and time), and `Cursor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentrail.lazy import catalogued

if TYPE_CHECKING:
    from agentrail.values.events import *  # noqa: F403 - no event is named twice
else:
    __getattr__, __dir__ = catalogued(__name__, "agentrail.values.events.catalogue")
