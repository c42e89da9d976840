"""Calls about one session that only its handle had: its end, labels, queue, rest, and what it may be given.

Which function carries out which of the calls of upkeep.

Calls about the sub-agents of a session: list them, write to them, wait for them and stop them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import trio

from agentrail.errors import UnknownSession, UnknownTask
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.http11.http_messages import HttpResponse, while_here
from agentrail.host.operations.call_request import CallRequest, CarryOut
from agentrail.host.profiles import ProfileTable
from agentrail.runtime.commands import ended_tasks
from agentrail.runtime.handle import SessionHandle
from agentrail.wire.bodies import LabelBody, MessageTaskBody, StopBody, TaskQuery, WaitTasksQuery, WithdrawBody
from agentrail.wire.public_ids import SessionName, named, visible
from agentrail.wire.views import (
    AgentsView,
    OfferedView,
    PromptView,
    QueueView,
    TaskResultsView,
    TaskResultView,
    TasksView,
    TaskView,
    view,
)


class UpkeepCalls:
    """Carries out the calls of handles that are no talk and no decision."""

    def __init__(self, sessions: HostedSessions, profiles: ProfileTable) -> None:
        self._sessions = sessions
        self._profiles = profiles

    async def _session(self, exchange: CallRequest) -> SessionHandle:
        name = self._sessions.name(exchange.call, exchange.who, exchange.session)
        return (await self._sessions.running(name, exchange.watch)).by(exchange.who.user)

    async def stop(self, exchange: CallRequest) -> HttpResponse:
        """End the session for good."""
        body = await exchange.body(StopBody)
        await (await self._session(exchange)).stop(body.reason, command=exchange.command)
        return exchange.done()

    async def label(self, exchange: CallRequest) -> HttpResponse:
        """Change the labels and the title of the session."""
        body = await exchange.body(LabelBody)
        session = await self._session(exchange)
        await session.label(body.add, body.remove, title=body.title, command=exchange.command)
        return exchange.done()

    async def queued(self, exchange: CallRequest) -> HttpResponse:
        """Show the prompts in the queue; the session is neither started nor woken for that."""
        name = self._sessions.name(exchange.call, exchange.who, exchange.session)
        queue = (await self._sessions.state(name)).queue
        return exchange.given(QueueView(tuple([view(PromptView, prompt) for prompt in queue])))

    async def withdraw(self, exchange: CallRequest) -> HttpResponse:
        """Remove a prompt from the queue."""
        body = await exchange.body(WithdrawBody)
        await (await self._session(exchange)).withdraw(body.ref, command=exchange.command)
        return exchange.done()

    async def suspend(self, exchange: CallRequest) -> HttpResponse:
        """Let all but urgent commands wait."""
        await (await self._session(exchange)).suspend()
        return exchange.done()

    async def resume(self, exchange: CallRequest) -> HttpResponse:
        """Handle what has waited since the session was suspended."""
        await (await self._session(exchange)).resume()
        return exchange.done()

    async def offered(self, exchange: CallRequest) -> HttpResponse:
        """Show what the session may be given by name."""
        found = await self._sessions.offered(await self._session(exchange))
        return exchange.given(
            OfferedView(*[tuple(sorted(each)) for each in (found.models, found.tools, found.plugins)])
        )

    async def agents(self, exchange: CallRequest) -> HttpResponse:
        """List the names of the profiles."""
        await trio.lowlevel.checkpoint()
        return exchange.given(AgentsView(tuple([profile.id for profile in self._profiles])))


class SubagentCalls:
    """Carries out the calls about sub-agents."""

    def __init__(self, sessions: HostedSessions) -> None:
        self._sessions = sessions

    async def _children(self, exchange: CallRequest, said: Iterable[str]) -> tuple[SessionHandle, list[str]]:
        """Return the session of the request, and the ids in the journal of the sub-agents that are *said*."""
        name = self._sessions.name(exchange.call, exchange.who, exchange.session)
        session = (await self._sessions.running(name, exchange.watch)).by(exchange.who.user)
        known = [task.child for task in session.tasks()]
        return session, [_child(name, exchange.who.user, each, known) for each in said]

    async def tasks(self, exchange: CallRequest) -> HttpResponse:
        """List the sub-agents of the session; it is neither started nor woken for that."""
        name = self._sessions.name(exchange.call, exchange.who, exchange.session)
        handle = self._sessions.here(name)
        found = ended_tasks(await self._sessions.state(name)) if handle is None else handle.tasks()
        return exchange.given(TasksView(tuple([view(TaskView, task) for task in found])))

    async def message(self, exchange: CallRequest) -> HttpResponse:
        """Send a message to a sub-agent that runs."""
        body = await exchange.body(MessageTaskBody)
        session, (child,) = await self._children(exchange, [body.child])
        await session.message_task(child, body.text, command=exchange.command)
        return exchange.done()

    async def cancel(self, exchange: CallRequest) -> HttpResponse:
        """Stop a sub-agent."""
        session, (child,) = await self._children(exchange, [exchange.query(TaskQuery).child])
        await session.cancel_task(child)
        return exchange.done()

    async def result(self, exchange: CallRequest) -> HttpResponse:
        """Wait for the answer of a sub-agent."""
        session, (child,) = await self._children(exchange, [exchange.query(TaskQuery).child])

        async def answer() -> HttpResponse:
            return exchange.given(TaskResultView(visible(child), await session.task_result(child)))

        return await while_here(exchange.request, answer)

    async def wait(self, exchange: CallRequest) -> HttpResponse:
        """Wait for the answers of sub-agents."""
        query = exchange.query(WaitTasksQuery)
        session, children = await self._children(exchange, query.children.split(","))
        until = trio.current_time() + query.milliseconds / 1000

        async def answer() -> HttpResponse:
            left = max(until - trio.current_time(), 0)
            found = await session.wait_tasks(*children, every=query.every, seconds=left)
            items = [TaskResultView(visible(child), result) for child, result in found.items()]
            return exchange.given(TaskResultsView(tuple(items)))

        return await while_here(exchange.request, answer)


def _child(parent: SessionName, user: str, said: str, known: Iterable[str]) -> str:
    """Return the id in the journal of the sub-agent of *parent* that the *user* means by *said*."""
    try:
        child = named(parent.tenant, user, said).internal
    except UnknownSession:
        child = ""
    if not child.startswith(f"{parent.internal}."):
        raise UnknownTask.among(said, known)
    return child


def upkeep_functions(upkeep: UpkeepCalls, tasks: SubagentCalls) -> Mapping[str, CarryOut]:
    """Return the functions, by the names of their calls."""
    return {
        "stop": upkeep.stop,
        "label": upkeep.label,
        "queued": upkeep.queued,
        "withdraw": upkeep.withdraw,
        "suspend": upkeep.suspend,
        "resume": upkeep.resume,
        "offered": upkeep.offered,
        "agents": upkeep.agents,
        "tasks": tasks.tasks,
        "message_task": tasks.message,
        "cancel_task": tasks.cancel,
        "task_result": tasks.result,
        "wait_tasks": tasks.wait,
    }
