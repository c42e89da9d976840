"""`followed`: asks a session, and hands each event to a function of the caller, in the thread of the caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, TypeVar

import trio

from agentrail.bridge.streams import WINDOW, BoundedStream, StreamEndError
from agentrail.bridge.trio_thread import TrioThread
from agentrail.bridge.waiters import TaskWaiter, ThreadWaiter
from agentrail.runtime.events.subscription import Subscription
from agentrail.runtime.handle import SessionHandle
from agentrail.values.events.envelope import Envelope

R = TypeVar("R")


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
