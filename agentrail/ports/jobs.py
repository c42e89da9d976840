"""What tools need of whoever runs commands in the background of a session."""

from __future__ import annotations

from typing import Protocol

from agentrail.ports.sandbox import Process


class Job(Protocol):
    """A command in the background."""

    @property
    def job_id(self) -> str:
        """What the model calls it."""
        ...

    @property
    def command(self) -> str:
        """What runs."""
        ...

    @property
    def process(self) -> Process:
        """Listens to it, and knows how it ended."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether it runs no more."""
        ...

    @property
    def problem(self) -> str:
        """Why it could not be run, if it could not."""
        ...

    async def kill(self) -> None:
        """Have it end, and return when it has."""
        ...


class Jobs(Protocol):
    """The commands in the background of one session; they end with it."""

    def start(self, command: str, process: Process) -> Job:
        """Run *process*; raise `CommandRefused` if too many run already."""
        ...

    def all(self) -> tuple[Job, ...]:
        """Return those that run and the last ones that have ended, in the order in which they were started."""
        ...

    def find(self, job_id: str) -> Job | None:
        """Return one of them."""
        ...
