"""`noted`: the state of a session whose response has begun since its last record."""

from __future__ import annotations

from agentrail import State
from agentrail.core.machine.responses import begun
from tests.kit import Phase


def noted(state: State, then: State) -> State:
    """Return *state* with the beginning of a response that *then* has noted: the next record says so."""
    request = then.request
    return state if request is None or then.phase is not Phase.STREAMING else begun(state, request.request_id)
