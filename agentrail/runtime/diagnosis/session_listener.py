"""`SessionListener`: interface of what is told of each step of each session of a supervisor."""

from __future__ import annotations

from typing import Protocol

from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.state import State


class SessionListener(Protocol):
    """Interface: what is told of the sessions of a supervisor, in their loop. It does little, and never raises."""

    def changed(self, session_id: str) -> None:
        """A session came or went, made a step, or is in another state as a child."""
        ...

    def stepped(self, before: State, outcome: Step) -> None:
        """A session made a step, which is in its journal."""
        ...
