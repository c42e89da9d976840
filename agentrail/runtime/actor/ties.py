"""What ties a session to those above and below it, whoever has become its actor."""

from __future__ import annotations

from collections.abc import Callable

from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.inputs import AnyInput, ElsewhereUsed, SubagentEnded, SubagentReported
from agentrail.core.vocabulary.state import State
from agentrail.errors import AgentrailError
from agentrail.runtime.actor.parent_link import Link
from agentrail.runtime.inbox.replies import HeldCall
from agentrail.runtime.resources import Subagents
from agentrail.values.tools import err


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

    def latest(self, used: ElsewhereUsed) -> ElsewhereUsed:
        """Return *used* as it is by now."""
        return used if self.above is None else self.above.latest()

    def resume(self, children: tuple[str, ...], state: State, post: Callable[[AnyInput], None]) -> None:
        """Begin to bring sub-agents back; those that the session may not start any more have ended."""
        if self.subagents is not None:
            self.subagents.resume(children, state)
            return
        for child in children:
            post(SubagentEnded(child, err("the session may start no sub-agents any more")))

    def stop(self, children: tuple[str, ...]) -> None:
        """Begin to stop sub-agents."""
        if self.subagents is not None:
            self.subagents.stop(children)

    def close(self) -> None:
        """Begin to stop all of them, and start no more."""
        if self.subagents is not None:
            self.subagents.close()

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
