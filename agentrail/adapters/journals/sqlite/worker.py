"""`Worker`: a thread of its own that runs jobs for Trio tasks; the event loop is not blocked by them.

Jobs that are run together are answered together. Then the thread waits a moment for the answered tasks, so that their
next jobs can be run together again.

A cancelled task takes its job back if it still waits. A job that has begun is run to its end, and its task
waits for that: so `Cancelled` always means that nothing has happened.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Final, Generic, Protocol, TypeVar, cast

import trio

from agentrail.ports.failpoints import Failpoint, reach
from agentrail.values.foreign import described

log = logging.getLogger("agentrail.journal")

T = TypeVar("T")
C = TypeVar("C")


class ThreadJob(Generic[C, T]):
    """A function to run in the thread, with the resource that the thread holds; and the task that waits for it."""

    __slots__ = ("_run", "_value", "about", "error", "task", "token")

    def __init__(self, run: Callable[[C], T], about: str = "") -> None:
        self._run = run
        self.about = about
        self.task = trio.lowlevel.current_task()
        self.token = trio.lowlevel.current_trio_token()
        self.error: Exception | None = None
        self._value: T | None = None

    def do(self, held: C) -> None:
        """Run the function in the thread, and keep its result."""
        self._value = self._run(held)

    def outcome(self) -> T:
        """Return the function's result, or raise its exception."""
        if self.error is not None:
            raise self.error
        return self._value  # type: ignore[return-value]  # it was done, so it is a T


