"""What tools need of whoever runs the sub-agents of a session."""

from __future__ import annotations

from typing import Protocol

from agentrail.values.tools import Err, Ok
from agentrail.values.value import Value, value


@value
class Task(Value):
    """What a sub-agent does, or did."""

    child: str
    """Its session; `supervisor.session` takes it while it lives, the journal for ever."""
    agent: str
    """Which of the agents that the session may start."""
    description: str
    """What it is to do."""
    call_id: str
    """The call that has started it."""
    background: bool = False
    """Whether the call does not wait for it."""
    status: str = "running"
    """`running`, `waiting` for a person, `done` or `failed`."""


class Agents(Protocol):
    """The sub-agents of one session; they end with it."""

    async def run(self, call_id: str, agent: str, description: str, prompt: str) -> Ok | Err:
        """Have *agent* do what *prompt* says, and return what it answers; cancelled, it is stopped."""
        ...

    async def start(self, call_id: str, agent: str, description: str, prompt: str) -> Task | Err:
        """Have *agent* do it in the background; return when it runs, or why it does not."""
        ...

    def tasks(self) -> tuple[Task, ...]:
        """Return those that run, and the last ones in the background that have ended, in the order of their start."""
        ...

    async def result(self, child: str) -> Ok | Err:
        """Return what a sub-agent answers, when it has; raise `UnknownTask` if there is none."""
        ...

    async def cancel(self, child: str) -> None:
        """Stop a sub-agent, and return when it and everything under it has ended."""
        ...
