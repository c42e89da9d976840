"""`SubagentCalls`: carries out the calls that list the sub-agents of a session, and wait for their answers."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from agentrail.api.bodies import TaskQuery, WaitTasksQuery
from agentrail.api.public_ids import SessionName, named, visible
from agentrail.api.views import TaskResultsView, TaskResultView, TasksView, TaskView, view
from agentrail.errors import UnknownSession, UnknownTask
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.operations.answers import Answer
from agentrail.host.operations.call import Call, running_session
from agentrail.host.requests.http_messages import while_here
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.status import ended_tasks


class SubagentCalls:
    """Carries out the calls about sub-agents."""

    def __init__(self, sessions: HostedSessions) -> None:
        self._sessions = sessions

    async def _children(self, call: Call, names: Iterable[str]) -> tuple[SessionHandle, list[str]]:
        """Return the session of the request, and the ids in the journal of the sub-agents *names*."""
        name, session = await running_session(self._sessions, call)
        children = [task.child for task in session.tasks()]
        return session, [child_id(name, call.who.user, child, children) for child in names]

    async def tasks(self, call: Call) -> Answer:
        """List the sub-agents of the session; it is neither started nor woken for that."""
        name = self._sessions.name(call.row, call.who, call.session)
        handle = self._sessions.here(name)
        tasks_ = ended_tasks(await self._sessions.state(name)) if handle is None else handle.tasks()
        return call.shown(TasksView(tuple([view(TaskView, task) for task in tasks_])))

    async def task_result(self, call: Call) -> Answer:
        """Wait for the answer of a sub-agent."""
        session, (child,) = await self._children(call, [call.query(TaskQuery).child])

        async def answer() -> Answer:
            return call.shown(TaskResultView(visible(child), await session.task_result(child)))

        return await while_here(call.gone, answer)

    async def wait_tasks(self, call: Call) -> Answer:
        """Wait for the answers of sub-agents."""
        query = call.query(WaitTasksQuery)
        session, children = await self._children(call, query.children.split(","))
        until = trio.current_time() + query.milliseconds / 1000

        async def answer() -> Answer:
            seconds = max(until - trio.current_time(), 0)
            results = await session.wait_tasks(*children, every=query.every, seconds=seconds)
            items = [TaskResultView(visible(child), result) for child, result in results.items()]
            return call.shown(TaskResultsView(tuple(items)))

        return await while_here(call.gone, answer)


def child_id(parent: SessionName, user: str, name: str, children: Iterable[str]) -> str:
    """Return the id in the journal of the sub-agent of *parent* that the *user* means by *name*."""
    try:
        child = named(parent.tenant, user, name).internal
    except UnknownSession:
        child = ""
    if not child.startswith(f"{parent.internal}."):
        raise UnknownTask.among(name, children)
    return child
