"""Why a session has gone: as text for monitors, and as the error for callers that still wait."""

from __future__ import annotations

from typing import Final, NamedTuple

from agentrail.core.vocabulary.state import Phase, State
from agentrail.errors import AgentrailError, Fenced, JournalUnavailable, SessionCrashed, SessionNotAlive, SessionParked
from agentrail.errors.agentrail_error import kind_of

PARKED: Final = "parked: it can come back from its journal"
"""Reason for a session that was stopped without being ended, and can be resumed."""

TAKEN: Final = "taken: another supervisor has claimed it"
"""Reason for a session that another supervisor goes on with."""


class Gone(NamedTuple):
    """Reason for which this process no longer runs a session."""

    reason: str
    """Why the session is gone, in words."""
    error: AgentrailError
    """Error raised to callers that still wait for the session."""
    ended: bool
    """Whether the session has ended in its journal too, so that it cannot be resumed."""


def why_gone(state: State, error: BaseException | None, *, parked: bool) -> Gone:
    """Return why a session is gone whose actor ended in *state*; *error* is its crash, if it crashed."""
    session_id = state.session_id
    ended = state.phase is Phase.ENDED
    if error is not None:
        if isinstance(error, Fenced):
            return Gone(TAKEN, error, ended)
        cause = f"{kind_of(error)}: {error}"
        error_ = error if isinstance(error, JournalUnavailable) else SessionCrashed(session_id, cause)
        return Gone(f"crashed: {cause}", error_, ended)
    if parked and not ended:
        return Gone(PARKED, SessionParked(session_id), ended)
    reason = state.stop_reason or "stopped" if ended else "cancelled: it did not stop in time"
    return Gone(reason, SessionNotAlive(session_id, reason), ended)
