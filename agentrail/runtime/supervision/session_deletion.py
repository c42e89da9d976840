"""Deletes and redacts stored sessions for a supervisor: on request, or in the background by its policies."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, TypeAlias

import trio

from agentrail.errors import (
    AgentrailError,
    BadRecord,
    CommitUnknown,
    SessionForgotten,
    SessionHeld,
    SessionNotStored,
    SessionStillRuns,
    UsageError,
)
from agentrail.ports.journal import ALL_SESSIONS, Redaction, Retention, SessionFilter, StoredSession
from agentrail.runtime.actor.journal_log import rebuild_state
from agentrail.runtime.actor.session import Session
from agentrail.runtime.resources import SharedServices
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.runtime.supervision.children import session_of
from agentrail.runtime.supervision.restore import read_opening
from agentrail.runtime.supervision.sessions import Sessions


async def delete_stored(
    sessions: Sessions, session_id: str, erasures: Sequence[Callable[[], Awaitable[None]]] = ()
) -> None:
    """Delete a stored session and its sub-agents; raise if one of them runs here, or is held elsewhere.

    *erasures* erase what is kept beside the records, when all of them are claimed here.
    """
    await _wait_gone(sessions, session_id)
    with sessions.reserved(session_id):  # nobody may bring it back before it is gone
        if not erasures:
            await _delete_records(sessions, session_id)
            return
        async with _claimed(sessions.shared, session_id):
            for erase in erasures:
                await erase()
            await _delete_records(sessions, session_id)


async def _delete_records(sessions: Sessions, session_id: str) -> None:
    shared, stays = sessions.shared, False
    try:
        existed = await shared.journal.delete(session_id, shared.leases.address, shared.clock.now_ms())
    except SessionHeld:
        stays = True
        raise
    finally:  # a call that is cancelled, or fails otherwise, may have begun what ends later
        if not stays:
            sessions.tree.delete(session_id)
    if not existed:
        raise SessionNotStored(session_id) if shared.forget is None else SessionForgotten(session_id)


@asynccontextmanager
async def _claimed(shared: SharedServices, session_id: str) -> AsyncGenerator[None, None]:
    """Hold a stored session and its sub-agents; raise `SessionHeld` if another supervisor has one of them."""
    claimed = list[str]()
    try:
        for name in (session_id, *await _stored_subagents(shared, session_id)):
            await shared.leases.claim(name)
            claimed.append(name)
        yield
    finally:
        for name in claimed:
            shared.leases.release(name)


async def _stored_subagents(shared: SharedServices, session_id: str) -> list[str]:
    """Return the ids of the sub-agents of a stored session, at any depth."""
    beginning, ids = f"{session_id}.", list[str]()
    after = StoredSession(beginning, 0)
    while page := await shared.journal.sessions(ALL_SESSIONS, after):
        for after in page:
            if not after.session_id.startswith(beginning):
                return ids
            if await _is_under(shared, after.session_id, session_id):
                ids.append(after.session_id)
    return ids


async def _is_under(shared: SharedServices, name: str, session_id: str) -> bool:
    """Whether *name* is a sub-agent of a session, at any depth: one whose opening is damaged can run nowhere."""
    try:
        return session_id in (await read_opening(shared, name)).setup.path[::2]
    except (BadRecord, SessionNotStored):
        return False


async def redact_stored(sessions: Sessions, session_id: str, first: int, last: int | None, by: str) -> int:
    """Replace the texts of records of a stored session; raise if it runs here, is held elsewhere, or has work to do."""
    await _wait_gone(sessions, session_id)
    shared = sessions.shared
    with sessions.reserved(session_id):  # nobody may bring it back with its texts
        await read_opening(shared, session_id)  # raises if it is not stored
        state, head, *_ = await rebuild_state(shared.journal, session_id)
        if state.turn is not None or state.queue or state.has_running_work:
            raise UsageError("session-unfinished", session_id)
        note = Redaction(shared.clock.now_ms(), by)
        upto = head if last is None else last
        return await shared.journal.redact(session_id, first, upto, note, shared.leases.address)


async def _wait_gone(sessions: Sessions, session_id: str) -> None:
    """Wait for the sub-agents of a session that has ended here: they are stopped after it.

    Raise `SessionStillRuns` if the session runs in this tree, or a sub-agent that nothing stops. A quarantined session
    does not run: it is let go, as there is no other way to end it.
    """
    await sessions.arrived(session_id)
    sessions.tree.let_go(session_id)
    while ending := _ending(sessions, session_id):
        for session in ending:
            await session.wait_down()


def _ending(sessions: Sessions, session_id: str) -> list[Session]:
    sessions_: list[Session] = []
    children = sessions.tree.sessions
    if session_id in children or session_id in sessions.starting:
        raise SessionStillRuns(session_id, session_id)
    for name, child in children.items():
        session = session_of(child)
        if session is None or session.is_asleep or session_id not in session.state.setup.path[::2]:
            continue
        if session.links.above is None:  # it was resumed by itself
            raise SessionStillRuns(session_id, name)
        sessions_.append(session)
    return sessions_


log = logging.getLogger("agentrail.supervisor")

SWEEP_EVERY: Final = 60 * 60.0
"""Seconds between the end of a sweep and the next one."""

PAUSE: Final = 0.1
"""Seconds between two deletions, and between two pages of the list."""

PAGE: Final = 100
"""How many summaries of sessions are read at once."""


Forget: TypeAlias = Callable[[str], Awaitable[None]]
"""Erases what is kept beside the records of a stored session that has ended."""


async def retain(sessions: Sessions, policies: Sequence[Retention], forget: Forget) -> None:
    """Sweep for ever: at once, and an hour after each sweep."""
    if sessions.shared.slots is not None:
        await sessions.shared.slots.after(0)
    while True:
        for policy in policies:
            await _sweep(sessions, policy, forget)
        await trio.sleep(SWEEP_EVERY)


async def _sweep(sessions: Sessions, policy: Retention, forget: Forget) -> None:
    """Delete the sessions that *policy* names, at most ten a second, and log how many those were."""
    upto = policy.ended_before(sessions.shared.clock.now_ms())
    slots = sessions.shared.slots
    own_slots = None if slots is None else slots.held
    session_filter = SessionFilter(ended=True, label=policy.label, slots=own_slots)
    deleted = failed = 0
    last: StoredSession | None = None
    while page := await patiently(partial(_listed, sessions, session_filter, last)):
        last = page[-1]
        for stored in page:
            if stored.problem or not stored.ended or stored.active > upto:
                continue
            try:
                deleted += await patiently(partial(_deleted, sessions, stored.session_id, forget))
            except CommitUnknown:
                raise
            except AgentrailError:  # it is here or held, or another call deletes it: the next sweep looks again
                failed += 1
            await trio.sleep(PAUSE)
        await trio.sleep(PAUSE)
    of = f" with the label {policy.label!r}" if policy.label is not None else ""
    log.info("sessions%s that ended %g days ago: %d deleted, %d left for now", of, policy.days, deleted, failed)


async def _listed(
    sessions: Sessions, session_filter: SessionFilter, last: StoredSession | None
) -> tuple[StoredSession, ...]:
    return await sessions.shared.journal.sessions(session_filter, last, PAGE)


async def _deleted(sessions: Sessions, session_id: str, forget: Forget) -> bool:
    """Delete a session; return false for a sub-agent, which is deleted with its parent."""
    try:
        if (await read_opening(sessions.shared, session_id)).setup.path:
            return False
        await forget(session_id)
        await delete_stored(sessions, session_id)
    except SessionNotStored:
        return False
    return True
