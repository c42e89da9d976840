"""`Agents`: how tools start and ask the sub-agents of a session; implemented in the runtime."""

from __future__ import annotations

from typing import Protocol

from agentrail.values.tools import Err, Ok
from agentrail.values.value import Authored


class Task(Authored):
    """One run of a sub-agent: what it was asked to do, and how far it is."""

    child: str
    """Session id of the sub-agent: valid for `supervisor.session` while the sub-agent runs.

    Its records stay readable after that, unless the supervisor was given no journal.
    """
    agent: str
    """Name of the agent, a key of `SessionSpec.agents`."""
    description: str
    """Short description of the task, as the model that started it gave it."""
    call_id: str
    """Id of the tool call that started the sub-agent."""
    background: bool = False
    """Whether the sub-agent runs in the background: its tool call returned without waiting for the answer."""
    status: str = "running"
    """`running`, `waiting` for a person, `done` or `failed`."""


class Agents(Protocol):
    """Starts and stops the sub-agents of one session; they end with that session."""

    async def run(self, call_id: str, agent: str, description: str, prompt: str) -> Ok | Err:
        """Run *agent* on *prompt* and return its answer; cancelling this call stops the sub-agent."""
        ...

    async def start(self, call_id: str, agent: str, description: str, prompt: str) -> Task | Err:
        """Start *agent* on *prompt* in the background; return its task once it runs, or why it could not start."""
        ...

    def tasks(self) -> tuple[Task, ...]:
        """Return the running tasks, and the last background tasks that have ended, in the order of their start."""
        ...

    async def result(self, child: str) -> Ok | Err:
        """Wait for the answer of the background task *child*, and return it; raise `UnknownTask` if there is none."""
        ...

    async def cancel(self, child: str) -> None:
        """Stop the sub-agent *child*; return when it and everything that it started have ended."""
        ...
