"""`Jobs`: how tools run commands in the background of a session; implemented in the runtime."""

from __future__ import annotations

from typing import Protocol

from agentrail.ports.sandbox import Process


class Job(Protocol):
    """A command that runs, or ran, in the background of a session."""

    @property
    def job_id(self) -> str:
        """Name of the job that the model uses, such as `job-1`."""
        ...

    @property
    def command(self) -> str:
        """The command line."""
        ...

    @property
    def process(self) -> Process:
        """The process of the command: has its output, and its exit code once it has ended."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether the command has ended."""
        ...

    @property
    def problem(self) -> str:
        """Why the command could not be run; empty if it could."""
        ...

    async def kill(self) -> None:
        """End the command, and return when it has ended."""
        ...


class Jobs(Protocol):
    """Starts and finds the background commands of one session; they end with that session."""

    def start(self, command: str, process: Process) -> Job:
        """Run *process* as a job; raise `CommandRefused` if too many jobs run already."""
        ...

    def all(self) -> tuple[Job, ...]:
        """Return the running jobs and the last ones that have ended, in the order in which they were started."""
        ...

    def find(self, job_id: str) -> Job | None:
        """Return the job called *job_id*; `None` if there is none."""
        ...
