"""Background shell commands of a session: each runs in a task of its own; all end with the session."""

from __future__ import annotations

import logging
from typing import Final

import trio

from agentrail.errors import CommandRefused
from agentrail.ports.sandbox import Process
from agentrail.runtime.shared.untrusted_calls import Contained, tell
from agentrail.values.untrusted_values import described

log = logging.getLogger("agentrail.process")

MAX_RUNNING: Final = 16
"""How many jobs of a session may run at the same time; a further command is refused."""

MAX_KEPT: Final = 32
"""How many jobs of a session, running ones included, are kept for reading; of more, the oldest ended ones go."""


MAX_SHOWN: Final = 100
"""How many characters of a command's first line name the job in a list of running jobs."""


class BackgroundJob:
    """A command that runs until it ends, is killed, or its session is gone."""

    __slots__ = ("_ended", "command", "job_id", "problem", "process", "scope")

    def __init__(self, job_id: str, command: str, process: Process) -> None:
        self.job_id = job_id
        self.command = command
        self.process = process
        self.problem = ""
        self.scope = trio.CancelScope()
        self._ended = trio.Event()

    @property
    def has_ended(self) -> bool:
        """Whether the command no longer runs."""
        return self._ended.is_set()

    async def kill(self) -> None:
        """Kill the command, and wait until it has ended."""
        self.process.kill()
        await self._ended.wait()

    async def run(self) -> None:
        """Body of the job's task: run the command; errors are kept in the job and not raised."""
        try:
            with Contained(self._failed):
                with self.scope:
                    await self.process.run()
                if self.scope.cancelled_caught:
                    self.problem = "its session has ended"
        finally:
            self._ended.set()

    def _failed(self, error: BaseException) -> None:
        """Log that the command could not be run, and keep the reason."""
        tell(log, error, "`%s` in the background could not be run", self.job_id, level=logging.WARNING)
        self.problem = described(error)


class BackgroundJobs:
    """The jobs of one session."""

    __slots__ = ("_closed", "_jobs", "_nursery", "_started")

    def __init__(self, nursery: trio.Nursery, *, closed: bool = False) -> None:
        self._nursery = nursery
        self._jobs: dict[str, BackgroundJob] = {}
        self._started = 0
        self._closed = closed

    def start(self, command: str, process: Process) -> BackgroundJob:
        """Run *process* as a job; raise if too many run already or the session has ended."""
        if self._closed:
            problem = "the session has ended"
            raise CommandRefused(problem)
        running = sum(1 for job in self._jobs.values() if not job.has_ended)
        if running >= MAX_RUNNING:
            problem = f"{running} jobs run already; end one with `shell_kill` first"
            raise CommandRefused(problem)
        self._started += 1
        job = self._jobs[f"job-{self._started}"] = BackgroundJob(f"job-{self._started}", command, process)
        ended = [old for old in self._jobs.values() if old.has_ended]
        for old in ended[: max(len(self._jobs) - MAX_KEPT, 0)]:
            del self._jobs[old.job_id]
        self._nursery.start_soon(job.run, name=job.job_id)
        return job

    def all(self) -> tuple[BackgroundJob, ...]:
        """Return the jobs, in the order in which they were started."""
        return tuple(self._jobs.values())

    def find(self, job_id: str) -> BackgroundJob | None:
        """Return the job with this id, `None` if there is none."""
        return self._jobs.get(job_id)

    def names(self) -> tuple[str, ...]:
        """Return descriptions of the running jobs: a line of each command."""
        return tuple(
            f"{job.job_id} `{job.command.partition(chr(10))[0][:MAX_SHOWN]}`"
            for job in self._jobs.values()
            if not job.has_ended
        )

    def close(self) -> None:
        """Kill all jobs."""
        self._closed = True
        for job in self._jobs.values():
            job.scope.cancel()
