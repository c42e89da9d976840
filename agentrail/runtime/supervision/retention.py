"""Deletes sessions that have ended long ago, in the background, as the policies of a supervisor say."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

import trio

from agentrail.errors import AgentrailError, CommitUnknown, SessionNotStored
from agentrail.ports.journal import SessionFilter, StoredSession
from agentrail.ports.retention import Retention
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.runtime.supervision.forgetting import delete_stored
from agentrail.runtime.supervision.recovery import read_opening
from agentrail.runtime.supervision.sessions import Sessions

log = logging.getLogger("agentrail.supervisor")

SWEEP_EVERY: Final = 60 * 60.0
"""Seconds between the end of a sweep and the next one."""

PAUSE: Final = 0.1
"""Seconds between two deletions, and between two pages of the list."""

PAGE: Final = 100
"""How many summaries of sessions are read at once."""


async def retain(sessions: Sessions, policies: Sequence[Retention]) -> None:
    """Sweep for ever: at once, and an hour after each sweep."""
    while True:
        for policy in policies:
            await _sweep(sessions, policy)
        await trio.sleep(SWEEP_EVERY)


async def _sweep(sessions: Sessions, policy: Retention) -> None:
    """Delete the sessions that *policy* names, at most ten a second, and log how many those were."""
    upto = policy.ended_before(sessions.shared.clock.now_ms())
    wanted = SessionFilter(ended=True, label=policy.label)
    deleted = failed = 0
    last: StoredSession | None = None
    while page := await patiently(partial(_listed, sessions, wanted, last)):
        last = page[-1]
        for stored in page:
            if stored.problem or not stored.ended or stored.active > upto:
                continue
            try:
                deleted += await patiently(partial(_deleted, sessions, stored.session_id))
            except CommitUnknown:
                raise
            except AgentrailError:  # it is here or held, or another call deletes it: the next sweep looks again
                failed += 1
            await trio.sleep(PAUSE)
        await trio.sleep(PAUSE)
    of = f" with the label {policy.label!r}" if policy.label is not None else ""
    log.info("sessions%s that ended %g days ago: %d deleted, %d left for now", of, policy.days, deleted, failed)


async def _listed(sessions: Sessions, wanted: SessionFilter, last: StoredSession | None) -> tuple[StoredSession, ...]:
    return await sessions.shared.journal.sessions(wanted, last, PAGE)


async def _deleted(sessions: Sessions, session_id: str) -> bool:
    """Delete a session; return false for a sub-agent, which is deleted with its parent."""
    try:
        if (await read_opening(sessions.shared, session_id)).setup.path:
            return False
        await delete_stored(sessions, session_id)
    except SessionNotStored:
        return False
    return True
