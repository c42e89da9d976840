"""The root of a tree: how sessions start in it, who is there, and how everything is gone at the end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

import trio

from agentrail.core.supervision_rules import Ward
from agentrail.core.vocabulary.commands import Answer, Refused
from agentrail.core.vocabulary.inputs import AnyInput, SessionOpened
from agentrail.core.vocabulary.state import State
from agentrail.errors import (
    AgentrailError,
    BadId,
    JournalUnavailable,
    SessionExists,
    SessionForgotten,
    SessionNotAlive,
    SessionStored,
    UnknownSession,
)
from agentrail.ports.failpoints import Failpoint, reach
from agentrail.ports.journal import Claim, StoredSession
from agentrail.runtime.actor.loop import Session
from agentrail.runtime.actor.parent_link import Link
from agentrail.runtime.diagnosis.stacks import threads_among
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.inbox.mailbox import Letter
from agentrail.runtime.resources import FindCode, Found, SessionCode
from agentrail.runtime.shared.ids import follows_grammar
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.shared.sanitize import Contained, traced
from agentrail.runtime.supervision.children import Child, SessionBody, session_of
from agentrail.runtime.supervision.recovery import brought_back, forked, opening_of
from agentrail.runtime.supervision.subagents import Family
from agentrail.runtime.supervision.supervisor import SupervisorNode
from agentrail.runtime.supervision.tree import Tree

log = logging.getLogger("agentrail.supervisor")

OWNER = "supervisor"
PAGE = 1000
"""Stored sessions that are looked at at once."""

STRAGGLER_AFTER = 1.0
"""Seconds after which tools that outlive their sessions are named in the log."""


class Sessions:
    """The sessions of a tree of supervisors, by their ids."""

    def __init__(self, root: SupervisorNode, wrap: Callable[[Session], SessionHandle]) -> None:
        self.root = root
        self.tree: Tree = root.tree
        self.house = root.tree.house
        self._wrap = wrap
        self.house.fork = self._fork_here
        self._starting: dict[str, trio.Event] = {}
        self._farewell = trio.CancelScope(shield=True)
        self._given_up = False

    def handle(self, session_id: str) -> SessionHandle:
        """Return the handle of a session."""
        child = self.tree.sessions.get(session_id)
        if child is None or not isinstance(child.body, SessionBody) or child.body.session.state.opening:
            raise UnknownSession(session_id)
        return child.body.handle

    def handles(self) -> tuple[SessionHandle, ...]:
        """Return the handles of all sessions, in the order they were started."""
        bodies = [child.body for child in self.tree.sessions.values()]
        return tuple(body.handle for body in bodies if isinstance(body, SessionBody) and not body.session.state.opening)

    async def start(
        self,
        node: SupervisorNode,
        state: State,
        outfit: SessionCode,
        equip: FindCode,
        restart: str,
        above: Link | None = None,
    ) -> SessionHandle:
        """Start a session under *node*; if it does not start, nothing of it is left, and the reason is raised."""
        session_id = state.session_id
        with self._taking(node, session_id):
            session = Session(state, await self._claim(node, session_id), self.house, outfit, equip)
            session.ties.above = above
            return await self._begun(node, session, SessionOpened(), restart)

    async def _fork_here(self, origin: str, at: int | None, session_id: str) -> SessionHandle:
        """Fork a session that is here, with its own code, beside the oldest ones."""
        session = session_of(self.tree.sessions.get(origin))
        if session is None:
            raise UnknownSession(origin) if self.house.forget is None else SessionForgotten(origin)
        return await self.fork(self.root, origin, at, session_id, session.sleep.equip)

    async def fork(
        self, node: SupervisorNode, origin: str, at: int | None, session_id: str, equip: FindCode
    ) -> SessionHandle:
        """Start a session with the past of a stored one, up to a record; that one stays as it is, here or not."""
        with self._taking(node, session_id):
            state, outfit, branched = await forked(self.house, origin, at, session_id, equip)
            claim = await self._claim(node, session_id)
            session = Session(state, claim, self.house, outfit, equip)
            return await self._begun(node, session, branched, "transient")

    async def _begun(self, node: SupervisorNode, session: Session, first: AnyInput, restart: str) -> SessionHandle:
        """Let a session live under *node*; if it does not start, nothing of it is left, and the reason is raised."""
        session.mailbox.post_control(Letter(first))
        handle, child = self._adopted(node, session, restart)
        try:
            error = await session.performer.started.wait()
            reach(Failpoint.STARTED)
            if error is None:
                await session.open_sources()
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                child.state = "stopping"
                await node.stop(child)
            raise
        if error is not None:
            with trio.CancelScope(shield=True):
                await session.wait_down()
            raise type(error)(*error.args)
        return handle

    async def resume(
        self, node: SupervisorNode, session_id: str, equip: FindCode, restart: str, above: Link | None = None
    ) -> SessionHandle:
        """Bring a session back from the journal, or return it if it is here; without code that fits, it stays there."""
        here = await self.arrived(session_id)
        if here is not None and above is None:
            return here
        with self._taking(node, session_id):
            session, returned = await brought_back(self.house, session_id, OWNER, equip)
            node.check(session_id)
            session.ties.above = above
            return await self._returned(node, session, returned, restart)

    async def arrived(self, session_id: str) -> SessionHandle | None:
        """Return the handle of a session that is here, as soon as it has started; `None` if it is not."""
        while session_id in self._starting:
            await self._starting[session_id].wait()
        return self.handle(session_id) if session_id in self.tree.sessions else None

    async def _returned(
        self, node: SupervisorNode, session: Session, returned: AnyInput, restart: str
    ) -> SessionHandle:
        """Let a session that was stored live under *node*; if its code does not fit, it stays where it was."""
        slot: Slot[Answer] = Slot()
        session.mailbox.post_control(Letter(returned, slot=slot))
        handle, child = self._adopted(node, session, restart)
        try:
            answer = await slot.wait()
            reach(Failpoint.RETURNED)
            if not isinstance(answer, Refused):
                await session.open_sources()
                return handle
        except trio.Cancelled:
            with trio.CancelScope(shield=True):
                await node.park(child)
            raise
        if child.state != "quarantined":
            with trio.CancelScope(shield=True):
                await node.park(child)
        raise type(answer.error)(*answer.error.args)

    @contextmanager
    def _taking(self, node: SupervisorNode, session_id: str) -> Generator[None]:
        """Hold an id until its session has started, so that nobody else starts one under it meanwhile."""
        node.check_open(session_id)
        if not follows_grammar(session_id):
            raise BadId(session_id)
        if session_id in self._starting or session_id in self.tree.sessions:
            raise SessionExists(session_id)
        node.check(session_id)
        self._starting[session_id] = trio.Event()
        try:
            yield
        finally:
            self._starting.pop(session_id).set()
            if self.house.forget is not None and session_id not in self.tree.sessions:
                self.house.forget(session_id)  # it did not start, or has ended at once; it may have been claimed

    def _adopted(self, node: SupervisorNode, session: Session, restart: str) -> tuple[SessionHandle, Child]:
        """Let a session live under *node*."""
        session_id = session.state.session_id
        if session.outfit.agents:
            session.ties.subagents = Family(session, node, self._start_child, self._resume_child)
        handle = self._wrap(session)
        ward = Ward(session_id, restart, session=True)
        child = Child(SessionBody(session, handle), ward, session.state.setup.options.shutdown)
        self.tree.sessions[session_id] = child
        node.adopt(child)
        return handle, child

    async def stored(self, after: str, limit: int) -> tuple[StoredSession, ...]:
        """Return what the journal tells of its sessions, without reading them."""
        return await self.house.journal.sessions(after, limit)

    async def bring_back(self, equip: FindCode) -> None:
        """Bring back the sessions that had something under way, each as far as its code is known; others when due."""

        def told(error: BaseException) -> None:
            log.error("the sessions that had something under way are not brought back: %s", _said(error))

        after = ""
        with Contained(told):  # a journal may be code of users
            while page := await patiently(partial(self.stored, after, PAGE)):
                after = page[-1].session_id
                for stored in page:
                    if stored.ended or stored.problem:
                        continue
                    if stored.at_work:
                        await self._bring_back(stored.session_id, equip, attempts=1)
                    elif stored.due is not None:
                        self._bring_back_when_due(stored.session_id, stored.due, equip)

    def _bring_back_when_due(self, session_id: str, due: int, equip: FindCode) -> None:
        def is_due() -> None:
            self.house.nursery.start_soon(self._bring_back, session_id, equip)

        self.house.timers.set((session_id, "due"), self.house.clock.moment(due), is_due)

    async def _bring_back(self, session_id: str, equip: FindCode, attempts: int | None = None) -> None:
        """Bring one back; whatever stands in the way is told in the log, and hinders no other.

        If the journal cannot be used after so many *attempts*, go on beside the others.
        """

        def told(error: BaseException) -> None:
            if isinstance(error, JournalUnavailable):
                self.house.nursery.start_soon(self._bring_back, session_id, equip)
                return
            log.error("session %s cannot be brought back: %s", session_id, _said(error))

        with Contained(told):  # specifications are built by code of users
            await patiently(partial(self._bring_back_once, session_id, equip), attempts=attempts)

    async def _bring_back_once(self, session_id: str, equip: FindCode) -> None:
        if not (await opening_of(self.house, session_id)).setup.path:  # a sub-agent is its parent's affair
            await self.resume(self.root, session_id, equip, "transient")

    async def _start_child(self, node: SupervisorNode, parent: Session, link: Link) -> Session:
        """Start a sub-agent of *parent*; what it inherits is taken from the parent as it is now."""
        task, now = link.task, self.house.clock.now_ms()
        path = (*parent.state.setup.path, parent.state.session_id, task.call_id)
        link.base = parent.state.usage.plus(parent.state.elsewhere)
        recipe = parent.outfit.agents[task.agent]
        state, outfit = recipe.make(task, path, parent.state, parent.outfit, now)

        def equip(stored: State, records: int) -> Found:  # for its forks: it never sleeps
            return recipe.found(task, parent.state, parent.outfit, self.house.clock.now_ms())(stored, records)

        await self.start(node, state, outfit, equip, "temporary", link)
        return self._child(task.child)

    async def _resume_child(self, node: SupervisorNode, parent: Session, link: Link) -> Session:
        """Bring a sub-agent of *parent* back from its records."""
        task, now = link.task, self.house.clock.now_ms()
        equip = parent.outfit.agents[task.agent].found(task, parent.state, parent.outfit, now)
        await self.resume(node, task.child, equip, "temporary", link)
        return self._child(task.child)

    def _child(self, child: str) -> Session:
        session = session_of(self.tree.sessions.get(child))
        if session is None:
            raise SessionNotAlive(child, "it has ended at once")
        return session

    async def _claim(self, node: SupervisorNode, session_id: str) -> Claim:
        """Become the writer of a session that is new; claiming one that exists would stop its owner."""
        journal = self.house.journal
        if await journal.read(session_id, 0, 1):
            raise SessionStored(session_id)
        claim = await journal.claim(session_id, OWNER)
        if claim.head:
            raise SessionStored(session_id)
        node.check(session_id)
        reach(Failpoint.NEW_CLAIMED)
        return claim

    # The end

    async def close(self) -> None:
        """Stop everything, the youngest first, each within its own time limit, and give back the journal."""
        self.tree.closing = True
        try:
            await self.root.wind_down()
            for child in tuple(self.tree.sessions.values()):  # sub-agents whose parents did not wait for them
                await child.wait_ended()
            await self._see_off_calls()
        finally:
            self._farewell = trio.CancelScope(shield=True)  # a supervisor may be closed twice, a scope is used once
            if self._given_up:
                self._farewell.cancel()
            with self._farewell:  # also if the time is over: it is quick unless the disk hangs
                await self._close_journal()  # noqa: ASYNC102 - it is cancelled when the time of the end is over
            self.house.watchdog.close()

    def cut_short(self) -> None:
        """Cancel everything: the time to end in order is over."""
        self.tree.closing = True
        _cancel(self.root)

    def give_up(self) -> None:
        """Tell everybody who waits for a session that does not end that it is gone; close the journal no more."""
        self.house.watchdog.close()
        self.root.gone(None)
        self._given_up = True
        self._farewell.cancel()

    async def _close_journal(self) -> None:
        """Give back the journal; if it cannot be used now, that is in the log, and nothing is lost by it."""
        try:
            await self.house.journal.close()
        except JournalUnavailable:
            return

    async def _see_off_calls(self) -> None:
        """Wait a moment for cancelled tools; name those that outlive it."""
        calls = self.house.calls
        with trio.move_on_after(STRAGGLER_AFTER):
            await calls.wait_empty()
        left = self.house.threads.names()
        if left:
            places = ", ".join(f"{name} at {place}" for name, place in threads_among((), self.house.threads.working))
            log.warning("threads of tools that do not end are left behind: %s", places or ", ".join(left))
        stubborn = calls.names(left)
        if stubborn:
            log.warning("tools that ignore their cancellation are waited for: %s", ", ".join(stubborn))


def _said(error: BaseException) -> object:
    return error if isinstance(error, AgentrailError) else traced(error)


def _cancel(node: SupervisorNode) -> None:
    for child in node.children.values():
        child.expected = True
        child.scope.cancel()
        if isinstance(child.body, SupervisorNode):
            _cancel(child.body)
