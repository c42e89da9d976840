"""`WriterThread`: a thread that runs jobs for Trio tasks, so that they do not block the event loop.

Jobs that run together are answered together. The thread then waits a moment for the answered tasks, so that their next
jobs can run together again.

A cancelled task takes its job back if the job has not begun. A job that has begun runs to its end, and its task waits
for that, unless the job stops early: one that only reads does. So `Cancelled` always means that nothing has happened.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Final, Generic, Protocol, TypeVar, TypeVarTuple

import trio
from msgspec import Struct, field
from trio.lowlevel import Task, TrioToken, current_task, current_trio_token

from agentrail.errors import NothingWritten
from agentrail.ports.failpoints import reach
from agentrail.values.untrusted_values import described

log = logging.getLogger("agentrail.journal")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Ts = TypeVarTuple("Ts")
C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)
C_contra = TypeVar("C_contra", contravariant=True)


class ThreadJob(Struct, Generic[C, T_co], eq=False):
    """A function to run in the thread, and the task that waits for its result.

    The function gets the resource that the thread owns, the reader or the writer of the journal, and what was *given*.
    """

    run: Callable[..., T_co]
    given: tuple[object, ...]
    session_id: str = ""
    creates: bool = False
    money: Collection[tuple[int, str]] = ()
    """The days and tenants whose money it changes."""
    task: Task = field(default_factory=current_task)
    token: TrioToken = field(default_factory=current_trio_token)
    on_done: Callable[[ThreadJob[C, T_co]], None] | None = None
    """Called in the event loop when the job is done, in place of a task that waits; it never raises."""
    is_unwanted: bool = False
    """Whether the task was cancelled after the job had begun."""
    error: Exception | None = None
    value: T_co | None = None

    def do(self, holder: C) -> None:
        """Call the function with *holder*, the resource of the thread, and keep its result."""
        self.value = self.run(holder, *self.given)

    def outcome(self) -> T_co:
        """Return the function's result, or raise its exception."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # the job was done, so this is a T_co


class JobStoppedError(Exception):
    """A job has stopped before its end because it is unwanted; it has changed nothing."""


def _nothing(_: object) -> None:
    """No-op: `close` waits for the end of the thread by a job, which has nothing to do."""


class WriterJob(Protocol[C_contra]):
    """Interface of a job: a function to run with the resource of the thread. Its exception is stored in `error`."""

    session_id: str
    """Id of the session that the job concerns; empty if none."""
    creates: bool
    """Whether the job stores that session if it is not stored yet, as a claim does."""
    money: Collection[tuple[int, str]]
    """The days and tenants whose money the job changes."""
    is_unwanted: bool
    """Whether the task that waits for the job was cancelled: a job that only reads may raise `JobStoppedError`."""
    error: Exception | None

    def do(self, holder: C_contra) -> None:
        """Call the function with *holder*, the resource of the thread."""
        ...


class JobHandler(Protocol[C_co]):
    """Runs the jobs in the thread of a worker: the reader or the writer of a journal."""

    def serve(self, jobs: Sequence[WriterJob[C_co]]) -> None:
        """Run *jobs*; an exception is stored in its job, and raised in the task that waits for it."""
        ...

    def rest(self) -> None:
        """Do work that was postponed until the jobs were answered, such as a checkpoint."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


PASSES: Final = 2
"""Passes of the event loop until all woken tasks have run: in the first pass, some run after the callback."""

MAX_PATIENCE: Final = 0.05
"""The most seconds that the thread waits for those passes before its next jobs, in case the event loop is blocked."""


class WriterState(Enum):
    """Tells the event loop's side what the thread waits for; `PATIENT` after several jobs were answered together."""

    BUSY = "nothing"
    IDLE = "a job"
    PATIENT = "those who were just answered: they may have more to do, and it is cheaper to do it together"


