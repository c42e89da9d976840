"""The messages of a subscription to a session: with its events, or with what they change in its conversation."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from agentrail.api import socket_frames
from agentrail.api.sse_frames import GAP, WITH_SESSION, as_seen, data_of, event_frame
from agentrail.api.transcript import Transcript
from agentrail.api.transcript_views import changes_view
from agentrail.api.views import to_json
from agentrail.host.cluster.forwarded_events import ForwardedEvents, cursor_of
from agentrail.host.operations.event_frames import EventFrames
from agentrail.host.operations.sse_reading import SseFrame
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.plugins import Gap


class SubscriptionMessages(Protocol):
    """Makes the messages of one subscription, in order."""

    def of(self, envelope: Envelope) -> Sequence[bytes]:
        """Return the message with an event of a session of this host; none if the client is told nothing of it."""
        ...

    def forwarded(self, frame: SseFrame, events: ForwardedEvents) -> Sequence[bytes]:
        """Return the message with an event that another host tells, in *frame* of *events*, or none."""
        ...


class EventMessages:
    """Messages with the events themselves. The JSON of an event is made once for all subscribers."""

    def __init__(self, name: str, frames: EventFrames) -> None:
        self._name = name
        self._frames = frames

    def of(self, envelope: Envelope) -> Sequence[bytes]:
        """Return the message with an event of a session of this host."""
        data = data_of(self._frames.frame(envelope))
        if isinstance(envelope.event, Gap):
            return (socket_frames.gap(self._name, data),)
        return (socket_frames.event(self._name, type(envelope.event).__name__, data, envelope.cursor),)

    def forwarded(self, frame: SseFrame, events: ForwardedEvents) -> Sequence[bytes]:  # noqa: ARG002 - its JSON is passed on
        """Return the message with an event that another host tells."""
        data = frame.data.encode()
        if frame.event == GAP:
            return (socket_frames.gap(self._name, data),)
        return (socket_frames.event(self._name, frame.event, data, cursor_of(frame)),)


class TranscriptMessages:
    """Messages with what events change in the conversation."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._transcript = Transcript()

    def of(self, envelope: Envelope) -> Sequence[bytes]:
        """Return the message with what an event of a session of this host changes; none if that is nothing."""
        return self._message(_as_seen(envelope))

    def fold(self, envelope: Envelope) -> None:
        """Fold an event of a session of which the client has been told."""
        deque(self._transcript.take(_as_seen(envelope)), maxlen=0)

    def forwarded(self, frame: SseFrame, events: ForwardedEvents) -> Sequence[bytes]:
        """Return the message with what an event that another host tells changes; none if that is nothing."""
        return self._message(events.envelope(frame))

    def _message(self, envelope: Envelope) -> Sequence[bytes]:
        """Fold an event whose ids are those that clients see, and return the message."""
        changes = tuple(self._transcript.take(envelope))
        if isinstance(envelope.event, Gap):
            return (socket_frames.gap(self._name, data_of(event_frame(envelope))),)
        if not changes:
            return ()
        return (socket_frames.folded(self._name, to_json(changes_view(envelope, changes)), envelope.cursor),)


def _as_seen(envelope: Envelope) -> Envelope:
    """Return an event of a session of this host with the ids that clients see."""
    return as_seen(envelope) if type(envelope.event) in WITH_SESSION else envelope
