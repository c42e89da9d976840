"""`SocketListening`: the subscriptions of one WebSocket: to the events of sessions, and to views."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from hashlib import sha256
from typing import Final, TypeAlias

import trio

from agentrail.api import socket_frames
from agentrail.api.bodies import EventsQuery, Query
from agentrail.api.body_parsing import classes_of, query_of, start_of
from agentrail.api.limits import CHANGES_SECONDS, MOST_PAGE, VIEW_SECONDS
from agentrail.api.operation_table import CALLS, HostCall
from agentrail.api.problems import INTERNAL, Problem
from agentrail.api.public_ids import WHOLE_JOURNAL, SessionName
from agentrail.api.socket_frames import ListenFrame, is_view
from agentrail.errors import AgentrailError, HostClosing, JournalReadOnly, SessionHeld, SessionNotAlive
from agentrail.host.authentication.identity import NOBODY
from agentrail.host.cluster.forwarded_events import ForwardedEvents, cursor_of, open_events
from agentrail.host.error_responses import told_problem
from agentrail.host.health.tree_feed import rows_query
from agentrail.host.hosted_sessions import check_scope, may
from agentrail.host.operations.call import OperationCall, Shown
from agentrail.host.operations.event_frames import AT_ONCE
from agentrail.host.requests.access_log import RequestNote
from agentrail.host.requests.http_messages import HttpRequest
from agentrail.host.websocket.send_queue import MAX_AT_ONCE, SendQueue
from agentrail.host.websocket.socket_calls import SocketParts, SocketUser
from agentrail.host.websocket.subscription_messages import EventMessages, SubscriptionMessages, TranscriptMessages
from agentrail.nurseries import open_shielded_nursery
from agentrail.runtime.events.subscription import Subscription
from agentrail.runtime.shared.untrusted_calls import Contained, tell
from agentrail.values.events.envelope import Cursor, Envelope
from agentrail.values.events.policies import POLICIES

Begin: TypeAlias = Callable[[Cursor], Awaitable[None]]
"""Called with the place where a subscription begins, before the first event after it."""

log = logging.getLogger("agentrail.host")

BEFORE_ALL: Final = Cursor(0)
"""The place before the first event of a session."""

UNTOLD_SECONDS: Final = 30.0
"""Seconds after which a view is looked at again if no session here has told of a change: another process may have."""


class SocketListening:
    """Sends the events and views that one WebSocket subscribes to.

    While too much waits to be sent, nothing is taken from a subscription: its policy says what happens to its events.
    """

    def __init__(
        self,
        parts: SocketParts,
        user: SocketUser,
        handshake: HttpRequest,
        send_queue: SendQueue,
        looking: trio.StrictFIFOLock,
    ) -> None:
        self._parts = parts
        self._user = user
        self._handshake = handshake
        self._send_queue = send_queue
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
        row, who, parts = CALLS[_call_of(frame)], NOBODY, self._parts
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
                    await (self._send_events if frame.listen == "events" else self._send_transcript)(frame, call)
        except AgentrailError as error:
            return told_problem(error, row.attempt, who.tenant, self._id_of(frame))
        return None

    def _query(self, row: HostCall, frame: ListenFrame) -> Query | None:
        if not is_view(frame.listen):
            return EventsQuery(frame.since, None if frame.types is None else ",".join(frame.types))
        most = (("limit", str(MOST_PAGE)),)
        return query_of(row, most if frame.listen == "approvals" else socket_frames.query_pairs(frame.query))

    async def _send_events(self, frame: ListenFrame, call: OperationCall) -> None:
        since = start_of(call.row, EventsQuery(since=frame.since), "")
        messages = EventMessages(frame.id, self._parts.frames)
        await self._send_opened(call, await self._opened(frame, call, since), messages, partial(self._begin, frame.id))

    async def _begin(self, name: str, cursor: Cursor) -> None:
        await self._send_queue.put(partial(socket_frames.begun, name, cursor))

    async def _send_transcript(self, frame: ListenFrame, call: OperationCall) -> None:
        """Send what the events of a session change in its conversation; of one that is only stored, what is there."""
        since = start_of(call.row, EventsQuery(since=frame.since), "")
        messages, sessions, records = TranscriptMessages(frame.id), self._parts.sessions, CALLS["records"]

        async def begin(cursor: Cursor) -> None:
            await self._begin(frame.id, cursor)
            if since is not None and since > BEFORE_ALL:  # what the client was told of is folded before what follows
                name = sessions.name(call.row, call.who, call.session)
                await self._send_stored(name, messages, cursor, until=cursor)

        is_over = True
        if frame.last is None:
            try:
                events = await self._opened(frame, call, since)
            except (SessionNotAlive, JournalReadOnly) as refusal:
                if since is None or not may(records, call.who):
                    raise
                is_over = isinstance(refusal, JournalReadOnly) or await self._is_over(call)
            else:
                await self._send_opened(call, events, messages, begin)
                return
        check_scope(records, call.who)
        name = sessions.name(records, call.who, call.session)
        await sessions.stored(name)
        await self._begin(frame.id, since or BEFORE_ALL)
        await self._send_stored(name, messages, since or BEFORE_ALL, last=frame.last)
        await sessions.stored(name)  # if it was deleted meanwhile, that was not all
        if not is_over:
            raise HostClosing

    async def _is_over(self, call: OperationCall) -> bool:
        """Whether a session that does not run has ended, or that of its agent; else its parent is bringing it back."""
        name = self._parts.sessions.name(call.row, call.who, call.session)
        return (await self._parts.sessions.stored(name)).ended or (await self._parts.sessions.stored(name.root)).ended

    async def _opened(
        self, frame: ListenFrame, call: OperationCall, since: Cursor | None
    ) -> Subscription | ForwardedEvents:
        """Subscribe to the events of a session, here or at the host that has it."""
        types = None if frame.types is None else classes_of(call.row, frame.types)
        policy = frame.policy or POLICIES[0]
        opening = partial(self._parts.looking.subscribed, call, since, types, policy)
        forwarding = self._parts.forwarding
        if forwarding is None:
            return await call.watch.answered(opening)
        elsewhere = partial(open_events, forwarding, call=call, policy=policy)
        try:
            return await call.watch.answered(partial(forwarding.served, call, opening, elsewhere))
        except SessionHeld as refusal:
            if forwarding.may(call, refusal):  # its host is not reached: that does not end a subscription
                raise HostClosing from None
            raise

    async def _send_opened(
        self, call: OperationCall, events: Subscription | ForwardedEvents, messages: SubscriptionMessages, begin: Begin
    ) -> None:
        if isinstance(events, Subscription):
            await self._send_own(events, messages, begin)
        else:
            try:
                await self._send_forwarded(events, messages, begin)
            finally:
                await events.close()  # noqa: ASYNC102 - it waits for nothing
        if self._parts.forwarding is not None:
            await self._parts.sessions.check_over(call.row, call.who, call.session)

    async def _send_stored(
        self,
        session: SessionName,
        messages: TranscriptMessages,
        since: Cursor,
        *,
        until: Cursor | None = None,
        last: int | None = None,
    ) -> None:
        """Send what the stored events after *since* change, up to the cursor *until* and record *last*."""
        number = await self._parts.looking.turn_at(session, since)
        while records := await self._parts.looking.stored(session, number):
            for record in records:
                if last is not None and record.number > last:
                    return
                for envelope in record.events:
                    if until is not None and envelope.cursor > until:
                        return
                    if envelope.cursor <= since:
                        messages.fold(envelope)
                    else:
                        await self._send_queue.put_all(partial(messages.of, envelope))
            number = records[-1].number

    async def _send_forwarded(self, events: ForwardedEvents, messages: SubscriptionMessages, begin: Begin) -> None:
        """Send the events of a session of another host; the first frame has no event, but says where it begins."""
        while frames := await events.frames():
            for frame in frames:
                if frame.event:
                    await self._send_queue.put_all(partial(messages.forwarded, frame, events))
                else:
                    await begin(cursor_of(frame))

    async def _send_own(self, subscription: Subscription, messages: SubscriptionMessages, begin: Begin) -> None:

        async def give(envelope: Envelope) -> None:
            await self._send_queue.put_all(partial(_ready, messages, events, envelope))

        async with subscription as events:
            await begin(events.position)
            await self._parts.frames.give_all(events, give)
        self._parts.operations.check_open()  # if the session is parked, as the host stops, it has not ended

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
                    await self._send_queue.put(partial(_view, name, answer))
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
                await self._send_queue.put(partial(listener.message, name))
                await listener.wait()


def _call_of(frame: ListenFrame) -> str:
    """Return the name of the call whose rules hold for a subscription."""
    if is_view(frame.listen):
        return "rows" if frame.changes else frame.listen
    return "events"


def _ready(messages: SubscriptionMessages, events: Subscription, first: Envelope) -> Sequence[bytes]:
    """Return the messages with *first*, and with the events after it that are ready."""
    ready = [*messages.of(first)]
    size = sum(map(len, ready))
    for _ in range(MAX_AT_ONCE - 1):
        if size >= AT_ONCE or (envelope := events.next_now()) is None:
            break
        more = messages.of(envelope)
        ready += more
        size += sum(map(len, more))
    return ready


def _view(name: str, answer: Shown) -> bytes:
    return socket_frames.view(name, answer.content)
