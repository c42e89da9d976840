"""Calls about one session that only its handle had: its end, labels, queue, rest, and what it may be given.

Which function carries out which of the calls of upkeep.

Calls about the sub-agents of a session: list them, write to them, wait for them and stop them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import trio

from agentrail.api.bodies import TaskQuery, WaitTasksQuery
from agentrail.api.public_ids import SessionName, named, visible
from agentrail.api.views import (
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
from agentrail.errors import UnknownSession, UnknownTask
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.http11.http_messages import HttpResponse, while_here
from agentrail.host.operations.call_request import CallRequest, CarryOut
from agentrail.host.profiles import ProfileTable
from agentrail.runtime.commands import ended_tasks
from agentrail.runtime.handle import SessionHandle


class UpkeepCalls:
    """Carries out the calls of handles that are no talk and no decision."""

    def __init__(self, sessions: HostedSessions, profiles: ProfileTable) -> None:
        self._sessions = sessions
        self._profiles = profiles

    async def _session(self, exchange: CallRequest) -> SessionHandle:
        name = self._sessions.name(exchange.call, exchange.who, exchange.session)
        return (await self._sessions.running(name, exchange.watch)).by(exchange.who.user)

    async def queued(self, exchange: CallRequest) -> HttpResponse:
        """Show the prompts in the queue; the session is neither started nor woken for that."""
        name = self._sessions.name(exchange.call, exchange.who, exchange.session)
        queue = (await self._sessions.state(name)).queue
        return exchange.view_answer(QueueView(tuple([view(PromptView, prompt) for prompt in queue])))

    async def offered(self, exchange: CallRequest) -> HttpResponse:
        """Show what the session may be given by name."""
        offer = await self._sessions.offered(await self._session(exchange))
        return exchange.view_answer(
            OfferedView(*[tuple(sorted(names)) for names in (offer.models, offer.tools, offer.plugins)])
        )

    async def agents(self, exchange: CallRequest) -> HttpResponse:
        """List the names of the profiles."""
        await trio.lowlevel.checkpoint()
        return exchange.view_answer(AgentsView(tuple([profile.id for profile in self._profiles])))


class SubagentCalls:
    """Carries out the calls about sub-agents."""

    def __init__(self, sessions: HostedSessions) -> None:
        self._sessions = sessions

    async def _children(self, exchange: CallRequest, names: Iterable[str]) -> tuple[SessionHandle, list[str]]:
        """Return the session of the request, and the ids in the journal of the sub-agents *names*."""
        name = self._sessions.name(exchange.call, exchange.who, exchange.session)
        session = (await self._sessions.running(name, exchange.watch)).by(exchange.who.user)
        children = [task.child for task in session.tasks()]
        return session, [child_id(name, exchange.who.user, child, children) for child in names]

    async def tasks(self, exchange: CallRequest) -> HttpResponse:
        """List the sub-agents of the session; it is neither started nor woken for that."""
        name = self._sessions.name(exchange.call, exchange.who, exchange.session)
        handle = self._sessions.here(name)
        tasks_ = ended_tasks(await self._sessions.state(name)) if handle is None else handle.tasks()
        return exchange.view_answer(TasksView(tuple([view(TaskView, task) for task in tasks_])))

    async def result(self, exchange: CallRequest) -> HttpResponse:
        """Wait for the answer of a sub-agent."""
        session, (child,) = await self._children(exchange, [exchange.query(TaskQuery).child])

        async def answer() -> HttpResponse:
            return exchange.view_answer(TaskResultView(visible(child), await session.task_result(child)))

        return await while_here(exchange.request, answer)

    async def wait(self, exchange: CallRequest) -> HttpResponse:
        """Wait for the answers of sub-agents."""
        query = exchange.query(WaitTasksQuery)
        session, children = await self._children(exchange, query.children.split(","))
        until = trio.current_time() + query.milliseconds / 1000

        async def answer() -> HttpResponse:
            seconds = max(until - trio.current_time(), 0)
            results = await session.wait_tasks(*children, every=query.every, seconds=seconds)
            items = [TaskResultView(visible(child), result) for child, result in results.items()]
            return exchange.view_answer(TaskResultsView(tuple(items)))

        return await while_here(exchange.request, answer)


def child_id(parent: SessionName, user: str, name: str, children: Iterable[str]) -> str:
    """Return the id in the journal of the sub-agent of *parent* that the *user* means by *name*."""
    try:
        child = named(parent.tenant, user, name).internal
    except UnknownSession:
        child = ""
    if not child.startswith(f"{parent.internal}."):
        raise UnknownTask.among(name, children)
    return child


def upkeep_functions(upkeep: UpkeepCalls, tasks: SubagentCalls) -> Mapping[str, CarryOut]:
    """Return the functions, by the names of their calls."""
    return {
        "queued": upkeep.queued,
        "offered": upkeep.offered,
        "agents": upkeep.agents,
        "tasks": tasks.tasks,
        "task_result": tasks.result,
        "wait_tasks": tasks.wait,
    }
