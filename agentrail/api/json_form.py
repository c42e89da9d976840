"""`to_json`: events, replies and states of sessions as JSON text, in the form in which a host sends them."""

from __future__ import annotations

from typing import TypeAlias

from agentrail.api import views
from agentrail.api.session_values import HeldCall, Reply, Status
from agentrail.api.sse_frames import as_seen
from agentrail.errors import WrongType
from agentrail.values.argument_checks import checked
from agentrail.values.content import Data, File, Image, Part, Text
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentrail.values.tools import Err, Ok

InJson: TypeAlias = Envelope | Event | Reply | Status | HeldCall | Message | Part | Ok | Err

_WANTED = "an `Envelope`, an event, a `Reply`, a `Status`, a `HeldCall`, a message, a part of one, or a result"


@checked
def to_json(value: InJson, *, session: str = "") -> str:
    """Return *value* as JSON text in one line, in the form in which a host sends it.

    *session* is the id of the session of a `Reply` or `HeldCall`, which do not know it themselves.
    """
    return views.to_json(_shape_of(value, session)).decode()


def _shape_of(value: InJson, session: str) -> object:
    """Return what is written of *value*."""
    match value:
        case Envelope():
            return as_seen(value)
        case Reply():
            return views.view(views.WholeReplyView, value, session)
        case Status():
            return views.view(views.StatusView, value)
        case HeldCall():
            return views.view(views.HeldView, value, session)
        case (
            Event()
            | UserMessage()
            | AssistantMessage()
            | ToolMessage()
            | Text()
            | Image()
            | File()
            | Data()
            | Ok()
            | Err()
        ):
            return value
        case _:
            raise WrongType.of("value", value, _WANTED)
