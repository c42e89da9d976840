"""Parking all sessions of a supervisor, each as soon as no call of it runs that cannot be repeated."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import trio

from agentrail.core.machine.recovery import risky_calls
from agentrail.core.vocabulary.commands import TraceSent
from agentrail.errors import MailboxFull
from agentrail.runtime.actor.session import Session
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.supervision.children import Child, ChildState, session_of
from agentrail.runtime.supervision.sessions import Sessions
from agentrail.runtime.supervision.subagents.subagents import Subagents
from agentrail.runtime.supervision.supervisor import SupervisorNode

log = logging.getLogger("agentrail.supervisor")

RELEASED_WITHIN: Final = 1.0
"""Seconds in which the journal has to release slots and sessions; if it does not, their leases end by themselves."""


async def park_all(sessions: Sessions, within: float) -> None:
    """Park all sessions within *within* seconds, and start no more; name the calls in the log that are cut short.

    A session with sub-agents is parked with them, as soon as none of them has such a call. No-op without a journal,
    which could bring nothing back. At the end, slots and leases are released: others can go on with the sessions.
    """
    shared = sessions.shared
    if not sessions.tree.parks:
        return
    until = trio.current_time() + within
    if shared.slots is not None:
        shared.slots.settle()
    if shared.parkable is None:
        shared.parkable = defaultdict(trio.Event)
    parkable = shared.parkable
    for child in sessions.tree.sessions.values():
        _wake(child)
    parked: set[str] = set()
    async with trio.open_nursery() as nursery:  # noqa: TID251 - one task for each session, with a deadline
        while True:
            for node, child in _roots(sessions.root):
                if child.key not in parked:
                    parked.add(child.key)
                    nursery.start_soon(_park, node, child, parkable, until)
            starting = next(iter(sessions.starting.values()), None)
            if starting is None or trio.current_time() >= until:
                break
            with trio.move_on_at(until):
                await starting.wait()
    if shared.slots is not None:
        shared.slots.end()
        with trio.move_on_after(RELEASED_WITHIN):
            await shared.leases.let_go()


def _roots(node: SupervisorNode) -> Iterator[tuple[SupervisorNode, Child]]:
    """Yield the sessions under *node*, without sub-agents, each with its supervisor, the youngest first."""
    for child in reversed(tuple(node.children.values())):
        if isinstance(child.runner, SupervisorNode):
            yield from _roots(child.runner)
        elif session_of(child) is not None:
            yield node, child


def _wake(child: Child) -> None:
    """Have the actor of a session look whether it can be parked; also of one that a program has suspended."""
    session = session_of(child)
    if session is not None and _is_busy(child):
        session.mailbox.resume()
        with suppress(MailboxFull):  # then it has letters that wake it
            session.mailbox.post_control(Letter(TraceSent()))


async def _park(node: SupervisorNode, child: Child, parkable: defaultdict[str, trio.Event], until: float) -> None:
    """Park a session with its sub-agents as soon as nothing of them can be lost, or at *until*."""
    with trio.move_on_at(until):
        waited: set[str] = set()
        while busy := [member.key for member in _family(child) if member.key not in waited and _is_busy(member)]:
            await parkable[busy[0]].wait()
            waited.add(busy[0])
    family = [session for member in _family(child) if (session := session_of(member)) is not None]
    for session in family:
        if not parkable[session.session_id].is_set():
            _tell(session)
    await node.park(child)
    for session in family:  # sub-agents follow their parent
        await session.wait_down()


def _family(child: Child) -> Iterator[Child]:
    """Yield a session and its sub-agents, at any depth."""
    yield child
    session = session_of(child)
    subagents = None if session is None else session.links.subagents
    if isinstance(subagents, Subagents):
        for below in subagents.children:
            yield from _family(below)


def _is_busy(child: Child) -> bool:
    """Whether the actor of a session has to be waited for.

    One that waits for its restart after a crash need not, unless a call of it runs that cannot be repeated.
    """
    session = session_of(child)
    if session is None or not child.has_task():
        return False
    return bool(risky_calls(session.state)) if child.state is ChildState.WAITING else not session.may_sleep


def _tell(session: Session) -> None:
    for call in risky_calls(session.state):
        log.warning(
            "session %s is parked while its call %s of `%s` runs, which cannot be repeated: nobody knows its outcome",
            session.session_id,
            call.call_id,
            call.tool,
        )
