"""Events of requests to the model and of its responses."""

from __future__ import annotations

from agentrail.values.events.envelope import Ephemeral, Event
from agentrail.values.messages import AssistantMessage
from agentrail.values.value import value


@value
class RequestStart(Event):
    """A request goes out to the model."""

    request_id: str
    """Which request."""
    model: str
    """To which model."""
    messages: int
    """How many messages it holds."""
    attempt: int
    """1 for the first; each retry is one more."""


@value
class MessageStart(Ephemeral):
    """The first chunk of a response came."""

    request_id: str
    """Of which request."""


@value
class MessageDelta(Ephemeral):
    """A piece of the response's text."""

    delta: str
    """The piece."""


@value
class ThinkingStart(Ephemeral):
    """The model begins to think aloud."""


@value
class ThinkingDelta(Ephemeral):
    """A piece of the model's thoughts."""

    delta: str
    """The piece."""


@value
class StatusUpdate(Ephemeral):
    """The model said what it is doing, in a status tag."""

    text: str
    """What it said."""


@value
class TitleGenerated(Event):
    """The model gave the conversation a title."""

    title: str
    """The title, at most 60 characters."""


@value
class ResponseComplete(Event):
    """A response is complete."""

    message: AssistantMessage
    """The whole of it."""


@value
class StreamError(Event):
    """A request failed for good."""

    error: str
    """The class of the error."""
    message: str
    """What the provider said."""


@value
class StreamStalled(Event):
    """No chunk came for a while."""

    elapsed_s: float
    """Seconds since the last chunk, or since the request went out if none has come."""
    count: int
    """How often in this request."""


@value
class Retry(Event):
    """A request failed and will be tried again; text that had come of it is void."""

    attempt: int
    """Which attempt failed."""
    delay_ms: int
    """When the next one begins."""
    reason: str
    """Why it failed."""
    dropped_text: bool = False
    """Whether text had come that is void now."""


@value
class ContextOverflow(Event):
    """The conversation was too long for the model."""

    message: str
    """What the provider said."""


@value
class ModelSwitched(Event):
    """Another model was chosen."""

    from_: str
    """The model before."""
    to: str
    """The model chosen."""
    provider_opts_changed: bool
    """Whether options of the provider changed with it."""
    by: str | None = None
    """The plugin that chose; `None`: a caller, or the chain."""
    reason: str | None = None
    """The failure for which the chain went on to it, for the rest of the turn; `None`: it was chosen."""


@value
class ModelEffective(Event):
    """The first request goes to the model that was switched to."""

    model: str
    """Which model."""
