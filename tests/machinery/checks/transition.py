"""`Transition`, one step of a session as the checks get it."""

from __future__ import annotations

from agentrail import State
from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.tool_calls import Call, CallStatus
from agentrail.events import Event
from tests.kit import AnyInput, Arrival


class Transition:
    """One step of a session for the checks: states before and after, input, events and effects."""

    def __init__(self, old: State, arrival: Arrival, step: Step) -> None:
        self.before = old
        self.after = step.state
        self.at = arrival.at
        self.input: AnyInput = arrival.input
        self.step = step
        self.events: tuple[Event, ...] = tuple(envelope.event for envelope in step.events)

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls of the batch that was open before the step."""
        return () if self.before.batch is None else tuple(self.before.batch.calls)

    @property
    def running(self) -> tuple[Call, ...]:
        """The calls that were running before the step."""
        return tuple(call for call in self.calls if call.status is CallStatus.RUNNING)

    @property
    def in_turn(self) -> bool:
        """Whether a turn that had not ended was open before the step."""
        return self.before.turn is not None and self.before.turn.ended is None

    @property
    def same_turn(self) -> bool:
        """Whether the turn that was open before the step is still open after it."""
        turn, now = self.before.turn, self.after.turn
        return turn is not None and now is not None and turn.ref == now.ref and now.ended is None
