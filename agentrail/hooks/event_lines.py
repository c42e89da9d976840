"""`EventLines`: what a plugin says to have the durable events of a session written to the program's log."""

from __future__ import annotations

import re
from collections.abc import Container
from functools import cache
from typing import Final

from agentrail.hooks.context import Log
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import FrozenObject, Json
from agentrail.values.value import Authored

HOW_GRAVE: Final = {
    "agent_abort": "warning",
    "stream_error": "error",
    "plugin_error": "error",
    "tool_abandoned": "warning",
    "tool_blocked": "warning",
    "loop_detected": "warning",
}
"""The log level of some events, by the event's name; `EventLines.level` does not change it."""


@cache
def snake_case(name: str) -> str:
    """Return the class name *name* in snake case, as events are named in logs and stored data."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class EventLines(Authored):
    """Wants a line in the program's log for each durable event, once the journal has it; no record keeps the lines."""

    level: str
    """The log level of events that are not in `HOW_GRAVE`."""
    only: frozenset[str]
    """The names of the events to write; if empty, all are written."""
    texts: int
    """The most characters of a text that are written; the rest is cut. With 0, no text is written."""

    def line(self, event: Envelope, levels: Container[str]) -> Log[None] | None:
        """Return the line for *event*; `None` if `only` names other events, or if its level is not among *levels*."""
        name = snake_case(type(event.event).__name__)
        level = HOW_GRAVE.get(name, self.level)
        if level not in levels or (self.only and name not in self.only):
            return None
        fields: dict[str, Json] = {
            "event": name,
            "seq": event.seq,
            "turn": event.turn,
            "round": event.round,
            "at": event.at,
        }
        for part in event.event.__struct_fields__:
            found = getattr(event.event, part)
            if isinstance(found, bool | int | float):
                fields[part] = found
            elif isinstance(found, str) and self.texts:
                fields[part] = found if len(found) <= self.texts else f"{found[: self.texts]}…"
        return Log(level, name, FrozenObject(fields), None)
