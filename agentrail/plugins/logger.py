"""`EventLogger`: writes one structured log line per durable event."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache
from typing import cast

from attrs import Attribute, field, frozen

from agentrail.errors import BadOptions
from agentrail.hooks.context import Context, Log
from agentrail.hooks.plugin import Plugin, Priority
from agentrail.plugins.options import is_count
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import FrozenObject, Json

HOW_GRAVE = {
    "agent_abort": "warning",
    "stream_error": "error",
    "plugin_error": "error",
    "tool_abandoned": "warning",
    "tool_blocked": "warning",
    "loop_detected": "warning",
}
"""The log level of some events, by the event's name; `EventLogger.level` does not change it."""


LEVELS = ("debug", "info", "warning", "error")
"""Names of the log levels."""


@cache
def snake_case(name: str) -> str:
    """Return the class name *name* in snake case, as events are named in logs and stored data."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def _names(given: Collection[str]) -> frozenset[str]:
    """Return *given*, names of durable events, as a set; raise `BadOptions` for anything else."""
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
    """Write one structured log line per durable event, with the standard `logging` and the logger `agentrail.plugin`.

    Texts are cut to *texts* characters. With 0, no text of the conversation is written.
    """

    level: str = field(default="info", validator=_is_level)
    """The log level of events that are not in `HOW_GRAVE`."""
    only: frozenset[str] = field(default=frozenset(), converter=_names)
    """The names of the events to write, in any collection; if empty, all are written."""
    texts: int = field(default=80, validator=is_count)
    """The most characters of a text that are written; the rest is cut. With 0, no text is written."""

    priority = Priority.OWN

    def on_event(self, event: Envelope, state: None, ctx: Context) -> Log[None] | None:
        """Return a `Log` with the line for *event*; `None` if `only` names other events."""
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
        for part in event.event.__struct_fields__:
            found = getattr(event.event, part)
            if isinstance(found, bool | int | float):
                fields[part] = found
            elif isinstance(found, str) and self.texts:
                fields[part] = found if len(found) <= self.texts else f"{found[: self.texts]}…"
        # an event is JSON already, so its texts and numbers are not looked at again
        return Log(HOW_GRAVE.get(name, self.level), name, FrozenObject(fields), None)
