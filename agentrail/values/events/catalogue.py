"""The closed union of all events."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, get_args

from agentrail.values.events.context import AnyContextEvent
from agentrail.values.events.envelope import Cursor, Envelope, Ephemeral, Event
from agentrail.values.events.life import AnyLifeEvent
from agentrail.values.events.people import AnyPeopleEvent
from agentrail.values.events.plugins import AnyPluginEvent
from agentrail.values.events.response import AnyResponseEvent
from agentrail.values.events.tools import AnyToolEvent

AnyEvent: TypeAlias = AnyContextEvent | AnyLifeEvent | AnyPeopleEvent | AnyPluginEvent | AnyResponseEvent | AnyToolEvent
"""The closed union of all events."""

EVENTS: Final[tuple[type[Event], ...]] = get_args(AnyEvent)
"""All event classes, in the order of the catalogue."""

PUBLIC: Final[Mapping[str, object]] = MappingProxyType(
    {
        "EVENTS": EVENTS,
        "AnyEvent": AnyEvent,
        "AnyContextEvent": AnyContextEvent,
        "AnyLifeEvent": AnyLifeEvent,
        "AnyPeopleEvent": AnyPeopleEvent,
        "AnyPluginEvent": AnyPluginEvent,
        "AnyResponseEvent": AnyResponseEvent,
        "AnyToolEvent": AnyToolEvent,
        **{cls.__name__: cls for cls in (Cursor, Envelope, Ephemeral, Event, *EVENTS)},
    }
)
"""The public names of `agentrail.events` and `agentrail.values.events` at run time, with their values."""
