"""`TrioThread`: a thread that runs Trio, in which one thing is open, such as a supervisor, and calls from outside run.

What is posted from outside goes through one inbox: Trio is woken once for all that has gathered there.

`BridgeCall`: one such call. Its answer is kept in the call, and the caller is only woken: a future that carries the
answer would lose it when a cancellation and the answer cross.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Final, Generic, TypeVar, cast

import trio

from agentrail.app.shutdown_time import last_of
from agentrail.bridge.host_loop import HostLoop
from agentrail.bridge.marked import Placement
from agentrail.bridge.waiters import Action, AnyWaiter, LockSharing, LoopOutbox, LoopOutboxes, LoopWaiter, ThreadWaiter
from agentrail.errors import BridgeClosed, BridgeForked, SupervisorStuck, UsageError, WrongType
from agentrail.nurseries import open_shielded_nursery
from agentrail.reprs import in_brackets
from agentrail.runtime.shared.task_pool import TaskPool, Work
from agentrail.runtime.shared.turn_waits import FROM_OUTSIDE
from agentrail.runtime.shared.untrusted_calls import split

T = TypeVar("T")
R = TypeVar("R")

log = logging.getLogger("agentrail.bridge")

NAME: Final = "agentrail"
"""Name of the thread."""

LOOKS: Final = 100
"""How often something is read again that changes while it is read."""

CHANGED: Final = "during iteration"
"""What Python says of a dictionary, set or deque to which another thread has added something."""

ON_TRIO: Final = "run what calls it in a thread: a tool that is a plain `def` has one"
ON_THE_LOOP: Final = "call it by `asyncio.to_thread`, or make the tool a plain `def`"

LOOP_WANTED: Final = "a running asyncio loop; on Trio, open the supervisor by `agentrail.open_supervisor`"


class TrioThread(Generic[T]):
    """A thread that runs Trio with something open in it. Calls may come from any loop and any thread."""

    def __init__(self, opening: AbstractAsyncContextManager[T], stop_within: float | None) -> None:
        self._opening = opening
        """Entered on Trio at the start, and left at the end."""
        self._patience = None if stop_within is None else stop_within - last_of(stop_within)
        """Seconds after which marked code that ignores its end is left behind; `None` if it is waited for."""
        self._inside: T | None = None
        """What entering it gave; `None` before."""
        self._thread = threading.Thread(target=copy_context().run, args=(self._run,), name=NAME, daemon=True)
        self._process = os.getpid()
        """The process in which the thread runs; a fork of it has no such thread."""
        self._inbox: deque[Action] = deque()
        """What was posted and has not run yet."""
        self._token: trio.lowlevel.TrioToken | None = None
        """Wakes Trio; `None` before it runs."""
        self._calls: TaskPool | None = None
        """Tasks of calls; `None` before it is open, and once it is being left."""
        self._live: set[BridgeCall[object]] = set()
        """The calls that have begun and not ended."""
        self._body = trio.CancelScope()
        """Cancelled if it is to be left before it is open."""
        self._leave_asked = trio.Event()
        """Set when it is to be left."""
        self._is_leaving = False
        """Whether the program wants it to be left; otherwise an end is a failure."""
        self.is_over = False
        """Whether nothing is open any more."""
        self._is_joinable = True
        """Whether the thread ends now, and not some time later, because of a task that ignores its end."""
        self._error: BaseException | None = None
        """What opening, running or leaving it raised, until somebody has got it."""
        self._watchers: list[AnyWaiter] = []
        """Who waits for the start or the end."""
        self._outboxes = LoopOutboxes()
        """The outboxes of the loops of callers."""
        self._home: LoopOutbox | None = None
        """The outbox of the loop that opened it; `None` if none did."""
        self.host: HostLoop | None = None
        """The loop in which marked code runs; `None` if there is none."""
        self.on_failure: Action | None = None
        """Called in the Trio thread if it ends while nobody wants it to be left."""

    @in_brackets
    def __repr__(self) -> str:
        return "over" if self.is_over else "leaving" if self._is_leaving else "open" if self.is_open else "opening"

    @property
    def is_open(self) -> bool:
        """Whether calls are taken."""
        return self._calls is not None

    # In the Trio thread

    def _run(self) -> None:
        """Body of the thread."""
        error: BaseException | None = None
        try:
            trio.run(self._main, instruments=[self._outboxes.batching, LockSharing(self._home)])
        except BaseException as raised:  # noqa: BLE001, ASYNC103 - whoever leaves it gets the error
            error = raised
        self._end(error)

    async def _main(self) -> None:
        """Open it, take calls until it is to be left, and leave it."""
        self._token = trio.lowlevel.current_trio_token()
        self._outboxes.batching.begin()
        self._drain()
        if self.host is not None:
            self.host.install()
            Placement().install()
        try:
            with self._body:
                async with self._opening as inside, open_shielded_nursery() as nursery:
                    self._inside, self._calls = inside, TaskPool(nursery)
                    self._tell()
                    try:
                        await self._leave_asked.wait()
                    finally:
                        self._calls = None
                        if self.host is not None and self._patience is not None:
                            trio.lowlevel.spawn_system_task(self.host.give_up, self._patience)
        except BaseException as error:
            if is_stuck(error):  # the run waits for tasks that ignore their end, and nobody waits for the run
                self._is_joinable = False
                self._end(error)
            raise

    def _drain(self) -> None:
        """Run what was posted."""
        while self._inbox:
            self._inbox.popleft()()

    def _tell(self) -> None:
        """Wake those who wait for the start or the end."""
        # None is removed: one that is added meanwhile would not hear of the end, and only looks once more.
        for watcher in tuple(self._watchers):
            watcher.notify()

    def _end(self, error: BaseException | None) -> None:
        """Note that nothing is open any more, and answer all who still wait. No-op after the first time."""
        if self.is_over:
            return
        self._outboxes.batching.end()
        self._error = error
        self.is_over = True
        self._drain()
        for call in tuple(self._live):  # none, unless Trio itself has broken
            call.over()
        self._tell()
        if not self._is_leaving and self.on_failure is not None:
            self.on_failure()

    def _begin(self, call: BridgeCall[object]) -> None:
        """Start the task of *call*, or refuse it."""
        self._live.add(call)
        call.start(self._calls, self._live.discard)

    def _leave(self) -> None:
        """Begin to leave what is open, or is being opened."""
        self._leave_asked.set()
        if self._inside is None:  # it is being opened; what is being left takes its own time
            self._body.cancel()

    def _lose_loop(self) -> None:
        """End all: the loop that opened it is closed, so nobody is going to leave it."""
        if not self._is_leaving:
            log.error("loop-gone: %s", UsageError("loop-gone"))
            self.leave_soon()
        if self.host is not None:
            self.host.lose()

    # From any thread

    def look(self, look_up: Callable[[], R]) -> R:
        """Return what *look_up* returns of what is open, without a hop: once more if something was added meanwhile.

        What sessions show is in values that never change, but they are looked up in dictionaries that do.
        """
        for _ in range(LOOKS):
            try:
                return look_up()
            except RuntimeError as error:
                if CHANGED not in str(error):
                    raise
        return look_up()

    def post(self, action: Action) -> bool:
        """Have *action* run in the Trio thread; return whether it will, as that may have ended."""
        if self.is_over or os.getpid() != self._process:
            return False
        self._inbox.append(action)
        token = (
            self._token
        )  # read after the action is there: if it is not set yet, the start of the run takes the action
        if token is not None:
            try:
                token.run_sync_soon(self._drain, idempotent=True)
            except trio.RunFinishedError:
                return False
        return True

    def check_process(self) -> None:
        """Raise `BridgeForked` in a process that was forked from that of the thread."""
        if os.getpid() != self._process:
            raise BridgeForked(self._process, os.getpid())

    def check(self) -> None:
        """Raise `BridgeForked` in another process, and `BridgeClosed` if no calls are taken any more."""
        self.check_process()
        if self._calls is None:
            raise BridgeClosed

    def begin(self, work: Callable[[], Awaitable[R]], waiter: AnyWaiter) -> BridgeCall[R]:
        """Start *work* on Trio as a call, which wakes *waiter* when it ends."""
        self.check()
        call = BridgeCall(work, copy_context(), waiter)
        if not self.post(partial(self._begin, cast("BridgeCall[object]", call))):
            raise BridgeClosed
        return call

    def cancel(self, call: BridgeCall[R]) -> None:
        """Cancel *call*; its waiter is woken when it has ended."""
        self.post(call.cancel)

    def leave_soon(self) -> None:
        """Begin to leave what is open, without waiting for the end."""
        self._is_leaving = True
        self.post(self._leave)

    # From a task of an asyncio loop

    def outbox(self) -> LoopOutbox:
        """Return the outbox of the running loop; raise `WrongType` if no asyncio loop runs here."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            where = "a run of Trio" if trio.lowlevel.in_trio_run() else "a thread without one"
            raise WrongType("loop", where, LOOP_WANTED) from None
        return self._outboxes.of(loop)

    async def open(self) -> T:
        """Start the thread, and return what is open in it."""
        outbox = self._home = self._outboxes.add(self.outbox().loop, self._lose_loop)
        if self.host is None:
            self.host = HostLoop(outbox, self.post, self.call)
        waiter = LoopWaiter(outbox)
        self._start(waiter)
        cancellation = await waiter.until(self._has_started, self.leave_soon)
        if cancellation is None:
            return self._started()
        await self._close(waiter)
        raise cancellation

    async def close(self) -> None:
        """Leave what is open, and wait for the end; raise what went wrong. No-op if it has been left."""
        self.check_process()
        waiter = LoopWaiter(self.outbox())
        cancellation = await self._close(waiter)
        self._raise_error()
        if cancellation is not None:
            raise cancellation

    async def _close(self, waiter: LoopWaiter) -> asyncio.CancelledError | None:
        self._watchers.append(waiter)
        self.leave_soon()
        cancellation = await waiter.until(self._has_ended, _forget)
        self._join()
        return cancellation

    async def call(self, work: Callable[[], Awaitable[R]], undo: Callable[[R], Awaitable[None]] | None = None) -> R:
        """Run *work* on Trio and return its result; cancelling the caller cancels it, and waits for its end.

        If the caller is cancelled when *work* has returned something that nobody gets, *undo* is called with it.
        """
        waiter = LoopWaiter(self.outbox())
        call = self.begin(work, waiter)
        cancellation = await waiter.until(call.is_over, partial(self.cancel, call))
        if cancellation is None:
            return call.answer()
        if undo is not None and call.has_value:
            with suppress(BridgeClosed):  # then all is undone anyway
                undoing = self.begin(partial(undo, cast("R", call.value)), waiter)
                await waiter.until(undoing.is_over, _forget)
        try:
            raise cancellation
        finally:
            del cancellation  # breaks a reference cycle: its traceback holds this frame

    # From a thread that may block

    def open_blocking(self) -> T:
        """Do as `open`, in a thread that may block."""
        waiter = ThreadWaiter()
        self._start(waiter)
        interrupt = waiter.until(self._has_started, self.leave_soon)
        if interrupt is None:
            return self._started()
        self._close_blocking(waiter)
        raise interrupt

    def close_blocking(self) -> None:
        """Do as `close`, in a thread that may block."""
        self.check_process()
        self.refuse_deadlock()
        interrupt = self._close_blocking(ThreadWaiter())
        self._raise_error()
        if interrupt is not None:
            raise interrupt

    def close_at_exit(self) -> None:
        """Do as `close_blocking` at the end of the process. No-op in one that was forked: nothing is open there."""
        with suppress(BridgeForked):
            self.close_blocking()

    def _close_blocking(self, waiter: ThreadWaiter) -> BaseException | None:
        self._watchers.append(waiter)
        self.leave_soon()
        interrupt = waiter.until(self._has_ended, _forget)
        self._join()
        return interrupt

    def call_blocking(self, work: Callable[[], Awaitable[R]], undo: Callable[[R], Awaitable[None]] | None = None) -> R:
        """Do as `call`, in a thread that may block; an interrupt (Ctrl-C) cancels the work."""
        self.check()
        self.refuse_deadlock()
        waiter = ThreadWaiter()
        call = self.begin(work, waiter)
        interrupt = waiter.until(call.is_over, partial(self.cancel, call))
        if interrupt is None:
            return call.answer()
        if undo is not None and call.has_value:
            with suppress(BridgeClosed):  # as in `call`
                undoing = self.begin(partial(undo, cast("R", call.value)), waiter)
                waiter.until(undoing.is_over, _forget)
        try:
            raise interrupt
        finally:
            del interrupt  # breaks a reference cycle, as in `call`

    def refuse_deadlock(self) -> None:
        """Raise `UsageError` if called in the thread that has to answer."""
        if threading.current_thread() is self._thread:
            raise UsageError("would-deadlock", "the Trio thread of its supervisor", ON_TRIO)
        if self.host is not None and self.host.is_own_and_here:
            raise UsageError("would-deadlock", "the loop that runs the marked code of its supervisor", ON_THE_LOOP)

    # Start and end

    def _start(self, waiter: AnyWaiter) -> None:
        self._watchers.append(waiter)
        self._thread.start()

    def _has_started(self) -> bool:
        """Whether it is open, or could not be opened."""
        return self._calls is not None or self.is_over

    def _started(self) -> T:
        """Return what is open; raise why it could not be opened."""
        if self.is_over:
            self._join()
            self._raise_error()
        return cast("T", self._inside)

    def _has_ended(self) -> bool:
        return self.is_over

    def _join(self) -> None:
        """Wait for the end of the thread, which has nothing more to do, and of its loop."""
        if self._is_joinable:
            self._thread.join()
        if self.host is not None:
            self.host.close()

    def _raise_error(self) -> None:
        """Raise what opening, running or leaving it raised; each error once."""
        error, self._error = self._error, None
        if error is None:
            return
        try:
            raise error
        finally:
            del error  # breaks a reference cycle: its traceback holds this frame


