"""How a thread wakes another one: callers that wait on asyncio, on Trio or blocking, and a share of the lock for each.

A waiter only wakes. What has happened is read off the object that the caller waits for, so that nothing is lost if a
cancellation and an answer cross.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

import trio

PATIENCE: Final = 0.001
"""Seconds after which loops are woken although Trio still works."""


class Batching(trio.abc.Instrument):
    """Instrument of the Trio run: wakes loops when Trio has nothing more to do, or after a moment.

    To wake a loop hands the interpreter's lock over: a flood of events, each of which did so, took twice the time.
    """

    def __init__(self) -> None:
        self._thread: int | None = None
        """Ident of the Trio thread, while the run lasts; `None` if loops are woken at once."""
        self._waiting: list[Callable[[], None]] = []
        """Functions that wake the loops which have to be woken."""
        self._since = 0.0
        """When the first of them had something to deliver."""

    def begin(self) -> None:
        """Gather from now on; called in the Trio thread."""
        self._thread = threading.get_ident()

    def end(self) -> None:
        """Wake all, and from now on each at once: there may be no further pass."""
        self._thread = None
        self._wake()

    def takes(self, wake: Callable[[], None]) -> bool:
        """Note that a loop is to be woken by *wake*; return `False` if the caller has to wake it."""
        if threading.get_ident() != self._thread:
            return False
        if not self._waiting:
            self._since = time.perf_counter()
        self._waiting.append(wake)
        return True

    def before_io_wait(self, timeout: float) -> None:
        """Wake the loops if Trio is about to wait, or has worked for long; called by Trio after each pass."""
        if self._waiting and (timeout > 0 or time.perf_counter() - self._since > PATIENCE):
            self._wake()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()


Action: TypeAlias = Callable[[], None]
"""A function that runs in the thread of a loop; it takes no time and never raises."""

Post: TypeAlias = Callable[[Action], bool]
"""Has an action run in the Trio thread; returns whether it will, as that may have ended."""

KERNEL: Final = "ipykernel"
"""The module of a notebook's kernel. The loop of its cells hears an interrupt when it wakes next, whatever wakes it."""

PULSE: Final = 0.1
"""Seconds after which a thread that blocks, or the loop of a notebook's kernel, is woken to hear an interrupt."""


class LoopOutbox:
    """Actions on their way to an asyncio loop: one wake-up of the loop for all that have gathered."""

    __slots__ = ("_actions", "_batching", "_is_scheduled", "_lost", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, lost: Action, batching: Batching | None = None) -> None:
        self._batching = batching
        """Wakes the loop later, for more than one action; `None` if it is woken at once."""
        self.loop: Final = loop
        """The loop in which the actions run."""
        self._actions: deque[Action] = deque()
        self._is_scheduled = False
        """Whether the loop is going to run the actions."""
        self._lost = lost
        """Called each time that an action cannot be delivered, because the loop is closed."""

    def put(self, action: Action) -> None:
        """Have *action* run in the loop. May be called from any thread."""
        self._actions.append(action)
        # Read after the action is there: if the loop has yet to clear the flag, it takes the action too.
        if self._is_scheduled:
            return
        self._is_scheduled = True
        if self._batching is None or not self._batching.takes(self._wake):
            self._wake()

    def _wake(self) -> None:
        """Wake the loop, which runs the actions then."""
        try:
            self.loop.call_soon_threadsafe(self._deliver)
        except RuntimeError:  # the loop is closed
            self._is_scheduled = False
            self._lost()

    def _deliver(self) -> None:
        """Run the actions; called by the loop."""
        self._is_scheduled = False
        while self._actions:
            self._actions.popleft()()


