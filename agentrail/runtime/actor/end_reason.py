"""Why a session is gone: in words, for monitors, and as the error that everybody gets who still waits for it."""

from __future__ import annotations

from typing import Final, NamedTuple

from agentrail.core.vocabulary.state import Phase, State
from agentrail.errors import AgentrailError, JournalUnavailable, SessionCrashed, SessionNotAlive, SessionParked

PARKED: Final = "parked: it can come back from its journal"
"""Why a session is gone that has not ended."""


class Gone(NamedTuple):
    """That a session is gone for good, as far as this process knows."""

    reason: str
    """Why, in words."""
    error: AgentrailError
    """What everybody gets who still waits for it."""
    ended: bool
    """Whether it has come to its end, in its journal too."""


def why_gone(state: State, error: BaseException | None, *, parked: bool) -> Gone:
    """Return why a session is gone whose actor has left it in *state*, with *error* if it has crashed."""
    session_id = state.session_id
    ended = state.phase is Phase.ENDED
    if error is not None:
        cause = f"{type(error).__name__}: {error}"
        meant = error if isinstance(error, JournalUnavailable) else SessionCrashed(session_id, cause)
        return Gone(f"crashed: {cause}", meant, ended)
    if parked and not ended:
        return Gone(PARKED, SessionParked(session_id), ended)
    reason = state.stopping or "stopped" if ended else "cancelled: it did not stop in time"
    return Gone(reason, SessionNotAlive(session_id, reason), ended)
