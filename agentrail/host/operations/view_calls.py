"""Calls that read a session: its events as a stream, and its messages.

Calls that read a session, or wait: `QueryCalls` for its queue and what it may be given, `SubagentCalls`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import trio

from agentrail.api.bodies import EventsQuery, MessagesQuery, TaskQuery, WaitTasksQuery
from agentrail.api.body_parsing import start_of, types_of
from agentrail.api.limits import page_of
from agentrail.api.public_ids import SessionName, visible
from agentrail.api.views import (
    MessagesView,
    OfferedView,
    OptionView,
    PromptView,
    QueueView,
    TaskResultsView,
    TaskResultView,
    TasksView,
    TaskView,
    view,
)
from agentrail.core.vocabulary.state import State
from agentrail.host.authentication.identity import ForwardedIdentity
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.call import Answer, OperationCall, running_session
from agentrail.host.operations.command_calls import child_id, is_of_the_program
from agentrail.host.operations.event_frames import ClientStreams, EventFrames
from agentrail.host.operations.record_calls import AT_ONCE, BACK
from agentrail.host.profiles import Offered
from agentrail.host.requests.http_messages import Send, while_here
from agentrail.ports.journal import Journal, Record
from agentrail.runtime.access.status import ended_tasks
from agentrail.runtime.events.subscription import Subscription
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.values.events.envelope import Cursor, Event
from agentrail.values.events.life import AgentStart
from agentrail.values.events.policies import POLICIES, SubscriptionPolicy

POLICY: Final = "agentrail-policy"
"""Header with the policy of a subscription that another host passes on; others have none in their query."""


class ViewCalls:
    """Carries out the calls that read the events and messages of a session."""

    def __init__(self, sessions: HostedSessions, frames: EventFrames, streams: ClientStreams, journal: Journal) -> None:
        self._sessions = sessions
        self._frames = frames
        self._streams = streams
        self._journal = journal

    async def events(self, call: OperationCall) -> Answer:
        """Stream the events of a session, from a cursor on or live, until the client goes or the session ends."""
        query = call.query(EventsQuery)
        since = start_of(call.row, query, call.header("last-event-id") or "")
        types = types_of(call.row, query)
        self._streams.check(call.who)
        policy_name = call.header(POLICY) if isinstance(call.who, ForwardedIdentity) else None
        policy = POLICIES[POLICIES.index(policy_name)] if policy_name in POLICIES else POLICIES[0]
        subscription = await self.subscribed(call, since, types, policy)
        return self._streams.session(
            call, partial(self._send_events, subscription, tells_cursor=query.position or policy_name is not None)
        )

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

    async def stored(self, name: SessionName, after: int) -> Sequence[Record]:
        """Return some of the records after number *after*, few enough for memory; none after the last.

        As for a `Replay`, a journal that fails is asked until it is back.
        """
        return await patiently(partial(self._journal.read, name.internal, after, AT_ONCE))

    async def turn_at(self, name: SessionName, cursor: Cursor) -> int:
        """Return the number of the record after which to fold what leads to *cursor*: where the last turn before began.

        That is at most `BACK` records before, as the history may be of any length. Of what is open from before, such as
        a call that runs on in the background, the end is folded as that of one of which nothing was told.
        """
        number = await patiently(partial(self._journal.record_of_seq, name.internal, cursor.seq))
        for after in range(number - AT_ONCE, max(number - BACK, 0) - AT_ONCE, -AT_ONCE):
            for record in reversed(await self.stored(name, max(after, 0))):
                if record.number <= number and any(isinstance(event.event, AgentStart) for event in record.events):
                    return record.number - 1
        return max(number - BACK, 0)

    async def _send_events(self, subscription: Subscription, send: Send, *, tells_cursor: bool) -> None:
        """Send the events; with *tells_cursor*, first where the subscription begins, as another host wants to know."""

        async def give(frames: bytes) -> bool:
            await send(frames)
            return True

        async with subscription as events:
            if tells_cursor:
                await send(f"id: {events.position}\n\n".encode())
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


def _options(state: State, offer: Offered) -> Iterator[OptionView]:
    """Yield the options that clients may change, with their values."""
    for plugin in state.plugins:
        for name in offer.options.get(plugin.key, ()):
            yield OptionView(plugin.key, name, plugin.options.get(name))
    for name, value in state.model_options.items():
        if not is_of_the_program({name: value}):
            yield OptionView("", name, value)


class QueryCalls:
    """Carries out the calls that list the queue of a session, and what it may be given."""

    def __init__(self, sessions: HostedSessions) -> None:
        self._sessions = sessions

    async def queued(self, call: OperationCall) -> Answer:
        """Show the prompts in the queue; the session is neither started nor woken for that."""
        name = self._sessions.name(call.row, call.who, call.session)
        queue = (await self._sessions.state(name)).queue
        return call.view_answer(QueueView(tuple([view(PromptView, prompt) for prompt in queue])))

    async def offered(self, call: OperationCall) -> Answer:
        """Show the names of the tools, plugins and models that the session may be given."""
        _, session = await running_session(self._sessions, call)
        offer = await self._sessions.offered(session)
        models, tools, plugins = [tuple(sorted(names)) for names in (offer.models, offer.tools, offer.plugins)]
        options = tuple(_options(session.inspect(), offer))
        return call.view_answer(OfferedView(models, tools, plugins, options))


class SubagentCalls:
    """Carries out the calls about sub-agents."""

    def __init__(self, sessions: HostedSessions) -> None:
        self._sessions = sessions

    async def _children(self, call: OperationCall, names: Iterable[str]) -> tuple[SessionHandle, list[str]]:
        """Return the session of the request, and the ids in the journal of the sub-agents *names*."""
        name, session = await running_session(self._sessions, call)
        children = [task.child for task in session.tasks()]
        return session, [child_id(name, call.who.user, child, children) for child in names]

    async def tasks(self, call: OperationCall) -> Answer:
        """List the sub-agents of the session; it is neither started nor woken for that."""
        name = self._sessions.name(call.row, call.who, call.session)
        handle = self._sessions.here(name)
        tasks_ = ended_tasks(await self._sessions.state(name)) if handle is None else handle.tasks()
        return call.view_answer(TasksView(tuple([view(TaskView, task) for task in tasks_])))

    async def task_result(self, call: OperationCall) -> Answer:
        """Wait for the answer of a sub-agent."""
        session, (child,) = await self._children(call, [call.query(TaskQuery).child])

        async def answer() -> Answer:
            return call.view_answer(TaskResultView(visible(child), await session.task_result(child)))

        return await while_here(call.wait_gone, answer)

    async def wait_tasks(self, call: OperationCall) -> Answer:
        """Wait for the answers of sub-agents."""
        query = call.query(WaitTasksQuery)
        session, children = await self._children(call, query.children.split(","))
        until = trio.current_time() + query.milliseconds / 1000

        async def answer() -> Answer:
            seconds = max(until - trio.current_time(), 0)
            results = await session.wait_tasks(*children, every=query.every, seconds=seconds)
            items = [TaskResultView(visible(child), result) for child, result in results.items()]
            return call.view_answer(TaskResultsView(tuple(items)))

        return await while_here(call.wait_gone, answer)
