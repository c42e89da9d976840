"""`EventLogger`: writes one structured log line per durable event."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from attrs import Attribute, field, frozen

from agentrail.errors import BadOptions
from agentrail.hooks.declarations import EventLines, snake_case
from agentrail.hooks.plugin import Plugin, Priority
from agentrail.plugins.options import is_count

LEVELS = ("debug", "info", "warning", "error")
"""Names of the log levels."""


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
    """The log level of events that are not in `agentrail.hooks.declarations.HOW_GRAVE`."""
    only: frozenset[str] = field(default=frozenset(), converter=_names)
    """The names of the events to write, in any collection; if empty, all are written."""
    texts: int = field(default=80, validator=is_count)
    """The most characters of a text that are written; the rest is cut. With 0, no text is written."""

    priority = Priority.OWN

    @property
    def declarations(self) -> tuple[EventLines]:
        """How the events are written."""
        return (EventLines(self.level, self.only, self.texts),)
