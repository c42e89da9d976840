"""`SessionListener`: what is told of each step of each session of a supervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from agentrail.core.vocabulary.state import State
from agentrail.values.usage import Usage

if TYPE_CHECKING:  # commands that only read a journal import no machine
    from agentrail.core.machine.step import Step

Duration: TypeAlias = Literal["first_word", "turn", "abort"]
"""What is measured: from the start of a turn to its first word, or to its end; from an abort to its record."""


class SessionListener:
    """Base class of what is told of the sessions of a supervisor, in their loop; each method does nothing.

    A method does little, and never raises: that would break the session that it is told of.
    """

    def changed(self, session_id: str) -> None:
        """Called when a session came or went, made a step, or is in another state as a child."""

    def stepped(self, old: State, outcome: Step) -> None:
        """Called when a session made a step with events, which is in its journal."""

    def gone(self, session_id: str) -> None:
        """Called when a session runs here no more, also if it was to run here and could not begin to."""

    def used(self, state: State, model: str, usage: Usage) -> None:
        """Called when a session, which has come to *state*, got a response of *model*."""

    def took(self, state: State, duration: Duration, seconds: float) -> None:
        """Called when something in a session has come to its end."""

    def waiting_changed(self, session_id: str) -> None:
        """Called when other calls of a session wait for a person, or the session came or went with some."""

    def committed(self, seconds: float) -> None:
        """Called when the journal has written a record."""