class LoopOutboxes:
    """The outboxes of the loops that call."""

    __slots__ = ("_by_loop", "batching")

    def __init__(self) -> None:
        self.batching: Final = Batching()
        """Wakes the loops; it is an instrument of the Trio run."""
        self._by_loop: dict[int, LoopOutbox] = {}
        """The outbox of each loop, by the identity of the loop."""

    def of(self, loop: asyncio.AbstractEventLoop) -> LoopOutbox:
        """Return the outbox of *loop*; what is put there after the end of the loop is lost."""
        outbox = self._by_loop.get(id(loop))  # it keeps its loop alive, so no other loop has that identity
        return outbox if outbox is not None else self.add(loop, _nothing)

    def add(self, loop: asyncio.AbstractEventLoop, lost: Action) -> LoopOutbox:
        """Return a new outbox of *loop*, which calls *lost* when the loop is found closed."""
        outbox = LoopOutbox(loop, lost, self.batching)
        still_open = {key: other for key, other in list(self._by_loop.items()) if not other.loop.is_closed()}
        self._by_loop = {**still_open, id(loop): outbox}
        return outbox


def _nothing() -> None:
    """No-op: who waited in that loop is gone with it."""


class LoopWaiter:
    """Wakes a task of an asyncio loop."""

    __slots__ = ("_future", "_outbox")

    def __init__(self, outbox: LoopOutbox) -> None:
        self._outbox = outbox
        self._future: asyncio.Future[None] | None = None
        """What the task waits for now; `None` if it does not wait."""

    def notify(self) -> None:
        """Wake the task if it waits."""
        self._outbox.put(self._wake)

    def _wake(self) -> None:
        """Wake the task; runs in its loop."""
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self) -> None:
        """Wait for the next `notify`; the caller has just seen that there is nothing yet."""
        loop = self._outbox.loop
        self._future = loop.create_future()
        pulse = loop.call_later(PULSE, self._beat) if KERNEL in sys.modules else None
        try:
            await self._future
        finally:
            self._future = None
            if pulse is not None:
                pulse.cancel()

    def _beat(self) -> None:
        """Be called again later: the loop wakes for it, and so hears an interrupt of the kernel, also a later one."""
        if self._future is not None:
            self._outbox.loop.call_later(PULSE, self._beat)

    async def until(self, is_over: Callable[[], bool], cancel: Action) -> asyncio.CancelledError | None:
        """Wait until *is_over*; a cancellation calls *cancel*, and the wait goes on. Return the first cancellation.

        The caller raises it. It is not raised here, because what runs on Trio has to end first, however often the task
        is cancelled meanwhile.
        """
        cancellation: asyncio.CancelledError | None = None
        while not is_over():
            try:
                await self.wait()
            except asyncio.CancelledError as error:  # noqa: ASYNC103 - the caller raises it
                if cancellation is None:
                    cancellation = error
                    cancel()
            except GeneratorExit:  # the loop ends without the task
                cancel()
                raise
        return cancellation


class ThreadWaiter:
    """Wakes a thread that is blocked."""

    __slots__ = ("_wakings",)

    def __init__(self) -> None:
        # Written in C, so an interrupt leaves it whole.
        self._wakings: SimpleQueue[None] = SimpleQueue()

    def notify(self) -> None:
        """Wake the thread, now or when it waits next."""
        self._wakings.put(None)

    def wait(self) -> None:
        """Block until the next `notify`, or for a moment: the caller looks whether it is over."""
        # A signal that comes just before a thread blocks is heard when it wakes, and on Windows so is any other:
        # tests/bridge/test_sync.py::test_an_interrupt_ends_a_blocking_call_and_cancels_it_on_trio
        with suppress(Empty):
            self._wakings.get(timeout=PULSE)

    def until(self, is_over: Callable[[], bool], cancel: Action) -> BaseException | None:
        """Block until *is_over*; an interrupt (Ctrl-C) calls *cancel*, and the wait goes on. Return the first one."""
        interrupt: BaseException | None = None
        while not is_over():
            try:
                self.wait()
            except BaseException as error:  # noqa: BLE001, ASYNC103 - the caller raises it
                if interrupt is None:
                    interrupt = error
                    cancel()
        return interrupt


