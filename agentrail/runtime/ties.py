"""What ties a session to those above and below it, whoever has become its actor."""

from __future__ import annotations

from agentrail.core.inputs import SubagentReported
from agentrail.core.step import Step
from agentrail.errors import AgentrailError
from agentrail.runtime.link import Link
from agentrail.runtime.parts import Subagents
from agentrail.runtime.waiting import HeldCall


class Ties:
    """The way to the session that has started it, if it is a sub-agent, and its own sub-agents, if it may start any."""

    __slots__ = ("above", "subagents")

    def __init__(self) -> None:
        self.above: Link | None = None
        self.subagents: Subagents | None = None

    def held(self) -> tuple[HeldCall, ...]:
        """Return what waits for a person in sub-agents."""
        return () if self.subagents is None else self.subagents.held()

    def gathered(self, report: SubagentReported) -> SubagentReported:
        """Return *report* with all that has gathered for it."""
        return report if self.subagents is None else self.subagents.gathered(report)

    def tell(self, step: Step) -> None:
        """Tell those above and below of a step that is durable."""
        if self.subagents is not None:
            self.subagents.spread(step.state)
        if self.above is not None:
            self.above.tell(step)

    def gone(self, error: AgentrailError) -> None:
        """Tell those above that the session is gone."""
        if self.above is not None:
            self.above.gone(error)
