"""A thread of its own that does jobs for tasks: nothing of it runs in the event loop, and no other thread delays it.

A task that is cancelled takes its job back if it still waits. A job that was taken is done to its end, and its task
waits for that: whoever is told that it was cancelled knows that nothing has happened.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

import trio

T = TypeVar("T")
C = TypeVar("C")


class Job(Generic[C, T]):
    """Something to do with what the thread holds, and the task that waits for it."""

    __slots__ = ("_run", "_value", "about", "error", "task", "token")

    def __init__(self, run: Callable[[C], T], about: str = "") -> None:
        self._run = run
        self.about = about
        self.task = trio.lowlevel.current_task()
        self.token = trio.lowlevel.current_trio_token()
        self.error: Exception | None = None
        self._value: T | None = None

    def do(self, held: C) -> None:
        """Do it, and keep what it returns."""
        self._value = self._run(held)

    def outcome(self) -> T:
        """Return what it returned, or raise what it raised."""
        if self.error is not None:
            raise self.error
        return self._value  # type: ignore[return-value]  # it was done, so it is a T


class Servant(Protocol[C]):
    """What does the jobs, in the thread."""

    def serve(self, jobs: Sequence[Job[C, object]]) -> None:
        """Do *jobs*; what goes wrong is their error."""
        ...

    def rest(self) -> None:
        """Do what should be done when the jobs are answered."""
        ...

    def close(self) -> None:
        """Give back what is held."""
        ...


class Worker(Generic[C]):
    """A queue of jobs, and a thread as long as it is wanted."""

    def __init__(self, name: str, servant: Servant[C], most: int) -> None:
        self._name = name
        self._servant = servant
        self._most = most
        self._jobs: list[Job[C, object]] = []
        self._closing: list[Job[C, object]] = []
        self._alive = False
        self._wake = threading.Condition()

    async def do(self, run: Callable[[C], T], about: str = "") -> T:
        """Have the thread *run* something *about* a session, and return what it returns."""
        await trio.lowlevel.checkpoint_if_cancelled()
        job = Job(run, about)
        await self._wait(job, self._jobs)
        return job.outcome()

    async def close(self) -> None:
        """Wait until the thread has done its jobs, given back what it holds, and ended."""
        with self._wake:
            if not self._alive:
                return
        await self._wait(Job(lambda _: None), self._closing)

    async def _wait(self, job: Job[C, T], queue: list[Job[C, object]]) -> None:
        entry: Job[C, object] = job  # type: ignore[assignment]  # what it returns is only read by who made it
        with self._wake:
            if not self._alive:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._alive = True
            queue.append(entry)
            self._wake.notify()

        def leave(_: object) -> trio.lowlevel.Abort:
            with self._wake:
                if entry not in queue:
                    return trio.lowlevel.Abort.FAILED
                queue.remove(entry)
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(leave)

    # In the thread

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._jobs and not self._closing:
                    self._wake.wait()
                jobs = self._jobs[: self._most]
                del self._jobs[: self._most]
                closing = [] if self._jobs or jobs else self._closing[:]
                del self._closing[: len(closing)]
            if jobs:
                self._serve(jobs)
                _answer(jobs)
                self._servant.rest()
            elif self._closed(closing):
                return

    def _serve(self, jobs: Sequence[Job[C, object]]) -> None:
        try:
            self._servant.serve(jobs)
        except Exception as error:  # noqa: BLE001 - nobody may wait for ever; it is raised where the jobs were given
            for job in jobs:
                job.error = error

    def _closed(self, closing: list[Job[C, object]]) -> bool:
        """Give back what is held; return whether the thread ends."""
        self._servant.close()
        with self._wake:
            done = not self._jobs and not self._closing
            self._alive = not done
        _answer(closing)
        return done


def _answer(jobs: Sequence[Job[C, object]]) -> None:
    """Wake the tasks that wait for *jobs*, all of a run at once."""
    by_run: dict[trio.lowlevel.TrioToken, list[trio.lowlevel.Task]] = {}
    for job in jobs:
        by_run.setdefault(job.token, []).append(job.task)
    for token, tasks in by_run.items():
        with suppress(trio.RunFinishedError):  # who waited went down with the run
            token.run_sync_soon(_wake, tasks)


def _wake(tasks: list[trio.lowlevel.Task]) -> None:
    for task in tasks:
        trio.lowlevel.reschedule(task)