class TaskWaiter:
    """Wakes a Trio task."""

    __slots__ = ("_post", "_task")

    def __init__(self, post: Post) -> None:
        self._post = post
        """Has an action run in the Trio thread."""
        self._task: trio.lowlevel.Task | None = None
        """The task, while it waits."""

    def notify(self) -> None:
        """Wake the task if it waits."""
        self._post(self._wake)

    def _wake(self) -> None:
        """Wake the task; runs in the Trio thread."""
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    async def wait(self) -> None:
        """Wait for the next `notify`; the caller has just seen that there is nothing yet."""
        self._task = trio.lowlevel.current_task()
        await trio.lowlevel.wait_task_rescheduled(self._leave)

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        """Forget the waiting task: called by Trio when it is cancelled."""
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


AnyWaiter: TypeAlias = LoopWaiter | ThreadWaiter | TaskWaiter
"""Wakes one caller, from any thread, by `notify`; the caller then looks at what it waits for."""


MOMENT: Final = 50e-6
"""Seconds of a sleep, in which the other thread takes the lock."""

TRIO_BUSY: Final = 0.002
"""Seconds that Trio may work without a pause."""

LOOP_BUSY: Final = 0.005
"""Seconds between two sleeps of the loop, while there is work on Trio."""

LEASE: Final = 0.05
"""Seconds that the loop goes on to share after the last work on Trio."""


class LockSharing(trio.abc.Instrument):
    """Instrument of the Trio run: pauses Trio, and has the loop of the program pause while there is work on Trio.

    A thread that always has work gives the interpreter's lock up for microseconds at a time, and the other one wakes
    too late, for ever: with Trio saturated, a loop stood still for up to 1.9 s. Each of them sleeps for a moment now
    and then, which hands the lock over. `sys.setswitchinterval` is the program's own, and did less.
    """

    def __init__(self, outbox: LoopOutbox | None) -> None:
        self._outbox = outbox
        """The way into the loop of the program; `None` if it has none."""
        self._worked_since = time.perf_counter()
        """When Trio paused last."""
        self._waits_since = 0.0
        """When Trio began to wait for the world."""
        self._told_at = 0.0
        """When the loop was told last that there is work on Trio."""
        self._shares_until = 0.0
        """Until when the loop shares the lock; set and read in the loop alone."""
        self._is_sharing = False
        """Whether the loop is going to pause; set and read in the loop alone."""

    def before_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - Trio's signature
        """Pause if Trio has worked for long; called by Trio after each pass."""
        now = time.perf_counter()
        if now - self._worked_since > TRIO_BUSY:
            time.sleep(MOMENT)  # noqa: ASYNC251 - it is to block the thread
            now = self._worked_since = time.perf_counter()
        self._waits_since = now
        if self._outbox is not None and now - self._told_at > LEASE / 2:
            self._told_at = now
            self._outbox.put(self._share)

    def after_io_wait(self, timeout: float) -> None:  # noqa: ARG002 - Trio's signature
        """Note a pause; called by Trio."""
        now = time.perf_counter()
        if now - self._waits_since > MOMENT:
            self._worked_since = now

    def _share(self) -> None:
        """Begin to pause now and then, or go on with it; runs in the loop."""
        self._shares_until = time.perf_counter() + LEASE
        if not self._is_sharing and self._outbox is not None:
            self._is_sharing = True
            self._outbox.loop.call_later(LOOP_BUSY, self._pause)

    def _pause(self) -> None:
        """Pause, and do so again later unless there is no work on Trio any more; runs in the loop."""
        self._is_sharing = time.perf_counter() < self._shares_until
        if self._is_sharing and self._outbox is not None:
            time.sleep(MOMENT)
            self._outbox.loop.call_later(LOOP_BUSY, self._pause)
