"""`EventLogger`: writes one structured log line per durable event."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from attrs import field, frozen

from agentrail.errors import BadOptions
from agentrail.hooks.declarations import EventLines, snake_case
from agentrail.hooks.plugin import Plugin, Priority
from agentrail.plugins.options import check_choice, check_count


def _names(only: Collection[str]) -> frozenset[str]:
    """Return *only* as a set of names of durable events; raise `BadOptions` if it holds anything else."""
    value = cast("object", only)
    if isinstance(value, str | bytes) or not isinstance(value, Collection):
        raise BadOptions("EventLogger", f"only={value!r} is no collection of names; give a set, a list or a tuple")
    if only:
        from agentrail.values.events.catalogue import EVENTS  # noqa: PLC0415 - the whole catalogue, for few who choose

        durable = [snake_case(kind.__name__) for kind in EVENTS if kind.durable]
        for name in only:
            if name not in durable:
                raise BadOptions("EventLogger", f"`only` has {name!r}, no durable event; names are like `agent_start`")
    return frozenset(only)


@frozen
class EventLogger(Plugin[None]):
    """Write one structured log line per durable event, with the standard `logging` and the logger `agentrail.plugin`.

    Texts are cut to *texts* characters. With 0, no text of the conversation is written.
    """

    level: str = field(default="info", validator=check_choice("debug", "info", "warning", "error"))
    """The log level of events that are not in `agentrail.hooks.declarations.HOW_GRAVE`."""
    only: frozenset[str] = field(default=frozenset(), converter=_names)
    """The names of the events to write, in any collection; if empty, all are written."""
    texts: int = field(default=80, validator=check_count)
    """The most characters of a text that are written; the rest is cut. With 0, no text is written."""

    priority = Priority.OWN

    @property
    def declarations(self) -> tuple[EventLines]:
        """The declaration for the session: which events are logged, at which level."""
        return (EventLines(self.level, self.only, self.texts),)
