"""The children of a supervisor: sessions, services, and supervisors of their own."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

import trio

from agentrail.core.supervision_rules import Ward
from agentrail.core.vocabulary.commands import Answer, StopSent
from agentrail.errors import JournalUnavailable
from agentrail.ports.failpoints import Failpoint, reach
from agentrail.reprs import in_brackets, listed, some
from agentrail.runtime.actor.hibernation import husk
from agentrail.runtime.actor.loop import Session
from agentrail.runtime.diagnosis.crash_reports import ChildView
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.inbox.mailbox import Letter
from agentrail.runtime.shared.reply_slot import Slot

Service: TypeAlias = Callable[..., Awaitable[None]]
"""An async function that serves until it is cancelled; with a `task_status`, it says itself when it is ready."""


LIVING: Final = frozenset({"starting", "running", "waiting", "stopping", "stuck"})
"""The states of a child that has a task."""


class Body(Protocol):
    """What a child is."""

    @property
    def kind(self) -> str:
        """`session`, `service` or `supervisor`."""
        ...

    async def run(self, ready: Callable[[], None]) -> None:
        """Live once: call *ready* when others may count on it, return or raise when it is over."""
        ...

    def broke(self, cause: str) -> None:
        """Hear, before it lives again, what has ended the life before."""
        ...

    async def wind_down(self) -> None:
        """End by itself, for good; if it takes too long, it is cancelled."""
        ...

    async def rest(self) -> None:
        """Get ready to be cancelled, and maybe to live again."""
        ...

    def gone(self, error: BaseException | None) -> None:
        """Clean up: it will not live again."""
        ...

    def view(self, shown: ChildView) -> ChildView:
        """Return *shown* with what is special to this kind."""
        ...


class SessionBody:
    """A session: it lives again from its records, and its mailbox and its work in the world outlive its actor."""

    __slots__ = ("handle", "session", "why")

    kind = "session"

    def __init__(self, session: Session, handle: SessionHandle) -> None:
        self.session = session
        self.handle = handle
        self.why = "the supervisor stopped"

    async def run(self, ready: Callable[[], None]) -> None:
        """Own the session until it ends."""
        ready()
        await self.session.run()

    def broke(self, cause: str) -> None:
        """Let the next life tell of it."""
        self.session.broke = cause

    async def wind_down(self) -> None:
        """Abort and stop it; a session whose actor does not run has nobody to do that."""
        session = self.session
        slot: Slot[Answer] = Slot()
        session.abort_now("all", None, slot)
        session.mailbox.post_control(Letter(StopSent(self.why), slot=slot))

    async def rest(self) -> None:
        """Its actor may be cancelled at any time."""

    @property
    def sleeps(self) -> bool:
        """Whether it has gone to sleep."""
        return self.session.sleep.is_deep

    def gone(self, error: BaseException | None) -> None:
        """Tell everybody who waits."""
        if self.session.gone is None:
            self.session.finish(error)
            reach(Failpoint.LEFT)

    def forget(self) -> None:
        """Keep no more of a session that is gone than `status` shows, unless its journal keeps it."""
        session = self.session
        if session.house.forget is not None:
            session.house.forget(session.session_id)
            session.records.forgotten = True
            session.state = husk(session.state)

    def view(self, shown: ChildView) -> ChildView:
        """Show phase, mailbox, what waits for a provider's limit, and sub-agents."""
        session = self.session
        subagents = session.ties.subagents
        return shown.but(
            phase=session.state.phase.value,
            suspended=session.mailbox.suspended,
            mailbox=session.mailbox.lengths,
            memory=session.state.history.size,
            limited=session.house.limits.waiting_of(session.state.session_id),
            children=() if subagents is None else subagents.views(),
        )


class ServiceBody:
    """A plain async function."""

    kind = "service"

    def __init__(self, service: Service) -> None:
        self._service = service

    async def run(self, ready: Callable[[], None]) -> None:
        """Run it; one that does not say when it is ready is so at once."""
        if "task_status" in inspect.signature(self._service).parameters:
            await self._service(task_status=_Ready(ready))
        else:
            ready()
            await self._service()

    def broke(self, cause: str) -> None:
        """It begins anew each time."""

    async def wind_down(self) -> None:
        """It ends when it is cancelled."""

    async def rest(self) -> None:
        """It may be cancelled at any time."""

    def gone(self, error: BaseException | None) -> None:
        """It has cleaned up by itself."""

    def view(self, shown: ChildView) -> ChildView:
        """Nothing is special to it."""
        return shown


class _Ready:
    """Trio's `task_status` for a service."""

    __slots__ = ("_ready",)

    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready = ready

    def started(self, _value: object = None) -> None:
        """Say that others may count on the service."""
        self._ready()


class Child:
    """A child of a supervisor, through all its lives."""

    __slots__ = (
        "_ended",
        "body",
        "error",
        "expected",
        "key",
        "ready",
        "restarts",
        "scope",
        "shutdown",
        "start_timeout",
        "state",
        "ward",
    )

    def __init__(self, body: Body, ward: Ward, shutdown: float, start_timeout: float = math.inf) -> None:
        self.body = body
        self.key = ward.key
        self.ward = ward
        self.shutdown = shutdown
        self.start_timeout = start_timeout
        self.restarts = 0
        self.error: BaseException | None = None
        self.begin()

    @in_brackets
    def __repr__(self) -> str:
        return listed(f"{self.key!r} {self.body.kind} {self.state}", some(self.restarts, "restart"))

    def begin(self) -> None:
        """Be ready for a life."""
        self.state = "starting"
        self.expected = False
        self.scope = trio.CancelScope(shield=True)
        self.ready: Slot[BaseException | None] = Slot()
        self._ended: trio.Event | None = None

    def lives(self) -> bool:
        """Whether a task of it runs."""
        return self.state in LIVING

    def is_ready(self) -> None:
        """Take note that it is there: it has no time limit any more."""
        self.scope.deadline = math.inf
        if self.state == "starting":
            self.state = "running"
        self.ready.settle(None)

    def end(self, state: str = "down") -> None:
        """Tell everybody that the life is over."""
        self.state = state
        if self._ended is not None:
            self._ended.set()

    async def wait_ended(self) -> None:
        """Return when no task of it runs."""
        if self.lives():
            if self._ended is None:
                self._ended = trio.Event()
            await self._ended.wait()

    def view(self) -> ChildView:
        """Return what `tree()` shows of it."""
        shown = ChildView(self.key, self.body.kind, self.state, self.ward.restart, self.restarts)
        return self.body.view(shown)


def session_of(child: Child | None) -> Session | None:
    """Return the session that *child* is, if it is one."""
    body = None if child is None else child.body
    return body.session if isinstance(body, SessionBody) else None


def not_started(child: Child, error: BaseException | None) -> bool:
    """Whether *child* has never been ready: then whoever starts it is told, and the rules are not asked."""
    if isinstance(child.body, SessionBody):  # which waits for its journal as soon as it has started or returned
        return child.body.session.state.opening or isinstance(error, JournalUnavailable)
    return child.restarts == 0 and not child.ready.settled
