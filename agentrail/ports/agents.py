"""`Agents`: how tools start and ask the sub-agents of a session; `Peers`: how these write to each other.

Both are implemented in the runtime.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    peers: tuple[str, ...] = ()
    """Ids of sub-agents that were there before, with which this one may exchange messages."""


class Agents(Protocol):
    """Starts and stops the sub-agents of one session; they end with that session."""

    async def run(
        self, call_id: str, agent: str, description: str, prompt: str, peers: tuple[str, ...] = ()
    ) -> Ok | Err:
        """Run *agent* on *prompt* and return its answer; cancelling this call stops the sub-agent."""
        ...

    async def start(
        self, call_id: str, agent: str, description: str, prompt: str, peers: tuple[str, ...] = ()
    ) -> Task | Err:
        """Start *agent* on *prompt* in the background; return its task once it runs, or why it could not start.

        It and the running sub-agents *peers* may exchange messages.
        """
        ...

    def tasks(self) -> tuple[Task, ...]:
        """Return the last background tasks that have ended, in the order of their ends, and then those that run."""
        ...

    async def result(self, child: str) -> Ok | Err:
        """Wait for the answer of the background task *child*, and return it; raise `UnknownTask` if there is none."""
        ...

    async def tell(self, command: str | None, child: str, text: str, by: str | None = None) -> None:
        """Send *text* to the running sub-agent *child*, which gets it before its next request and stops nothing for it.

        Raise `TaskDone` if it has ended, and `UnknownTask` if there is none. The same *command* sends it once only.
        *by* is who gives a program the command, and may be empty; `None` if the session sends it in its open turn.
        """
        ...

    async def wait(
        self, call_id: str | None, children: Iterable[str], seconds: float, *, every: bool
    ) -> Mapping[str, Ok | Err]:
        """Wait until *every* one of *children* has ended, or any one; return the answers of those that have, by id.

        The call *call_id* waits for *seconds* from its start at most, also if a restart interrupted it, and until
        a message to its session waits. A program, without a call, waits for *seconds* from now at most.
        """
        ...

    async def cancel(self, child: str) -> None:
        """Stop the sub-agent *child*; return when it and everything that it started have ended."""
        ...


class Peers(Protocol):
    """Exchanges messages with the sub-agents of which the parent has given the address."""

    def peers(self) -> tuple[Task, ...]:
        """Return the running sub-agents with which messages may be exchanged."""
        ...

    async def send(self, call_id: str, to: str, text: str) -> None:
        """Send *text* to the sub-agent *to*, once for each *call_id*, as `Agents.tell` does.

        Raise `UnknownTask` if the parent has not given its address.
        """
        ...

    async def arrived(self, call_id: str, seconds: float) -> bool:
        """Wait until a message has come; return `False` if none has *seconds* after the start of the call *call_id*."""
        ...