def is_stuck(error: BaseException) -> bool:
    """Whether *error* says that tasks have been left behind."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_stuck, cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, SupervisorStuck)


def _forget() -> None:
    """No-op: nothing is to be done about it."""


class BridgeCall(Work, Generic[T]):
    """A call: the work to do on Trio, and its answer."""

    __slots__ = ("_context", "_forget", "_waiter", "_work", "error", "has_ended", "has_value", "value")

    def __init__(self, work: Callable[[], Awaitable[T]], context: Context, waiter: AnyWaiter) -> None:
        super().__init__()
        self._work: Callable[[], Awaitable[T]] | None = work
        """What runs in the Trio task; `None` once it has ended, as it may refer to the call."""
        self._context = context
        """The caller's context variables; the task has a copy."""
        self._waiter = waiter
        """Wakes the caller at the end."""
        self._forget: Callable[[BridgeCall[T]], None]
        """Called at the end."""
        self.has_ended = False
        """Whether nothing of the call runs on Trio any more. Set last, so the caller may then read the answer."""
        self.has_value = False
        """Whether the work has returned."""
        self.value: T | None = None
        """What the work returned."""
        self.error: BaseException | None = None
        """What the work raised."""

    @in_brackets
    def __repr__(self) -> str:
        return "returned" if self.has_value else type(self.error).__name__ if self.has_ended else "runs"

    def is_over(self) -> bool:
        """Whether nothing of the call runs on Trio any more."""
        return self.has_ended

    # In the Trio thread

    def start(self, tasks: TaskPool | None, forget: Callable[[BridgeCall[T]], None]) -> None:
        """Run the work in one of the *tasks*; refuse it if there are none any more. *forget* is called at the end."""
        self._forget = forget
        if tasks is None:
            self.over()
        else:
            self._context.run(tasks.start, self, self._run, FROM_OUTSIDE)

    async def _run(self) -> None:
        """Do the work, and keep what it returns or raises."""
        if self._work is None:
            return
        try:
            self.value = await self._work()
            self.has_value = True
        except BaseException as raised:  # noqa: BLE001, ASYNC103 - the caller gets it
            # A cancellation stays on Trio: if the caller did not ask for it, the supervisor is being left.
            passing, self.error = split(raised)
            if passing is not None:
                try:
                    raise passing from None  # noqa: ASYNC104 - it is what was caught, without the errors beside it
                finally:
                    del passing  # breaks a reference cycle: its traceback holds this frame

    def raised(self, error: BaseException) -> None:
        """Keep what the task raises because the work has left something open in it."""
        self.error = error

    def over(self) -> None:
        """Wake the caller: nothing of the call runs any more. One that was cut off by the end of all gets its error."""
        if self.has_ended:
            return
        self._forget(self)
        self._work = None
        if self.error is None and not self.has_value:
            self.error = BridgeClosed()
        self.has_ended = True
        self._waiter.notify()

    # In the thread of the caller

    def answer(self) -> T:
        """Return what the work returned, or raise what it raised; called once, after the end."""
        error, self.error = self.error, None
        if error is None:
            return cast("T", self.value)
        try:
            raise error
        finally:
            del error  # breaks a reference cycle: its traceback holds this frame
