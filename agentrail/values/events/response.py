"""Events of requests to the model and of its responses."""

from __future__ import annotations

from typing import TypeAlias

from agentrail.values.events.envelope import Ephemeral, Event
from agentrail.values.messages import AssistantMessage
from agentrail.values.personal import Kept, Personal


class RequestStart(Event):
    """A request was sent to the model."""

    request_id: Kept[str]
    """Id of the request."""
    model: Kept[str]
    """Name of the model."""
    messages: int
    """Number of messages in the request."""
    attempt: int
    """Number of the attempt, from 1."""


class MessageStart(Ephemeral):
    """The first chunk of a response came."""

    request_id: Kept[str]
    """Id of the request that is answered."""


class MessageDelta(Ephemeral):
    """A piece of the response's text."""

    delta: Personal[str]
    """Text to append to what came before."""


class ThinkingStart(Ephemeral):
    """The model started to write its thoughts (reasoning)."""


class ThinkingDelta(Ephemeral):
    """A piece of the model's thoughts."""

    delta: Personal[str]
    """Text to append to what came before."""


class StatusUpdate(Ephemeral):
    """The model reported what it is doing, in a `<status>` tag."""

    text: Personal[str]
    """Text inside the `<status>` tag."""


class AnswerRejected(Event):
    """The model's answer does not fit the schema which the prompt asked for."""

    attempt: int
    """Number of the answer, of those in this turn that do not fit, from 1."""
    reason: Personal[str]
    """Why the answer does not fit; the model gets this text too."""
    is_last: bool
    """Whether the model is not asked again: the turn is aborted."""


class TitleGenerated(Event):
    """The model gave the conversation a title, in a `<title>` tag."""

    title: Personal[str]
    """The title, at most 60 characters."""


class ResponseComplete(Event):
    """A response is complete."""

    message: AssistantMessage
    """The complete response, as it goes into the history."""
    replaced_by: Kept[tuple[str, ...]] = ()
    """Keys of the plugins that replaced the text, in order."""


class StreamError(Event):
    """A request failed and is not tried again."""

    error: Personal[str]
    """Class of the error."""
    message: Personal[str]
    """Message of the error."""


class StreamStalled(Event):
    """No chunk of a response came for `stall_timeout` seconds."""

    elapsed_s: float
    """Seconds since the last chunk, or since the request was sent if none has come."""
    count: int
    """How often this request has stalled."""


class Retry(Event):
    """A request failed and will be tried again; discard its deltas."""

    attempt: int
    """Number of the attempt that failed, from 1."""
    delay_ms: int
    """Milliseconds until the next attempt."""
    reason: Personal[str]
    """Why the attempt failed."""
    dropped_text: bool = False
    """Whether the failed attempt had produced text, which is discarded."""


class ContextOverflow(Event):
    """The provider reported that the conversation is too long for the model."""

    message: Personal[str]
    """Error message of the provider."""


class ModelSwitched(Event):
    """Another model was chosen, by a caller, a plugin, or as a fallback."""

    from_: Kept[str]
    """Name of the model before."""
    to: Kept[str]
    """Name of the chosen model."""
    provider_opts_changed: bool
    """Whether options for the provider changed too."""
    by: Kept[str | None] = None
    """Key of the plugin that chose the model; `None` if it was a caller or a fallback."""
    reason: Personal[str | None] = None
    """For a fallback model, which is used until the turn ends: the failure that led to it; `None` otherwise."""


class ModelOptionsChanged(Event):
    """The model stays, and gets other options: by a caller, a plugin, or because a fallback is the same model."""

    model: Kept[str]
    """Name of the model."""
    by: Kept[str | None] = None
    """Key of the plugin that chose the options; `None` if it was a caller or a fallback."""
    reason: Personal[str | None] = None
    """For a fallback, which is used until the turn ends: the failure that led to it; `None` otherwise."""


class ModelEffective(Event):
    """The first request is sent to the model that was chosen."""

    model: Kept[str]
    """Name of the model."""


AnyResponseEvent: TypeAlias = (
    ContextOverflow
    | MessageDelta
    | MessageStart
    | ModelEffective
    | ModelOptionsChanged
    | ModelSwitched
    | RequestStart
    | ResponseComplete
    | Retry
    | StatusUpdate
    | StreamError
    | StreamStalled
    | ThinkingDelta
    | ThinkingStart
    | AnswerRejected
    | TitleGenerated
)
"""The events of this module, in the order of the catalogue."""
