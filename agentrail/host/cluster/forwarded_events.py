"""`ForwardedEvents`: the events of a session of another host, for a subscription on a WebSocket of this one."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

import msgspec

from agentrail.api.body_parsing import strict_json
from agentrail.api.limits import DEFAULTS
from agentrail.api.problems import error_of
from agentrail.api.sse_frames import PROBLEM, read_cursor
from agentrail.errors import AgentrailError, ClusterFault, HostClosing
from agentrail.host.cluster.forwarding import UNFIT, Forwarding
from agentrail.host.cluster.holder_connection import END_OF_FRAME, HolderConnection, HolderGoneError, WholeFrames
from agentrail.host.operations.call import OperationCall
from agentrail.host.operations.sse_reading import SseFrame, envelope_in, frame_in
from agentrail.host.operations.view_calls import POLICY
from agentrail.values.events.envelope import Cursor, Envelope
from agentrail.values.events.policies import SubscriptionPolicy
from agentrail.values.json import JsonObject


class ForwardedEvents:
    """Reads the frames of a stream of another host."""

    def __init__(self, connection: HolderConnection, session: str) -> None:
        self._connection = connection
        self._session = session
        self._frames = WholeFrames()

    async def frames(self) -> list[SseFrame]:
        """Return the next frames, none at the end of the stream.

        Raise `HostClosing` if the host has gone, and the error with which the stream ends, if there is one.
        """
        while True:
            try:
                piece = await self._connection.piece()
                texts = self._frames.add(piece).split(END_OF_FRAME)
            except HolderGoneError:
                raise HostClosing from None
            frames = [frame for text in texts if (frame := frame_in(text)) is not None]
            for frame in frames:
                if frame.event == PROBLEM:
                    raise _error(frame.data.encode(), self._session, self._connection.holder)
                if not _is_event(frame):
                    raise ClusterFault(UNFIT.format(self._connection.holder))
            if frames or not piece:
                return frames

    def envelope(self, frame: SseFrame) -> Envelope:
        """Return the event in *frame*, or the mark that some are missing; raise `ClusterFault` if it is neither."""
        envelope = envelope_in(frame, self._session)
        if envelope is None:
            raise ClusterFault(UNFIT.format(self._connection.holder))
        return envelope

    async def close(self) -> None:
        """Close the connection to the other host."""
        await self._connection.close()


async def open_events(
    forwarding: Forwarding,
    holder: str,
    call: OperationCall,
    policy: SubscriptionPolicy,
) -> ForwardedEvents:
    """Subscribe at the host at *holder* to the events of the session of *call*.

    Raise `HolderGoneError` if it cannot be reached, and the error with which it refuses.
    """
    connection = await forwarding.forward(holder, call, ((POLICY, policy),))
    if connection.status == call.row.status:
        return ForwardedEvents(connection, call.session)
    try:
        document = await connection.content()
    finally:
        await connection.close()  # noqa: ASYNC102 - it waits for nothing
    raise _error(document, call.session, holder)


def _error(document: bytes, session: str, holder: str) -> AgentrailError:
    """Return the error of a problem document that the host at *holder* has sent."""
    problem: object = None
    with suppress(AgentrailError):
        problem = strict_json(document, DEFAULTS.json_depth)
    return (
        error_of(cast("JsonObject", problem), session)
        if isinstance(problem, dict)
        else ClusterFault(UNFIT.format(holder))
    )


def _is_event(frame: SseFrame) -> bool:
    """Whether *frame* has what becomes a part of a message: an event with JSON, or nothing but a cursor."""
    if not frame.event:
        return not frame.data
    try:
        msgspec.json.decode(frame.data, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return frame.event.isidentifier()


def cursor_of(frame: SseFrame) -> Cursor:
    """Return the cursor after *frame*."""
    return read_cursor(frame.id) or Cursor(0)
