"""How events and other items that come on Trio are read outside: by a reader, or by a function that gets each.

`AsyncBody`, `HeldOpen`: context managers of Trio that a task of asyncio holds open: in a thread of their own, or in one
that runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, Generic, TypeVar, cast

import trio

from agentrail.api.command_checks import counted
from agentrail.app.supervisor import SEVERAL
from agentrail.bridge.streams import WINDOW, BoundedStream, StreamEndError
from agentrail.bridge.trio_thread import BridgeCall, TrioThread
from agentrail.bridge.waiters import LoopWaiter, TaskWaiter, ThreadWaiter
from agentrail.errors import AlreadyLeft, AlreadyRead, BridgeClosed, JournalUnavailable, NotEntered
from agentrail.reprs import in_brackets
from agentrail.runtime.access.status import Monitor
from agentrail.runtime.access.turn_stream import TurnStream
from agentrail.runtime.events.subscription import Subscription
from agentrail.runtime.handle import SessionHandle
from agentrail.values.events.envelope import Cursor, Envelope, Event

T = TypeVar("T")
R = TypeVar("R")


class BridgeReader(Generic[T]):
    """The items of *source*, which is entered on Trio; at most *window* of them are on their way."""

    __slots__ = ("_barred", "_call", "_control", "_has_begun", "_source", "_stream", "_thread", "_window")

    def __init__(
        self, thread: TrioThread[object], source: AbstractAsyncContextManager[AsyncIterator[T]], window: int
    ) -> None:
        self._thread = thread
        self._source = source
        """What is read."""
        self._window = window
        """The most items that are on their way."""
        self._stream: BoundedStream[T]
        """The items on their way."""
        self._call: BridgeCall[None]
        """The Trio task that sends the items."""
        self._control: LoopWaiter | ThreadWaiter
        """Wakes who enters or leaves."""
        self._has_begun = False
        """Whether the source has been entered."""
        self._barred: type[NotEntered | AlreadyLeft | AlreadyRead] | None = NotEntered
        """Why no item can be taken now: nobody has entered it, it was left, or a task waits for one; else `None`."""

    @in_brackets
    def __repr__(self) -> str:
        return "left" if self._barred is AlreadyLeft else "not entered" if not self._is_entered else repr(self._stream)

    @property
    def _is_entered(self) -> bool:
        """Whether it is entered, or was."""
        return self._barred is not NotEntered

    async def _pump(self) -> None:
        """Body of the Trio task: enter the source, and send its items until it ends or nobody reads any more."""
        stream = self._stream
        try:
            async with self._source as items:
                self._note_begin()
                async for item in items:
                    room = await stream.room()
                    stream.put((item, *self._more(room - 1)))
        except StreamEndError:
            pass
        except Exception as error:
            if not self._has_begun:
                raise
            stream.end(error)
        finally:
            stream.end()

    def _more(self, most: int) -> Sequence[T]:  # noqa: ARG002 - for those who can take more than one at once
        """Take up to *most* items that are there behind the one just taken; runs on Trio."""
        return ()

    def _note_begin(self) -> None:
        """Tell who enters that the source has been entered; runs on Trio."""
        self._has_begun = True
        self._control.notify()

    def _begin(self, control: LoopWaiter | ThreadWaiter, receiver: LoopWaiter | ThreadWaiter) -> None:
        """Start the Trio task."""
        self._control = control
        self._stream = BoundedStream(self._window, TaskWaiter(self._thread.post), receiver)
        self._call = self._thread.begin(self._pump, control)
        if self._barred is NotEntered:
            self._barred = None

    def _has_started(self) -> bool:
        """Whether the source has been entered, or could not be."""
        return self._has_begun or self._call.has_ended

    def _end(self) -> None:
        """Have the Trio task end."""
        was_entered, self._barred = self._is_entered, AlreadyLeft
        if was_entered:
            self._stream.leave()
            self._thread.cancel(self._call)

    def _note_wait(self) -> BoundedStream[T]:
        """Note that a task is about to wait for an item, and return the stream; raise an error if it cannot be read."""
        if self._barred is not None:
            raise self._barred
        self._barred = AlreadyRead
        return self._stream

    def _note_taken(self) -> None:
        """Note that the task does not wait any more."""
        if self._barred is AlreadyRead:
            self._barred = None

    @property
    def waiting(self) -> int:
        """Number of items that wait to be taken, and are no longer on Trio."""
        return self._stream.waiting if self._barred in {None, AlreadyRead} else 0

    def next_now(self) -> T | None:
        """Return the next item without waiting; `None` if none is there."""
        return self._stream.receive_now() if self._barred is None else None

    # In a task of an asyncio loop

    async def enter(self) -> None:
        """Enter the source."""
        outbox = self._thread.outbox()
        control = LoopWaiter(outbox)
        self._begin(control, LoopWaiter(outbox))
        cancellation = await control.until(self._has_started, partial(self._thread.cancel, self._call))
        if cancellation is not None:
            self._end()
            await control.until(self._call.is_over, _nothing)
            raise cancellation
        if not self._has_begun:
            self._call.answer()

    async def leave(self) -> None:
        """Leave the source, and return when it has been left on Trio."""
        self._end()
        control = self._control
        if isinstance(control, LoopWaiter) and (cancellation := await control.until(self._call.is_over, _nothing)):
            raise cancellation

    async def next(self) -> T:
        """Return the next item; raise `StopAsyncIteration` after the last."""
        if self._barred is None and (item := self._stream.receive_now()) is not None:  # the usual case, without a call
            return item
        stream = self._note_wait()
        try:
            return await stream.receive()
        except StreamEndError:
            raise StopAsyncIteration from None
        finally:
            self._note_taken()

    # In a thread that may block

    def enter_blocking(self) -> None:
        """Do as `enter`, in a thread that may block."""
        self._thread.refuse_deadlock()
        control = ThreadWaiter()
        self._begin(control, ThreadWaiter())
        interrupt = control.until(self._has_started, partial(self._thread.cancel, self._call))
        if interrupt is not None:
            self._end()
            control.until(self._call.is_over, _nothing)
            raise interrupt
        if not self._has_begun:
            self._call.answer()

    def leave_blocking(self) -> None:
        """Do as `leave`, in a thread that may block."""
        self._end()
        control = self._control
        if isinstance(control, ThreadWaiter) and (interrupt := control.until(self._call.is_over, _nothing)):
            raise interrupt

    def next_blocking(self) -> T:
        """Return the next item; raise `StopIteration` after the last."""
        self._thread.refuse_deadlock()
        stream = self._note_wait()
        try:
            return stream.receive_blocking()
        except StreamEndError:
            raise StopIteration from None
        finally:
            self._note_taken()


class BridgeEventReader(BridgeReader[Envelope]):
    """Reads a subscription; knows the position of the one who reads here."""

    __slots__ = ("_start", "subscription")

    def __init__(self, thread: TrioThread[object], subscription: Subscription, window: int) -> None:
        super().__init__(thread, subscription, counted("window", window))
        self.subscription = subscription
        """What is read."""
        self._start = Cursor(0)
        """Position at the beginning."""

    def _note_begin(self) -> None:
        self._start = self.subscription.position
        super()._note_begin()

    def _more(self, most: int) -> Sequence[Envelope]:
        return self.subscription.take_now(most)

    @property
    def position(self) -> Cursor:
        """Position after the last event that was taken here; of a `Gap`, that is where it begins."""
        last = self._stream.last if self._is_entered else None
        return self._start if last is None else last.cursor

    @property
    def events_waiting(self) -> int:
        """Number of events that wait to be taken, here and on Trio."""
        return self.waiting + self.subscription.waiting


class BridgeTurnReader(BridgeReader[Event], Generic[R]):
    """Reads the events of one turn."""

    __slots__ = ("turn",)

    def __init__(self, thread: TrioThread[object], turn: TurnStream[R]) -> None:
        super().__init__(thread, turn, WINDOW)
        self.turn = turn
        """What is read."""

    def _more(self, most: int) -> Sequence[Event]:
        return self.turn.take_now(most)


def watched(
    thread: TrioThread[object], monitor: Monitor, tell: Callable[[JournalUnavailable], None]
) -> Callable[[], None]:
    """Have *monitor* call *tell*, in the loop of the caller; return a function that ends that."""
    outbox = thread.outbox()
    return watched_blocking(thread, monitor, lambda problem: outbox.put(partial(tell, problem)))


def watched_blocking(
    thread: TrioThread[object], monitor: Monitor, tell: Callable[[JournalUnavailable], None]
) -> Callable[[], None]:
    """Do as `watched`, but have *tell* called in the Trio thread."""
    ends: list[Callable[[], None]] = []
    thread.post(lambda: ends.append(monitor.when_stuck(tell)))

    def end() -> None:
        """Call *tell* no more."""
        thread.post(lambda: ends.pop()() if ends else None)

    return end


class _Turn(Generic[R]):
    """A turn on Trio: its events are sent while it runs, and all of them before its reply is returned."""

    def __init__(self, handle: SessionHandle, ask: Callable[[], Awaitable[R]], stream: BoundedStream[Envelope]) -> None:
        self._handle = handle
        self._ask = ask
        """Sends the prompt, and waits for what is returned."""
        self._stream = stream
        self._unsent: Envelope | None = None
        """The event that is being sent; `None` in between."""

    async def run(self) -> R:
        """Send the prompt, and return the reply or the answer."""
        try:
            async with self._handle.subscribe() as events:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._send_all, events)
                    reply = await self._ask()
                    nursery.cancel_scope.cancel()
                await self._send_rest(events)
                return reply
        finally:
            self._stream.end()

    async def _send_all(self, events: Subscription) -> None:
        """Send events until cancelled."""
        async for envelope in events:
            self._unsent = envelope
            await self._stream.send(envelope)
            self._unsent = None

    async def _send_rest(self, events: Subscription) -> None:
        """Send the events that the turn has left in the subscription."""
        envelope = self._unsent or events.next_now()
        while envelope is not None:
            await self._stream.send(envelope)
            envelope = events.next_now()


def followed(
    thread: TrioThread[object],
    handle: SessionHandle,
    ask: Callable[[], Awaitable[R]],
    on_event: Callable[[Envelope], None],
) -> R:
    """Call *ask* on Trio and *on_event* with each event of the turn; return what *ask* has returned.

    What *on_event* raises cancels the call, and is raised here.
    """
    waiter = ThreadWaiter()
    stream = BoundedStream[Envelope](WINDOW, TaskWaiter(thread.post), waiter)
    call = thread.begin(_Turn(handle, ask, stream).run, waiter)
    try:
        while True:
            on_event(stream.receive_blocking())
    except StreamEndError:
        pass
    except BaseException:
        stream.leave()
        thread.cancel(call)
        waiter.until(call.is_over, _nothing)
        raise
    waiter.until(call.is_over, partial(thread.cancel, call))
    return call.answer()


def _nothing() -> None:
    """No-op: the call is cancelled already."""


class AsyncBody(Generic[T]):
    """The body of an `async with`, as `asyncio.timeout` has one: cancelled if what is open in the thread fails."""

    def __init__(self, thread: TrioThread[T]) -> None:
        self.thread: Final = thread
        """The thread that is held open."""
        self._task: asyncio.Task[object] | None = None
        """The task in the body; `None` outside of it."""
        self._is_cancelled = False
        """Whether the task was cancelled because of a failure."""

    async def enter(self) -> T:
        """Open it, and watch for a failure from then on."""
        inside = await self.thread.open()
        self._task = cast("asyncio.Task[object] | None", asyncio.current_task())
        self.thread.on_failure = partial(self.thread.outbox().put, self._cancel)
        if self.thread.is_over:  # it has failed meanwhile
            self._cancel()
        return inside

    def _cancel(self) -> None:
        """Cancel the body. No-op if it was left, or is cancelled for this already."""
        if self._task is not None and not self._is_cancelled:
            self._is_cancelled = True
            self._task.cancel()

    async def leave(self, error: BaseException | None) -> None:
        """Leave it after a body that ended with *error*; raise the failure, with the error of the body beside it."""
        task, self._task = self._task, None
        self.thread.on_failure = None
        if self._is_cancelled and task is not None:
            task.uncancel()
        try:
            await self.thread.close()
        except asyncio.CancelledError:
            raise
        except BaseException as failure:
            if error is None or isinstance(error, asyncio.CancelledError):
                raise
            raise BaseExceptionGroup(SEVERAL, [error, failure]) from None


class HeldOpen(Generic[T]):
    """Enters *opening* on Trio, in a task of its own, and leaves it there; the end of the thread leaves it too."""

    def __init__(self, thread: TrioThread[object], opening: AbstractAsyncContextManager[T]) -> None:
        self._thread = thread
        self._opening = opening
        self._inside: T | None = None
        """What entering it gave."""
        self._is_open = False
        """Whether it has been entered."""
        self._leave_asked = trio.Event()
        """Set when it is to be left."""
        self._control: LoopWaiter
        """Wakes the task that enters or leaves."""
        self._call: BridgeCall[None]
        """The task that holds it open."""

    async def _hold(self) -> None:
        """Body of the task on Trio."""
        async with self._opening as self._inside:
            self._is_open = True
            self._control.notify()
            await self._leave_asked.wait()

    def _has_started(self) -> bool:
        return self._is_open or self._call.has_ended

    async def enter(self) -> T:
        """Enter it, and return what that gives."""
        self._control = LoopWaiter(self._thread.outbox())
        self._call = self._thread.begin(self._hold, self._control)
        cancel = partial(self._thread.cancel, self._call)
        cancellation = await self._control.until(self._has_started, cancel)
        if cancellation is not None:
            await self._control.until(self._call.is_over, cancel)
            raise cancellation
        if not self._is_open:
            self._call.answer()
        return cast("T", self._inside)

    async def leave(self, error: BaseException | None) -> None:
        """Leave it after a body that ended with *error*; raise what goes wrong, with *error* beside it."""
        self._thread.post(self._leave_asked.set)
        cancellation = await self._control.until(self._call.is_over, self._forget)
        try:
            self._call.answer()
        except BridgeClosed:  # the thread has ended before
            pass
        except asyncio.CancelledError:
            raise
        except BaseException as failure:
            if error is None or isinstance(error, asyncio.CancelledError):
                raise
            raise BaseExceptionGroup(SEVERAL, [error, failure]) from None
        if cancellation is not None:
            raise cancellation

    def _forget(self) -> None:
        """No-op: it is being left already."""
