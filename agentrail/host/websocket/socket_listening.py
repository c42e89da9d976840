"""`SocketListening`: the subscriptions of one WebSocket: to the events of sessions, and to views."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Final

import trio

from agentrail.api import socket_frames
from agentrail.api.bodies import EventsQuery, Query
from agentrail.api.body_parsing import classes_of, query_of, start_of
from agentrail.api.limits import CHANGES_SECONDS, MOST_PAGE, VIEW_SECONDS
from agentrail.api.operation_table import CALLS, HostCall
from agentrail.api.problems import INTERNAL, Problem
from agentrail.api.public_ids import WHOLE_JOURNAL
from agentrail.api.socket_frames import ListenFrame, is_view
from agentrail.api.sse_frames import GAP, data_of
from agentrail.errors import AgentrailError, HostClosing, SessionHeld
from agentrail.host.authentication.identity import NOBODY
from agentrail.host.cluster.forwarded_events import ForwardedEvents, SseFrame, cursor_of, open_events
from agentrail.host.error_responses import told_problem
from agentrail.host.health.tree_feed import rows_query
from agentrail.host.operations.call import OperationCall, Shown
from agentrail.host.operations.event_frames import AT_ONCE
from agentrail.host.requests.access_log import RequestNote
from agentrail.host.requests.http_messages import HttpRequest
from agentrail.host.websocket.send_queue import MAX_AT_ONCE, Outbox
from agentrail.host.websocket.socket_calls import SocketParts, SocketUser
from agentrail.nurseries import open_shielded_nursery
from agentrail.runtime.events.subscription import Subscription
from agentrail.runtime.shared.untrusted_calls import Contained, tell
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.plugins import Gap
from agentrail.values.events.policies import POLICIES

log = logging.getLogger("agentrail.host")

UNTOLD_SECONDS: Final = 30.0
"""Seconds after which a view is looked at again if no session here has told of a change: another process may have."""


class SocketListening:
    """Sends the events and views that one WebSocket subscribes to.

    While too much waits to be sent, nothing is taken from a subscription: its policy says what happens to its events.
    """

    def __init__(
        self, parts: SocketParts, user: SocketUser, handshake: HttpRequest, outbox: Outbox, looking: trio.StrictFIFOLock
    ) -> None:
        self._parts = parts
        self._user = user
        self._handshake = handshake
        self._outbox = outbox
        self._looking = looking

    async def listen(self, frame: ListenFrame) -> Problem | None:
        """Send the events or the view that *frame* asks for until their end; return the problem if it is an error."""
        failed: list[BaseException] = []
        with Contained(failed.append):
            return await self._send_until_end(frame)
        tell(
            log, failed[0], "a subscription to `%s` failed (request %s)", frame.listen, self._id_of(frame), words=False
        )
        return INTERNAL

    def _id_of(self, frame: ListenFrame) -> str:
        return f"{self._handshake.note.id}.{frame.id}"

    async def _send_until_end(self, frame: ListenFrame) -> Problem | None:
        row, who, parts = CALLS["rows" if frame.changes else frame.listen], NOBODY, self._parts
        try:
            parts.operations.check_open()
            who = await self._user.identity()
            parts.operations.admit(row, who)
            call = OperationCall(
                row,
                who,
                frame.session or "",
                parts.limits,
                query=self._query(row, frame),
                headers=self._user.headers,
                peer=self._handshake.peer,
                note=RequestNote(self._id_of(frame)),
                is_on_socket=True,
            )
            with parts.streams.counted(who):
                if frame.changes:
                    await self._send_changes(frame.id, call)
                elif is_view(frame.listen):
                    await self._send_approvals(frame.id, call)
                else:
                    await self._send_events(frame, call)
        except AgentrailError as error:
            return told_problem(error, row.attempt, who.tenant, self._id_of(frame))
        return None

    def _query(self, row: HostCall, frame: ListenFrame) -> Query | None:
        if frame.listen == "events":
            return EventsQuery(frame.since, None if frame.types is None else ",".join(frame.types))
        most = (("limit", str(MOST_PAGE)),)
        return query_of(row, most if frame.listen == "approvals" else socket_frames.query_pairs(frame.query))

    async def _send_events(self, frame: ListenFrame, call: OperationCall) -> None:
        since = start_of(call.row, EventsQuery(since=frame.since), "")
        types = None if frame.types is None else classes_of(call.row, frame.types)
        policy = frame.policy or POLICIES[0]
        opening = partial(self._parts.looking.subscribed, call, since, types, policy)
        forwarding = self._parts.forwarding
        if forwarding is None:
            await self._send_own(frame, await call.watch.answered(opening))
            return
        elsewhere = partial(open_events, forwarding, call=call, policy=policy)
        try:
            events = await call.watch.answered(partial(forwarding.served, call, opening, elsewhere))
        except SessionHeld as refusal:
            if forwarding.may(call, refusal):  # its host is not reached: that does not end a subscription
                raise HostClosing from None
            raise
        if isinstance(events, Subscription):
            await self._send_own(frame, events)
        else:
            try:
                await self._send_forwarded(frame.id, events)
            finally:
                await events.close()  # noqa: ASYNC102 - it waits for nothing
        await self._parts.sessions.check_over(call.row, call.who, call.session)

    async def _send_forwarded(self, name: str, events: ForwardedEvents) -> None:
        """Send the events of a session of another host."""
        while frames := await events.frames():
            for frame in frames:
                await self._outbox.put(partial(_forwarded_message, name, frame))

    async def _send_own(self, frame: ListenFrame, subscription: Subscription) -> None:

        async def give(envelope: Envelope) -> None:
            await self._outbox.put_all(partial(self._ready, frame.id, events, envelope))

        async with subscription as events:
            await self._outbox.put(partial(socket_frames.begun, frame.id, events.position))
            await self._parts.frames.give_all(events, give)
        self._parts.operations.check_open()  # if the session is parked, as the host stops, it has not ended

    def _ready(self, name: str, events: Subscription, first: Envelope) -> Sequence[bytes]:
        """Return the messages with *first*, and with the events after it that are ready."""
        messages = [self._message(name, first)]
        size = len(messages[0])
        while len(messages) < MAX_AT_ONCE and size < AT_ONCE and (envelope := events.next_now()) is not None:
            messages.append(self._message(name, envelope))
            size += len(messages[-1])
        return messages

    def _message(self, name: str, envelope: Envelope) -> bytes:
        """Return the message with an event; its JSON is made once for all subscribers."""
        data = data_of(self._parts.frames.frame(envelope))
        if isinstance(envelope.event, Gap):
            return socket_frames.gap(name, data)
        return socket_frames.event(name, type(envelope.event).__name__, data, envelope.cursor)

    async def _send_approvals(self, name: str, call: OperationCall) -> None:
        """Send what waits for people, and again when that has changed; what changes faster than it is sent is skipped.

        It is looked at again when a session has told that other calls wait.
        """
        carry_out, last = self._parts.operations.functions[call.row.name], b""
        is_told = self._parts.others is None and call.who.tenant != WHOLE_JOURNAL
        while True:
            change = self._parts.held_changes.following(call.who.tenant)
            async with self._looking:
                answer = await carry_out(call)
                if isinstance(answer, Shown) and (now := sha256(answer.content).digest()) != last:
                    last = now
                    await self._outbox.put(partial(_view, name, answer))
            await trio.sleep(VIEW_SECONDS)
            if is_told:
                with trio.move_on_after(UNTOLD_SECONDS):
                    await change.wait()
                    await trio.sleep(CHANGES_SECONDS)  # others come with it

    async def _send_changes(self, name: str, call: OperationCall) -> None:
        """Send the rows of the tree, and then those that change; what changes faster than it is sent is merged."""
        feed = self._parts.tree.listening(call.who.tenant, rows_query(call))
        async with feed as listener, open_shielded_nursery() as nursery:
            if self._parts.others is not None:
                nursery.start_soon(self._parts.others.follow_rows, call, listener)
            while True:
                await self._outbox.put(partial(listener.message, name))
                await listener.wait()


def _forwarded_message(name: str, frame: SseFrame) -> bytes:
    """Return the message with a frame of another host; the first frame has no event, but says where it begins."""
    if not frame.event:
        return socket_frames.begun(name, cursor_of(frame))
    data = frame.data.encode()
    if frame.event == GAP:
        return socket_frames.gap(name, data)
    return socket_frames.event(name, frame.event, data, cursor_of(frame))


def _view(name: str, answer: Shown) -> bytes:
    return socket_frames.view(name, answer.content)