class WriterThread(Generic[C]):
    """A queue of jobs and the thread that runs them; the thread is started for the first job."""

    def __init__(self, name: str, handler: JobHandler[C], most: int) -> None:
        self._name = name
        self._handler = handler
        self._most = most
        self._jobs: list[ThreadJob[C, object]] = []
        self._closing: list[ThreadJob[C, object]] = []
        self._alive = False
        self._state = WriterState.BUSY
        self._lock = threading.Lock()
        self._wakeup = threading.Lock()
        self._wakeup.acquire()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._alive

    async def do(
        self,
        run: Callable[[C, *Ts], T],
        *arguments: *Ts,
        session_id: str = "",
        creates: bool = False,
        money: Collection[tuple[int, str]] = (),
    ) -> T:
        """Run the function *run* in the thread, with *arguments*, and return its result.

        *session_id* is that of the session that it concerns, which it *creates* if that is not stored; *money* are the
        days and tenants whose money it changes.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        job: ThreadJob[C, T] = ThreadJob(run, arguments, session_id, creates, money)
        self._give(job, self._jobs)
        await trio.lowlevel.wait_task_rescheduled(partial(self._take_back, job, self._jobs))
        if isinstance(job.error, JobStoppedError):
            await trio.lowlevel.checkpoint()  # raises `Cancelled`, or `KeyboardInterrupt`
        return job.outcome()

    def submit(
        self, run: Callable[[C, *Ts], T], *arguments: *Ts, session_id: str, on_done: Callable[[ThreadJob[C, T]], None]
    ) -> Callable[[], bool]:
        """Run the function *run* in the thread as `do` does, but return at once; *on_done* is called when that is done.

        The function that is returned takes the job back, and returns whether it has not begun.
        """
        job: ThreadJob[C, T] = ThreadJob(run, arguments, session_id, on_done=on_done)
        self._give(job, self._jobs)
        return partial(self._take_out, job, self._jobs)

    async def close(self) -> None:
        """Wait until the thread has done its jobs, closed its connection and ended; raise the error of closing it."""
        with self._lock:
            if not self._alive:
                return
        job: ThreadJob[C, None] = ThreadJob(_nothing, ())
        self._give(job, self._closing)
        await trio.lowlevel.wait_task_rescheduled(partial(self._take_back, job, self._closing))
        job.outcome()

    def _give(self, job: ThreadJob[C, object], queue: list[ThreadJob[C, object]]) -> None:
        """Append *job* to *queue*, and start or wake the thread."""
        with self._lock:
            if not self._alive:
                self._start()
            elif self._state is WriterState.IDLE:
                self._state = WriterState.BUSY
                self._wakeup.release()
            queue.append(job)

    def _start(self) -> None:
        try:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        except RuntimeError as error:  # the system has no more threads for this process
            problem = f"the thread of the {self._name} cannot be started: {error}"
            raise NothingWritten(problem) from error
        self._alive = True

    def _take_back(
        self, job: ThreadJob[C, object], queue: list[ThreadJob[C, object]], _: object
    ) -> trio.lowlevel.Abort:
        if self._take_out(job, queue):
            return trio.lowlevel.Abort.SUCCEEDED
        job.is_unwanted = True
        return trio.lowlevel.Abort.FAILED

    def _take_out(self, job: ThreadJob[C, object], queue: list[ThreadJob[C, object]]) -> bool:
        """Remove *job*, unless it has begun; return whether it is removed."""
        with self._lock:
            if job not in queue:
                return False
            queue.remove(job)
        return True

    # Called in the event loop, where the thread schedules them; it calls `_go_on` itself too

    def _wake(self, token: TrioToken, waiting: list[Task | ThreadJob[C, object]], are_awaited: bool) -> None:
        """Wake the tasks in *waiting*, and call `on_done` of jobs that no task waits for."""
        for waiter in waiting:
            if isinstance(waiter, Task):
                trio.lowlevel.reschedule(waiter)
            elif waiter.on_done is not None:
                waiter.on_done(waiter)
        waiting.clear()
        if are_awaited:
            self._pass(token, PASSES)

    def _pass(self, token: TrioToken, rounds: int) -> None:
        """Wait *rounds* passes of the event loop, in which the answered tasks run; then wake the thread."""
        with suppress(trio.RunFinishedError):
            if rounds:
                token.run_sync_soon(self._pass, token, rounds - 1)
                return
        self._go_on()

    def _go_on(self) -> None:
        with self._lock:
            if self._state is WriterState.PATIENT:
                self._state = WriterState.BUSY
                self._wakeup.release()

    # Called in the thread

    def _run(self) -> None:
        while True:
            jobs, closing = self._next()
            if jobs:
                self._serve(jobs)
                are_awaited = len(jobs) > 1
                self._state = WriterState.PATIENT if are_awaited else WriterState.BUSY
                self._answer(jobs, are_awaited=are_awaited)
                reach("JOBS_ANSWERED")
                self._rest()
                if are_awaited and not self._wakeup.acquire(timeout=MAX_PATIENCE):
                    self._go_on()
                    self._wakeup.acquire()
            elif not closing:
                self._wakeup.acquire()
            elif self._close(closing):
                return

    def _next(self) -> tuple[list[ThreadJob[C, object]], list[ThreadJob[C, object]]]:
        """Return the next jobs, or if there are none the jobs of `close`.

        If both are empty, the thread waits until the next job wakes it.
        """
        with self._lock:
            jobs = self._jobs[: self._most]
            del self._jobs[: self._most]
            closing = [] if jobs else self._closing[:]
            del self._closing[: len(closing)]
            self._state = WriterState.BUSY if jobs or closing else WriterState.IDLE
        return jobs, closing

    def _serve(self, jobs: Sequence[ThreadJob[C, object]]) -> None:
        """Have the handler run *jobs*; an exception of its own is stored in each."""
        try:
            self._handler.serve(jobs)
        except Exception as error:  # noqa: BLE001 - raised in the tasks that wait for these jobs, which must be woken
            for job in jobs:
                job.error = error

    def _rest(self) -> None:
        """Call `JobHandler.rest` for postponed work; log an exception, so that the thread goes on."""
        try:
            self._handler.rest()
        except Exception as error:  # noqa: BLE001 - no task waits for this work, and the next jobs need the thread
            log.error("the %s failed in work that it had postponed: %s", self._name, described(error))

    def _answer(self, jobs: list[ThreadJob[C, object]], *, are_awaited: bool) -> None:
        """Wake the tasks that wait for *jobs*, which is emptied; those of one Trio run are woken by one callback.

        With *are_awaited*, that callback wakes the thread after the tasks have run.
        """
        tokens = {job.token for job in jobs}
        by_run = {
            token: [job.task if job.on_done is None else job for job in jobs if job.token is token] for token in tokens
        }
        jobs.clear()  # so a job is freed with its task, and the garbage collector meets fewer objects
        for token, waiting in by_run.items():
            try:
                token.run_sync_soon(self._wake, token, waiting, are_awaited)
            except trio.RunFinishedError:  # the Trio run has ended, and with it the tasks that waited
                self._go_on()

    def _close(self, closing: list[ThreadJob[C, object]]) -> bool:
        """Close the connection; return whether the thread ends, which it does if no new jobs have arrived."""
        try:
            self._handler.close()
        except Exception as error:  # noqa: BLE001 - raised in the tasks that wait in `close`, which must be woken
            for job in closing:
                job.error = error
        with self._lock:
            is_idle = not self._jobs and not self._closing
            self._alive = not is_idle
        self._answer(closing, are_awaited=False)
        return is_idle
