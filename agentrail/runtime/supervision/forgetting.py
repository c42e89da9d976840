"""Deleting stored sessions, on behalf of a supervisor."""

from __future__ import annotations

from agentrail.errors import SessionForgotten, SessionNotStored, SessionStillRuns
from agentrail.runtime.supervision.children import session_of
from agentrail.runtime.supervision.sessions import Sessions


async def delete_stored(sessions: Sessions, session_id: str) -> None:
    """Delete a stored session and its sub-agents; raise if one of them runs here, or is held elsewhere.

    A quarantined one does not run: it is let go, as there is no other way to end it.
    """
    tree, shared = sessions.tree, sessions.shared
    tree.let_go(session_id)
    if session_id in sessions.starting:
        raise SessionStillRuns(session_id, session_id)
    for name, child in tree.sessions.items():
        session = session_of(child)
        if name == session_id or (session is not None and session_id in session.state.setup.path[::2]):
            raise SessionStillRuns(session_id, name)
    if not await shared.journal.delete(session_id, shared.leases.address, shared.clock.now_ms()):
        raise SessionNotStored(session_id) if shared.forget is None else SessionForgotten(session_id)
