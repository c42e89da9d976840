"""One step, as the rules of the kit look at it."""

from __future__ import annotations

from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.inputs import (
    AnyInput,
    Arrival,
)
from agentrail.core.vocabulary.state import State
from agentrail.core.vocabulary.tool_calls import Call, CallStatus
from agentrail.values.events.envelope import Event


class Seen:
    """One step, as a rule looks at it."""

    def __init__(self, before: State, arrival: Arrival, step: Step) -> None:
        self.before = before
        self.after = step.state
        self.at = arrival.at
        self.given: AnyInput = arrival.input
        self.step = step
        self.events: tuple[Event, ...] = tuple(envelope.event for envelope in step.events)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls that were open before."""
        return () if self.before.batch is None else tuple(self.before.batch.calls)

    @property
    def running(self) -> tuple[Call, ...]:
        """The calls that ran before."""
        return tuple(call for call in self.calls if call.status is CallStatus.RUNNING)

    @property
    def in_turn(self) -> bool:
        """Whether a turn was open, and had not ended."""
        return self.before.turn is not None and self.before.turn.ended is None

    @property
    def same_turn(self) -> bool:
        """Whether that turn is still open."""
        turn, now = self.before.turn, self.after.turn
        return turn is not None and now is not None and turn.ref == now.ref and now.ended is None
