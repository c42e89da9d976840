"""Why a session is gone: in words, for monitors, and as the error that everybody gets who still waits for it."""

from __future__ import annotations

from typing import Final

from agentrail.core.state import Phase, State
from agentrail.errors import AgentrailError, SessionCrashed, SessionNotAlive, SessionParked

PARKED: Final = "parked: it can come back from its journal"
"""Why a session is gone that has not ended."""


def why_gone(state: State, error: BaseException | None, *, parked: bool) -> tuple[str, AgentrailError]:
    """Return why a session is gone whose actor has left it in *state*, with *error* if it has crashed."""
    session_id = state.session_id
    if error is not None:
        cause = f"{type(error).__name__}: {error}"
        return f"crashed: {cause}", SessionCrashed(session_id, cause)
    ended = state.phase is Phase.ENDED
    if parked and not ended:
        return PARKED, SessionParked(session_id)
    reason = state.stopping or "stopped" if ended else "cancelled: it did not stop in time"
    return reason, SessionNotAlive(session_id, reason)
