"""A session again, from what was recorded of it: the same steps, with the rulings of then."""

from __future__ import annotations

from collections.abc import Sequence

from agentrail.core.machine.step import step
from agentrail.core.vocabulary.inputs import Arrival, StreamBegan
from agentrail.core.vocabulary.state import State
from agentrail.errors import ReplayDiffers
from agentrail.hooks.judge import Recorded
from agentrail.hooks.ruling import Ruling
from agentrail.values.events.envelope import Envelope


def redo(
    state: State,
    arrival: Arrival,
    rulings: Sequence[Ruling],
    events: Sequence[Envelope],
    began: str | None = None,
    number: int = 0,
) -> State:
    """Apply one recorded step to *state*; raise `ReplayDiffers` if it does not come out as it did then."""
    if began is not None:
        state = step(state, Arrival(StreamBegan(began), arrival.at), Recorded(())).state
    judge = Recorded(rulings, state.session_id, number)
    again = step(state, arrival, judge)
    if again.events != tuple(events):
        raise ReplayDiffers(state.session_id, number, "its events")
    if judge.left:
        raise ReplayDiffers(state.session_id, number, "its rulings: some were not asked for")
    return again.state