class Servant(Protocol[C]):
    """Runs the jobs in the thread: the reader or the writer of a journal."""

    def serve(self, jobs: Sequence[ThreadJob[C, object]]) -> None:
        """Run *jobs*; an error is kept in its job."""
        ...

    def rest(self) -> None:
        """Do work that was put off until the jobs were answered, such as a checkpoint."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


PASSES: Final = 2
"""Passes of the event loop after which all woken tasks have run: in the first pass, some run after us."""

LONGEST_PATIENCE: Final = 0.05
"""Seconds to wait for those passes at most, in case the loop is blocked."""


class Mood(Enum):
    """What the thread waits for."""

    BUSY = "nothing"
    IDLE = "a job"
    PATIENT = "those who were just answered: they may have more to do, and it is cheaper to do it together"


class Worker(Generic[C]):
    """A queue of jobs and the thread that runs them; the thread is started for the first job."""

    def __init__(self, name: str, servant: Servant[C], most: int) -> None:
        self._name = name
        self._servant = servant
        self._most = most
        self._jobs: list[ThreadJob[C, object]] = []
        self._closing: list[ThreadJob[C, object]] = []
        self._alive = False
        self._mood = Mood.BUSY
        self._lock = threading.Lock()
        self._bell = threading.Lock()
        self._bell.acquire()

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs."""
        return self._alive

    async def do(self, run: Callable[[C], T], about: str = "") -> T:
        """Run the function *run* in the thread and return its result; *about*: the session that it concerns."""
        await trio.lowlevel.checkpoint_if_cancelled()
        job = ThreadJob(run, about)
        self._give(job, self._jobs)
        await trio.lowlevel.wait_task_rescheduled(partial(self._take_back, job, self._jobs))
        return job.outcome()

    async def close(self) -> None:
        """Wait until the thread has done its jobs, given back what it holds, and ended; raise what that raised."""
        with self._lock:
            if not self._alive:
                return
        job: ThreadJob[C, None] = ThreadJob(lambda _: None)
        self._give(job, self._closing)
        await trio.lowlevel.wait_task_rescheduled(partial(self._take_back, job, self._closing))
        job.outcome()

    def _give(self, job: ThreadJob[C, T], queue: list[ThreadJob[C, object]]) -> None:
        with self._lock:
            queue.append(cast("ThreadJob[C, object]", job))
            if not self._alive:
                self._alive = True
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
            elif self._mood is Mood.IDLE:
                self._mood = Mood.BUSY
                self._bell.release()

    def _take_back(self, job: ThreadJob[C, T], queue: list[ThreadJob[C, object]], _: object) -> trio.lowlevel.Abort:
        with self._lock:
            if job not in queue:
                return trio.lowlevel.Abort.FAILED
            queue.remove(cast("ThreadJob[C, object]", job))
        return trio.lowlevel.Abort.SUCCEEDED

    # In the loop, after the thread has done something

    def _wake(self, token: trio.lowlevel.TrioToken, tasks: Sequence[trio.lowlevel.Task], are_awaited: bool) -> None:
        for task in tasks:
            trio.lowlevel.reschedule(task)
        if are_awaited:
            self._pass(token, PASSES)

    def _pass(self, token: trio.lowlevel.TrioToken, left: int) -> None:
        """Let the loop go round until those who were answered have had their turn, and have the thread go on."""
        with suppress(trio.RunFinishedError):
            if left:
                token.run_sync_soon(self._pass, token, left - 1)
                return
        self._go_on()

    def _go_on(self) -> None:
        with self._lock:
            if self._mood is Mood.PATIENT:
                self._mood = Mood.BUSY
                self._bell.release()

    # In the thread

    def _run(self) -> None:
        while True:
            jobs, closing = self._next()
            if jobs:
                self._serve(jobs)
                are_awaited = len(jobs) > 1
                self._mood = Mood.PATIENT if are_awaited else Mood.BUSY
                self._answer(jobs, are_awaited=are_awaited)
                reach(Failpoint.JOBS_ANSWERED)
                self._rest()
                if are_awaited and not self._bell.acquire(timeout=LONGEST_PATIENCE):
                    self._go_on()
                    self._bell.acquire()
            elif not closing:
                self._bell.acquire()
            elif self._closed(closing):
                return

    def _next(self) -> tuple[list[ThreadJob[C, object]], list[ThreadJob[C, object]]]:
        """Return the next jobs or, without any, those that close; without those either, the bell will ring."""
        with self._lock:
            jobs = self._jobs[: self._most]
            del self._jobs[: self._most]
            closing = [] if jobs else self._closing[:]
            del self._closing[: len(closing)]
            self._mood = Mood.BUSY if jobs or closing else Mood.IDLE
        return jobs, closing

    def _serve(self, jobs: Sequence[ThreadJob[C, object]]) -> None:
        try:
            self._servant.serve(jobs)
        except Exception as error:  # noqa: BLE001 - nobody may wait for ever; it is raised where the jobs were given
            for job in jobs:
                job.error = error

    def _rest(self) -> None:
        """Call `Servant.rest`, for work that was put off; log an exception, and let the thread go on."""
        try:
            self._servant.rest()
        except Exception as error:  # noqa: BLE001 - nobody waits for it, and the next jobs must not wait for ever
            log.error("the %s could not do what it had put off: %s", self._name, described(error))  # noqa: TRY400

    def _answer(self, jobs: Sequence[ThreadJob[C, object]], *, are_awaited: bool) -> None:
        """Wake the tasks that wait for *jobs*, all of a run at once; if they *are_awaited*, the bell rings later."""
        by_run: dict[trio.lowlevel.TrioToken, list[trio.lowlevel.Task]] = {}
        for job in jobs:
            by_run.setdefault(job.token, []).append(job.task)
        for token, tasks in by_run.items():
            try:
                token.run_sync_soon(self._wake, token, tasks, are_awaited)
            except trio.RunFinishedError:  # who waited went down with the run
                self._go_on()

    def _closed(self, closing: list[ThreadJob[C, object]]) -> bool:
        """Give back what is held; return whether the thread ends."""
        try:
            self._servant.close()
        except Exception as error:  # noqa: BLE001 - nobody may wait for ever; it is raised where that was asked for
            for job in closing:
                job.error = error
        with self._lock:
            done = not self._jobs and not self._closing
            self._alive = not done
        self._answer(closing, are_awaited=False)
        return done
