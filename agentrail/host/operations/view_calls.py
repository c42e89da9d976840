"""Calls that read a session: its events as a stream, and its messages."""

from __future__ import annotations

from functools import partial
from typing import Final

from agentrail.api.bodies import EventsQuery, MessagesQuery
from agentrail.api.body_parsing import start_of, types_of
from agentrail.api.limits import page_of
from agentrail.api.views import MessagesView
from agentrail.host.authentication.identity import ForwardedIdentity
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.answers import Answer
from agentrail.host.operations.call import OperationCall
from agentrail.host.operations.client_streams import ClientStreams
from agentrail.host.operations.event_frames import EventFrames
from agentrail.host.requests.http_messages import Send
from agentrail.runtime.events.subscription import Subscription
from agentrail.values.events.envelope import Cursor, Event
from agentrail.values.events.policies import POLICIES, SubscriptionPolicy

POLICY: Final = "agentrail-policy"
"""Header with the policy of a subscription that another host passes on; others have none in their query."""


class ViewCalls:
    """Carries out the calls that read the events and messages of a session."""

    def __init__(self, sessions: HostedSessions, frames: EventFrames, streams: ClientStreams) -> None:
        self._sessions = sessions
        self._frames = frames
        self._streams = streams

    async def events(self, call: OperationCall) -> Answer:
        """Stream the events of a session, from a cursor on or live, until the client goes or the session ends."""
        query = call.query(EventsQuery)
        since = start_of(call.row, query, call.header("last-event-id") or "")
        types = types_of(call.row, query)
        self._streams.check(call.who)
        policy_name = call.header(POLICY) if isinstance(call.who, ForwardedIdentity) else None
        policy = POLICIES[POLICIES.index(policy_name)] if policy_name in POLICIES else POLICIES[0]
        subscription = await self.subscribed(call, since, types, policy)
        send = self._send_events if policy_name is None else self._send_on
        return self._streams.session(call, partial(send, subscription))

    async def subscribed(
        self,
        call: OperationCall,
        since: Cursor | None,
        types: tuple[type[Event], ...] | None,
        policy: SubscriptionPolicy = POLICIES[0],
    ) -> Subscription:
        """Return a subscription to the events of the session that *call* is about."""
        name = self._sessions.name(call.row, call.who, call.session)
        session = await self._sessions.running(name, call.watch)
        return session.subscribe(since=since, types=types, policy=policy)

    async def _send_on(self, subscription: Subscription, send: Send) -> None:
        """Send the events to another host, for a subscription that has to know where it begins."""
        position = subscription.position
        await send(f"id: {position.seq}.{position.n}\n\n".encode())
        await self._send_events(subscription, send)

    async def _send_events(self, subscription: Subscription, send: Send) -> None:
        async def give(frames: bytes) -> bool:
            await send(frames)
            return True

        async with subscription as events:
            await self._frames.give_each(events, give)

    async def messages(self, call: OperationCall) -> Answer:
        """Show a page of the conversation."""
        query = call.query(MessagesQuery)
        name = self._sessions.name(call.row, call.who, call.session)
        limit = page_of(query.limit)
        history = (await self._sessions.state(name)).history
        first = query.after or 0
        last = first + limit
        return call.view_answer(MessagesView(tuple(history[first:last]), last if last < len(history) else None))
