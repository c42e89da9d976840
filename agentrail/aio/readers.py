"""What a handle on asyncio gives to read or to wait for: subscriptions, traces, monitors, turns.

`make docs` writes `agentrail.sync.blocking_readers` from it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from agentrail.bridge.bridge_reader import BridgeEventReader, BridgeReader, BridgeTurnReader, watched
from agentrail.bridge.streams import WINDOW
from agentrail.hints import AsyncOnly, TurnHints

if TYPE_CHECKING:
    from agentrail.api.session_values import SessionDown
    from agentrail.bridge.trio_thread import TrioThread
    from agentrail.errors import JournalUnavailable
    from agentrail.runtime.access.status import Monitor as TrioMonitor
    from agentrail.runtime.access.turn_stream import TurnStream as TrioTurnStream
    from agentrail.runtime.events.subscription import Subscription as TrioSubscription
    from agentrail.runtime.events.tracing import ActorTrace, TracedStep
    from agentrail.values.events.envelope import Cursor, Envelope, Event

R_co = TypeVar("R_co", covariant=True)


class Subscription(AsyncOnly):
    """One subscriber's view of a session: `async with` it, then `async for` over it."""

    __slots__ = ("_reader",)

    def __init__(self, thread: TrioThread[object], subscription: TrioSubscription, window: int) -> None:
        self._reader = BridgeEventReader(thread, subscription, window)
        """Reads the subscription on Trio."""

    def __repr__(self) -> str:
        return repr(self._reader)

    async def __aenter__(self) -> Self:
        """Start to receive events."""
        await self._reader.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to receive events."""
        await self._reader.leave()  # noqa: ASYNC102 - it takes no time, and ends before it is cancelled

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[object, object, Envelope]:
        return self._reader.next()

    def next_now(self) -> Envelope | None:
        """Return the next event without waiting, for a reader that handles many events at once.

        `None` may mean that no event is there yet, that no more come, or that some were lost: `async for` finds out
        which.
        """
        return self._reader.next_now()

    @property
    def waiting(self) -> int:
        """Number of live events that wait to be taken."""
        return self._reader.events_waiting

    @property
    def position(self) -> Cursor:
        """Position after the last event that the subscriber got."""
        return self._reader.position

    @property
    def merged(self) -> int:
        """How many deltas were merged with others."""
        return self._reader.subscription.merged

    @property
    def dropped(self) -> int:
        """How many events had no room."""
        return self._reader.subscription.dropped


class TurnStream(TurnHints, AsyncOnly, Generic[R_co]):
    """The events of one turn: `async with` it, which sends the prompt, then `async for` over it; then it has a `reply`.

    It ends with the turn, or when the turn waits for a person. If `ask` would raise an error, so does the `async for`,
    after the last event. Leaving it early stops listening, as leaving a subscription does; the turn goes on.
    """

    __slots__ = ("_reader",)

    def __init__(self, thread: TrioThread[object], turn: TrioTurnStream[R_co]) -> None:
        self._reader = BridgeTurnReader(thread, turn)
        """Reads the events on Trio."""

    def __repr__(self) -> str:
        return repr(self._reader.turn)

    async def __aenter__(self) -> Self:
        """Send the prompt, and start to receive events; raise why the prompt is refused."""
        await self._reader.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to receive events."""
        await self._reader.leave()  # noqa: ASYNC102 - it takes no time, and ends before it is cancelled

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[object, object, Event]:
        return self._reader.next()

    @property
    def reply(self) -> R_co:
        """What `ask` returns, once the last event was read; raise what `ask` raises, or `UsageError` before."""
        return self._reader.turn.reply


class Trace(AsyncOnly):
    """The steps of a session from now on: `async with` it, then `async for` over it."""

    __slots__ = ("_reader",)

    def __init__(self, thread: TrioThread[object], trace: ActorTrace) -> None:
        self._reader = BridgeReader(thread, trace, WINDOW)
        """Reads the trace on Trio."""

    def __repr__(self) -> str:
        return repr(self._reader)

    async def __aenter__(self) -> Self:
        """Start to receive steps."""
        await self._reader.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to receive steps."""
        await self._reader.leave()  # noqa: ASYNC102 - it takes no time, and ends before it is cancelled

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Coroutine[object, object, TracedStep]:
        return self._reader.next()


class Monitor:
    """Waits for the end of a session: `wait` returns when it is gone for good, at once if it is already.

    Who must not wait for the journal meanwhile is told by `when_stuck` that it cannot write.
    """

    __slots__ = ("_monitor", "_thread")

    def __init__(self, thread: TrioThread[object], monitor: TrioMonitor) -> None:
        self._thread = thread
        """The thread in which the session runs."""
        self._monitor = monitor
        """What is mirrored."""

    def __repr__(self) -> str:
        return repr(self._monitor)

    async def __aenter__(self) -> Self:
        """Begin to watch."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Watch no more."""

    def when_stuck(self, tell: Callable[[JournalUnavailable], None]) -> Callable[[], None]:
        """Call *tell* after each failed attempt to write a record of the session; return a function that ends that.

        The record is written when the journal can, so the caller of its command waits until then.
        """
        return watched(self._thread, self._monitor, tell)

    async def wait(self) -> SessionDown:
        """Return when the session is gone for good."""
        return await self._thread.call(self._monitor.wait)
