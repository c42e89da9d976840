"""A nursery of sessions: who is there, how they start, and how they are all gone at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from agentrail.core.answers import Answer
from agentrail.core.inputs import SessionOpened, StopSent
from agentrail.core.state import State
from agentrail.errors import BadId, CommitUnknown, SessionExists, SupervisorClosed, UnknownSession
from agentrail.ports.journal import Claim
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.mailbox import Letter
from agentrail.runtime.parts import House, Outfit
from agentrail.runtime.session import Session
from agentrail.runtime.slot import Slot

log = logging.getLogger("agentrail.supervisor")

MAX_ID = 128
OWNER = "supervisor"
STRAGGLER_AFTER = 1.0
"""Seconds after which tools that outlive their sessions are named in the log."""


class Child:
    """A session under supervision."""

    __slots__ = ("handle", "scope", "session")

    def __init__(self, session: Session, handle: SessionHandle) -> None:
        self.session = session
        self.handle = handle
        self.scope = trio.CancelScope(shield=True)


class Sessions:
    """The sessions of one supervisor: `one_for_one`, so that one's crash is nobody else's."""

    def __init__(self, house: House, wrap: Callable[[Session], SessionHandle]) -> None:
        self.house = house
        self._wrap = wrap
        self._children: dict[str, Child] = {}
        self._taken: set[str] = set()
        self._closing = False
        self._doomed = False

    def handle(self, session_id: str) -> SessionHandle:
        """Return the handle of a session."""
        child = self._children.get(session_id)
        if child is None or child.session.state.opening:
            raise UnknownSession(session_id)
        return child.handle

    def handles(self) -> tuple[SessionHandle, ...]:
        """Return the handles of all sessions, in the order they were started."""
        return tuple(child.handle for child in self._children.values() if not child.session.state.opening)

    async def start(self, state: State, outfit: Outfit) -> SessionHandle:
        """Start a session; if it does not start, nothing of it is left, and the reason is raised."""
        session_id = state.session_id
        if self._closing:
            raise SupervisorClosed(session_id)
        if not _follows_grammar(session_id):
            raise BadId(session_id)
        if session_id in self._taken:
            raise SessionExists(session_id)
        self._taken.add(session_id)
        try:
            session = Session(state, await self._claim(session_id), self.house, outfit)
        except BaseException:
            self._taken.remove(session_id)
            raise
        child = self._children[session_id] = Child(session, self._wrap(session))
        session.mailbox.post_control(Letter(SessionOpened()))
        self.house.nursery.start_soon(self._run, child)
        try:
            error = await session.performer.started.wait()
            if error is None:
                await session.open_sources()
        except trio.Cancelled:
            child.scope.cancel()
            with trio.CancelScope(shield=True):
                await session.wait_down()
            raise
        if error is not None:
            with trio.CancelScope(shield=True):
                await session.wait_down()
            raise type(error)(*error.args)
        return child.handle

    async def _claim(self, session_id: str) -> Claim:
        """Become the writer of a session that is new; claiming one that exists would stop its owner."""
        journal = self.house.journal
        if await journal.read(session_id, 0, 1):
            raise SessionExists(session_id)
        claim = await journal.claim(session_id, OWNER)
        if claim.head:
            raise SessionExists(session_id)
        if self._closing:
            raise SupervisorClosed(session_id)
        return claim

    async def _run(self, child: Child) -> None:
        """Run a session to its end; nothing of it reaches the nursery but what ends the process."""
        session = child.session
        error: Exception | None = None
        try:
            with child.scope:
                await session.run()
        except CommitUnknown as unknown:  # nobody here knows any more what has happened: all of it ends
            error = unknown
            if not self._doomed:
                self._doom()
                raise
        except Exception as crash:  # a crash is contained here, reported, and seen by monitors
            log.exception("session %s crashed", session.state.session_id)
            error = crash
        finally:
            del self._children[session.state.session_id]
            self._taken.remove(session.state.session_id)
            session.performer.started.settle(session.finish(error))

    # The end

    async def close(self) -> None:
        """Stop all sessions, the youngest first, each within its own time limit, and give back the journal."""
        self._closing = True
        for child in reversed(list(self._children.values())):
            await self._stop(child)
        await self._see_off_calls()
        await self.house.journal.close()

    def _doom(self) -> None:
        """End all sessions at once: none of them may write or do anything more."""
        self._doomed = self._closing = True
        for child in self._children.values():
            child.scope.cancel()

    async def _stop(self, child: Child) -> None:
        session = child.session
        slot: Slot[Answer] = Slot()
        session.abort_now("all", None, slot)
        session.mailbox.post_control(Letter(StopSent("the supervisor stopped"), slot=slot))
        with trio.move_on_after(session.state.setup.options.shutdown):
            await child.session.wait_down()
        if session.reason is None:
            log.warning("session %s did not stop in time and is cancelled", session.state.session_id)
            child.scope.cancel()
            await child.session.wait_down()

    async def _see_off_calls(self) -> None:
        """Wait a moment for cancelled tools; name those that outlive it."""
        calls = self.house.calls
        with trio.move_on_after(STRAGGLER_AFTER):
            await calls.wait_empty()
        left = self.house.threads.names()
        if left:
            log.warning("threads of tools that do not end are left behind: %s", ", ".join(left))
        stubborn = [name for name in calls.names() if name not in left]
        if stubborn:
            log.warning("tools that ignore their cancellation are waited for: %s", ", ".join(stubborn))
        self.house.nursery.cancel_scope.cancel()


def _follows_grammar(session_id: str) -> bool:
    bare = session_id.replace(".", "a").replace("_", "a").replace("-", "a")
    return 0 < len(session_id) <= MAX_ID and session_id.isascii() and bare.isalnum() and session_id[0].isalnum()
