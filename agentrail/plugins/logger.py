"""`EventLogger`: writes one structured log line per durable event."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import cast

from attrs import Attribute, field, frozen

from agentrail.errors import BadOptions
from agentrail.hooks.context import Context
from agentrail.hooks.plugin import Log, Plugin, Priority
from agentrail.plugins.options import is_count
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import Json, freeze_object

HOW_GRAVE = {
    "agent_abort": "warning",
    "stream_error": "error",
    "plugin_error": "error",
    "tool_abandoned": "warning",
    "tool_blocked": "warning",
    "loop_detected": "warning",
}
"""By event: its log level, if it is more severe than information."""


LEVELS = ("debug", "info", "warning", "error")
"""Names of the log levels."""


def snake_case(name: str) -> str:
    """Return the class name *name* in snake case, as events are named in logs and stored data."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _names(given: Collection[str]) -> frozenset[str]:
    """Return the names of durable events that are *given*; raise `BadOptions` for anything else."""
    found = cast("object", given)
    if isinstance(found, str | bytes) or not isinstance(found, Collection):
        raise BadOptions("EventLogger", f"only={found!r} is no collection of names; give a set, a list or a tuple")
    if given:
        from agentrail.values.events.catalogue import EVENTS  # noqa: PLC0415 - the whole catalogue, for few who choose

        durable = [snake_case(kind.__name__) for kind in EVENTS if kind.durable]
        for name in given:
            if name not in durable:
                raise BadOptions("EventLogger", f"`only` has {name!r}, no durable event; names are like `agent_start`")
    return frozenset(given)


def _is_level(_: EventLogger, __: Attribute[str], found: object) -> None:
    if not isinstance(found, str) or found not in LEVELS:
        raise BadOptions("EventLogger", f"there is no level {found!r}; the levels are {', '.join(LEVELS)}")


@frozen
class EventLogger(Plugin[None]):
    """Write one structured line per durable event with the standard `logging`, as `agentrail.plugin`.

    Texts are cut to *texts* characters; with 0 no text of the conversation reaches the log.
    """

    level: str = field(default="info", validator=_is_level)
    """Log level of events that have no level of their own."""
    only: frozenset[str] = field(default=frozenset(), converter=_names)
    """Names of events to write, in any collection; empty: all."""
    texts: int = field(default=80, validator=is_count)
    """Characters of a text that are written."""

    priority = Priority.OWN

    def on_event(self, event: Envelope, state: None, ctx: Context) -> Log[None] | None:
        """Return a `Log` action with the line for an event; `None` if the event is not chosen."""
        name = snake_case(type(event.event).__name__)
        if self.only and name not in self.only:
            return None
        fields: dict[str, Json] = {
            "event": name,
            "seq": event.seq,
            "turn": event.turn,
            "round": event.round,
            "at": event.at,
        }
        for part in event.event.__fields__:
            found = getattr(event.event, part)
            if isinstance(found, bool | int | float):
                fields[part] = found
            elif isinstance(found, str) and self.texts:
                fields[part] = found if len(found) <= self.texts else f"{found[: self.texts]}…"
        return Log(HOW_GRAVE.get(name, self.level), name, freeze_object(fields), None)
