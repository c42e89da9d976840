"""Sessions of a supervision tree: start, fork, resume and find them, and end them all at the close."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import trio

from agentrail.core.supervision_rules import ChildFacts
from agentrail.core.system_prompt import environment_of
from agentrail.core.vocabulary.commands import Answer, Refused
from agentrail.core.vocabulary.inputs import AnyInput, SessionOpened
from agentrail.core.vocabulary.state import State
from agentrail.errors import (
    BadId,
    JournalUnavailable,
    SessionExists,
    SessionNotAlive,
    SessionStored,
    SupervisorClosed,
    UnknownSession,
)
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import Claim, SessionFilter, StoredAnswer, StoredSession
from agentrail.runtime.actor.parent_link import ParentLink
from agentrail.runtime.actor.session import Session
from agentrail.runtime.diagnosis.figures import Figures
from agentrail.runtime.diagnosis.stacks import threads_among
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.inbox.command_results import digest_of
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.resources import FindCode, FoundCode, SessionCode
from agentrail.runtime.shared import collector
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.supervision.children import Child, ChildState, SessionRunner, session_of
from agentrail.runtime.supervision.reserved_id import ReservedId
from agentrail.runtime.supervision.restore import Returning, SetUpFork, bring_back, forked, stored_state
from agentrail.runtime.supervision.root_nursery import leavable
from agentrail.runtime.supervision.subagents.subagents import Subagents
from agentrail.runtime.supervision.supervisor import SupervisorNode
from agentrail.runtime.supervision.tree import Tree
from agentrail.values.session_ids import follows_grammar

T = TypeVar("T")

log = logging.getLogger("agentrail.supervisor")

STRAGGLER_AFTER = 1.0
"""Seconds after which tools that still run after the end of their session are named in the log."""


class Sessions:
    """All sessions of a supervision tree, by id."""

    def __init__(self, root: SupervisorNode, wrap: Callable[[Session], SessionHandle]) -> None:
        self.root = root
        self.tree: Tree = root.tree
        self.shared = root.tree.shared
        self._wrap = wrap
        self.shared.fork = self._fork_here
        self.shared.leases.lost = self._stop_fenced
        self.starting: dict[str, trio.Event] = {}
        self._farewell = trio.CancelScope()  # see `close`

    def handle(self, session_id: str) -> SessionHandle:
        """Return the handle of a session; raise an error if it is not here."""
        child = self.tree.sessions.get(session_id)
        if child is None or not isinstance(child.runner, SessionRunner) or child.runner.session.state.is_starting:
            raise UnknownSession(session_id)
        return child.runner.handle

    def handles(self) -> tuple[SessionHandle, ...]:
        """Return the handles of all sessions, in the order of their start."""
        runners = [child.runner for child in self.tree.sessions.values()]
        return tuple(
            runner.handle
            for runner in runners
            if isinstance(runner, SessionRunner) and not runner.session.state.is_starting
        )

    def count(self, tenants: int) -> Figures:
        """Return the figures of all sessions; the first call begins to count, with those that are there.

        A later call may have more tenants counted by name.
        """
        if self.shared.figures is None:
            self.shared.figures = Figures(self.shared.clock, self.shared.journal, self.shared.limits, tenants)
            for child in self.tree.sessions.values():
                session = session_of(child)
                if session is not None and session.gone is None:
                    self.shared.figures.came(session.state)
        self.shared.figures.name_up_to(tenants)
        return self.shared.figures

    async def start(
        self,
        node: SupervisorNode,
        state: State,
        code: SessionCode,
        find_code: FindCode,
        restart: str,
        above: ParentLink | None = None,
        command: str | None = None,
    ) -> SessionHandle:
        """Start a session under the supervisor *node*; if that fails, remove all of it and raise the reason."""
        session_id = state.session_id
        with self._taking(node, session_id, above):
            claim = await self._reading(session_id, partial(self._claim, node, session_id, take_over=above is not None))
            if code.section_files is not None:
                state = state.but(sections=await code.section_files.sections(session_id, tell=True))
            if code.environment:
                environment = environment_of(code.environment, self.shared.clock.now_ms())
                state = state.but(sections=(environment, *state.sections))
            session = Session(state, claim, self.shared, code, find_code)
            session.links.above = above
            return await self._begin(node, session, SessionOpened(), restart, command)

    async def _fork_here(self, origin: str, point: int | str | None, session_id: str) -> SessionHandle:
        """Fork a session of this tree, with its code, under the root supervisor."""
        session = session_of(self.tree.sessions.get(origin))
        if session is None:
            raise UnknownSession(origin)
        return await self.fork(self.root, origin, point, session_id, session.find_code)

    async def fork(
        self,
        node: SupervisorNode,
        origin: str,
        point: int | str | None,
        session_id: str,
        find_code: FindCode,
        command: str | None = None,
        set_up: SetUpFork | None = None,
    ) -> SessionHandle:
        """Start a fork of a stored session, up to a record or a turn; the original is not changed."""
        with self._taking(node, session_id):
            fork = partial(forked, self.shared, origin, point, session_id, find_code, set_up)
            state, code, branched = await self._reading(session_id, fork)
            claim = await self._reading(session_id, partial(self._claim, node, session_id))
            session = Session(state, claim, self.shared, code, find_code)
            return await self._begin(node, session, branched, "transient", command)

    async def _begin(
        self, node: SupervisorNode, session: Session, first: AnyInput, restart: str, command: str | None
    ) -> SessionHandle:
        """Run a session under *node* until it is ready; if that fails, remove all of it and raise the reason."""
        session.mailbox.post_control(
            Letter(first, command=command, digest=b"" if command is None else digest_of(first))
        )
        handle, child = self._adopted(node, session, restart)
        try:
            error = await session.effect_runner.started.wait()
            reach("STARTED")
            if error is None:
                await session.open_sources()
        except trio.Cancelled:
            # Shielded: a cancelled caller has to stop the session first, because nobody else has its handle:
            # tests/runtime/test_supervisor.py::test_a_spawn_that_is_cancelled_leaves_nothing_and_frees_the_id
            with trio.CancelScope(shield=True):
                if child.has_task():  # else it was cancelled before, as all of the tree, and nothing would end it again
                    child.state = ChildState.STOPPING
                await node.stop(child)
            raise
        if error is not None:
            raise type(error)(*error.args)
        return handle

    async def resume(
        self,
        node: SupervisorNode,
        session_id: str,
        find_code: FindCode,
        restart: str,
        above: ParentLink | None = None,
        *,
        take_over: bool | str = False,
        is_read: bool = False,
    ) -> SessionHandle:
        """Rebuild a session from the journal, or return the one that runs here; raise if its code does not fit.

        Whoever has its parent may take over a sub-agent. With *is_read*, the caller has read its opening just now.
        """
        running = await self.arrived(session_id)
        if running is not None and above is None:
            return running
        with self._taking(node, session_id, above):
            take = take_over or above is not None
            back = partial(bring_back, self.shared, session_id, find_code, take_over=take, is_read=is_read)
            session, returned = await self._reading(session_id, back)
            node.check(session_id)
            session.links.above = above
            return await self._returned(node, session, returned, restart)

    async def arrived(self, session_id: str) -> SessionHandle | None:
        """Wait until a session of this tree has started and return its handle; `None` if it is not here."""
        while session_id in self.starting:
            await self.starting[session_id].wait()
        return self.handle(session_id) if session_id in self.tree.sessions else None

    async def _returned(
        self, node: SupervisorNode, session: Session, returned: AnyInput, restart: str
    ) -> SessionHandle:
        """Run a rebuilt session under *node*; if its code does not fit, the journal is not changed."""
        session.mailbox.post_control(Letter(returned, answer=(slot := Slot[Answer]())))
        handle, child = self._adopted(node, session, restart)
        try:
            answer = await slot.wait()
            reach("RETURNED")
            if not isinstance(answer, Refused):
                await session.open_sources()
                return handle
        except trio.Cancelled:
            # Shielded as above; the session is not ended, and can be resumed from its journal:
            # tests/runtime/test_cut_anywhere.py::test_a_session_that_is_brought_back
            with trio.CancelScope(shield=True):
                await node.park(child)
            raise
        if child.state is not ChildState.QUARANTINED:
            # Its code does not fit, so it must not run here; shielded, because a cancelled caller must still park it:
            # tests/runtime/test_cut_anywhere.py::test_a_session_that_is_brought_back
            with trio.CancelScope(shield=True):
                await node.park(child)
        raise answer.error

    def _taking(self, node: SupervisorNode, session_id: str, above: ParentLink | None = None) -> ReservedId:
        """Return the reserved id of a session that is to start under *node*; raise if it cannot."""
        node.check_open(session_id)
        if self.shared.parkable is not None and above is None:
            raise SupervisorClosed(session_id)
        if not follows_grammar(session_id):
            raise BadId(session_id)
        if session_id in self.starting or session_id in self.tree.sessions:
            raise SessionExists(session_id)
        node.check(session_id)
        return ReservedId(self.starting, session_id, self._unclaim)

    def _unclaim(self, session_id: str) -> None:
        """Give up the claim of a session that did not start."""
        if session_id in self.tree.sessions:
            return
        self.shared.leases.release(session_id)
        if self.shared.figures is not None:
            self.shared.figures.not_here(session_id)  # who has built its specification may have noted it already
        if self.shared.forget is not None:
            self.shared.forget(session_id)  # a session that failed to start may have claimed the id

    def reserved(self, session_id: str) -> ReservedId:
        """Let no session start under this id while this is open: callers of `resume` wait, `spawn` is refused."""
        return ReservedId(self.starting, session_id)

    def _adopted(self, node: SupervisorNode, session: Session, restart: str) -> tuple[SessionHandle, Child]:
        """Run a session as a child of *node*."""
        session_id = session.state.session_id
        if session.code.agents:
            session.links.subagents = Subagents(session, node, self._start_child, self._resume_child)
        handle = self._wrap(session)
        facts = ChildFacts(session_id, restart, session=True)
        child = Child(SessionRunner(session, handle), facts, session.state.setup.options.shutdown)
        self.tree.sessions[session_id] = child
        if self.shared.figures is not None:
            self.shared.figures.came(session.state)
        node.adopt(child)
        return handle, child

    def code_of(self, session_id: str) -> FindCode | None:
        """Return the function that finds the code of a session of this tree; `None` if it is not here."""
        session = session_of(self.tree.sessions.get(session_id))
        return None if session is None else session.find_code

    async def state(self, session_id: str) -> State:
        """Return the state of a stored session after its last record; raise if it is not stored."""
        return await stored_state(self.shared, session_id)

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return the command that a stored session was given under a command id, and its answer."""
        return await self.shared.journal.answer(session_id, command)

    async def stored(self, wanted: SessionFilter, after: StoredSession | None, limit: int) -> tuple[StoredSession, ...]:
        """Return a page of the journal's list of sessions, without rebuilding them."""
        return await self.shared.journal.sessions(wanted, after, limit)

    async def summary(self, session_id: str) -> StoredSession | None:
        """Return the journal's summary of a session; `None` if it is not stored."""
        return await self.shared.journal.summary(session_id)

    async def bring_back(self, find_code: FindCode) -> None:
        """Resume the sessions that had work under way and whose code is known; set timers for the others."""

        async def resume(session_id: str) -> None:
            await self.resume(self.root, session_id, find_code, "transient", is_read=True)

        await Returning(self.shared, self.stored, resume).run()

    async def _start_child(self, node: SupervisorNode, parent: Session, link: ParentLink) -> Session:
        """Start a sub-agent of *parent*, with the plugins and limits it inherits from the parent as it is now."""
        task, now = link.task, self.shared.clock.now_ms()
        path = (*parent.state.setup.path, parent.state.session_id, task.call_id)
        link.begins(parent.state, now)
        recipe = parent.code.agents[task.agent]
        state, code = recipe.make(task, path, parent.state, parent.code, now)

        async def find_code(stored: State, records: int) -> FoundCode:  # used by forks only: a sub-agent never sleeps
            find_code = recipe.finder(task, parent.state, parent.code, self.shared.clock.now_ms())
            return await find_code(stored, records)

        await self.start(node, state, code, find_code, "temporary", link)
        return self._child(task.child)

    async def _resume_child(self, node: SupervisorNode, parent: Session, link: ParentLink) -> Session:
        """Rebuild a sub-agent of *parent* from its journal."""
        task, now = link.task, self.shared.clock.now_ms()
        find_code = parent.code.agents[task.agent].finder(task, parent.state, parent.code, now)
        await self.resume(node, task.child, find_code, "temporary", link)
        return self._child(task.child)

    def _child(self, child: str) -> Session:
        session = session_of(self.tree.sessions.get(child))
        if session is None:
            raise SessionNotAlive(child, "it has ended at once")
        return session

    async def _reading(self, session_id: str, work: Callable[[], Awaitable[T]]) -> T:
        """Do what a new or stored session needs of the journal; a cancelled caller leaves it if it never ends."""
        if self.shared.forget is not None:  # the supervisor's own, in memory, which answers at once
            return await work()
        return await leavable(self.shared.nursery, f"opening {session_id}", work)

    async def _claim(self, node: SupervisorNode, session_id: str, *, take_over: bool | str = False) -> Claim:
        """Claim a new session's id in the journal; raise if it exists, as claiming it would stop its holder."""
        journal = self.shared.journal
        if await journal.read(session_id, 0, 1):
            raise SessionStored(session_id)
        claim = await self.shared.leases.claim(session_id, take_over=take_over)
        if claim.head:
            raise SessionStored(session_id)
        node.check(session_id)
        reach("NEW_CLAIMED")
        return claim

    def _stop_fenced(self, claim: Claim) -> None:
        """Stop a session without writing, because another supervisor has claimed it; its callers get `Fenced`."""
        child = self.tree.sessions.get(claim.session_id)
        if child is not None and isinstance(child.runner, SessionRunner):
            child.runner.mark_fenced()
            child.scope.cancel()

    # The end

    async def close(self) -> None:
        """Stop all sessions, the youngest first, each within its time limit, and close the journal."""
        self.tree.closing = True
        if self.shared.slots is not None:
            self.shared.slots.end()
        try:
            await self.root.wind_down()
            for child in tuple(self.tree.sessions.values()):  # sub-agents that outlived their parents
                await child.wait_ended()
            await self._see_off_calls()
        finally:
            self._farewell = trio.CancelScope(shield=True)  # a new scope, as `close` may be called twice
            # Unshielded, a supervisor whose time is over would leave its journal open; `left` cancels this instead:
            # tests/runtime/test_stuck.py::test_a_journal_that_hangs_while_it_is_closed_is_named_and_then_cancelled
            with self._farewell:  # even if the time is over: quick unless the disk hangs
                await self._close_journal()  # noqa: ASYNC102 - it is cancelled when the time of the end is over
            self._let_go()

    def cut_short(self) -> None:
        """Cancel everything, because the time to end in order is over."""
        self.tree.closing = True
        _cancel(self.root)

    def abandon(self) -> None:
        """Tell callers that sessions and services whose stop was cut short are gone; stop to close the journal."""
        self._let_go()
        self.root.clean_up(None)
        self._farewell.cancel()

    def _let_go(self) -> None:
        """End what the supervisor has begun in the process: the watchdog, and the count of its sessions."""
        collector.discount(self.tree.sessions)
        self.shared.watchdog.close(self.shared.threads.working)

    async def _close_journal(self) -> None:
        """Release the sessions and close the journal; an error is only logged, as everything is already written."""
        try:
            if self.shared.spending_limit is not None:
                await self.shared.spending_limit.flush()
            await self.shared.leases.close()
            await self.shared.journal.close()
        except JournalUnavailable:
            return

    async def _see_off_calls(self) -> None:
        """Wait a moment for cancelled tools, and log the names of those that still run."""
        calls = self.shared.calls
        with trio.move_on_after(STRAGGLER_AFTER):
            await calls.wait_empty()
        names = self.shared.threads.names()
        if names:
            threads = ", ".join(
                f"{name} at {position}" for name, position in threads_among((), self.shared.threads.working)
            )
            log.warning("threads of tools that do not end are left behind: %s", threads or ", ".join(names))
        stubborn = calls.names(names)
        if stubborn:
            log.warning("tools that ignore their cancellation are waited for: %s", ", ".join(stubborn))


def _cancel(node: SupervisorNode) -> None:
    for child in node.children.values():
        child.cancel()
        if isinstance(child.runner, SupervisorNode):
            _cancel(child.runner)
