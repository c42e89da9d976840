"""Calls that look at a session: its events as a stream, and its messages."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import trio

from agentrail.errors import AgentrailError
from agentrail.host.access.identity import Authenticator
from agentrail.host.answering.call_request import CallRequest
from agentrail.host.answering.event_frames import EventFrames
from agentrail.host.answering.talk_calls import STREAMED
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.http11.http_messages import HttpResponse, Send
from agentrail.runtime.events.subscription import Subscription
from agentrail.wire.bodies import EventsQuery, MessagesQuery
from agentrail.wire.problems import problem_of
from agentrail.wire.sse_frames import HEARTBEAT, PROBLEM, frame
from agentrail.wire.strict_reading import start_of, types_of
from agentrail.wire.views import MessagesView


class ViewCalls:
    """Carries out the calls that look at a session."""

    def __init__(self, sessions: HostedSessions, frames: EventFrames, authenticator: Authenticator) -> None:
        self._sessions = sessions
        self._frames = frames
        self._authenticator = authenticator
        self._open: set[trio.CancelScope] = set()
        self._over = False

    def end_streams(self) -> None:
        """End all streams of events: the host is closing. Their clients go on with another connection."""
        self._over = True
        for scope in self._open:
            scope.cancel()

    async def events(self, exchange: CallRequest) -> HttpResponse:
        """Stream the events of a session, from a cursor on or live, until the client goes or the session ends."""
        query = exchange.query(EventsQuery)
        name = self._sessions.name(exchange.call, exchange.who, exchange.session)
        since = start_of(exchange.call, query, exchange.request.header("last-event-id") or "")
        types = types_of(exchange.call, query)
        session = await self._sessions.running(name)
        return HttpResponse(200, STREAMED, partial(self._stream, exchange, session.subscribe(since=since, types=types)))

    async def _stream(self, exchange: CallRequest, subscription: Subscription, send: Send) -> None:
        scope = trio.CancelScope()
        self._open.add(scope)
        if self._over:
            scope.cancel()
        try:
            with scope:
                await self._send_events(exchange, subscription, send)
        except AgentrailError as error:
            await send(frame(PROBLEM, problem_of(error, exchange.call.attempt, exchange.who.tenant).content))
        finally:
            self._open.remove(scope)

    async def _send_events(self, exchange: CallRequest, subscription: Subscription, send: Send) -> None:
        async with subscription as events:
            checked = trio.current_time()
            await send(HEARTBEAT)  # the head goes out with the first bytes
            with suppress(StopAsyncIteration):
                while True:
                    envelope = await self._frames.next(events)
                    if trio.current_time() - checked >= exchange.limits.heartbeat_seconds:
                        await self._authenticator.identify(exchange.request.headers)  # the key may be withdrawn
                        checked = trio.current_time()
                    await send(HEARTBEAT if envelope is None else self._frames.frame(envelope))

    async def messages(self, exchange: CallRequest) -> HttpResponse:
        """Show a page of the conversation."""
        query = exchange.query(MessagesQuery)
        name = self._sessions.name(exchange.call, exchange.who, exchange.session)
        limit = min(query.limit or exchange.limits.page, exchange.limits.most_page)
        found = (await self._sessions.running(name)).messages()
        first = query.after or 0
        last = first + limit
        return exchange.given(MessagesView(tuple(found[first:last]), last if last < len(found) else None))
