"""A subscription over a `Line`: what the host sends is kept, within limits, until it is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Protocol, Self, TypeAlias

import trio

from agentrail.api.socket_frames import Listened
from agentrail.errors import AgentrailError, AlreadyLeft, AlreadyRead, NotEntered, SubscriberTooSlow
from agentrail.remote.transport.host_frames import BegunFrame, EventFrame, GapFrame, ViewFrame
from agentrail.reprs import in_brackets, listed, some
from agentrail.values.events.envelope import Cursor
from agentrail.values.events.policies import Policy

Told: TypeAlias = EventFrame | GapFrame | ViewFrame
"""What a subscription yields: an event, a mark that some are missing, or a view as it is now."""

MOST_KEPT: Final = 256 * 1024
"""The most characters that wait for the reader of one subscription; with more, its policy is applied."""


class SubscriptionSource(Protocol):
    """Interface: the line, as a subscription uses it."""

    def begin(self, listening: LineSubscription) -> None:
        """Have the host send what *listening* wants, from its cursor on; give it a new id."""
        ...

    def stop(self, listening: LineSubscription) -> None:
        """Have the host send nothing more to *listening*, and take its id from it."""
        ...


class LineSubscription:
    """A subscription to the events of a session, or to a view: `async with` it, then `async for` over it.

    It survives cuts: the line continues it after its cursor. If it is read too slowly, it is ended at the host, so that
    it holds up no other. With the policy `coalesce` the rest is asked for again, from its cursor, when what was kept is
    read; with `drop` it goes on with what is new then, after a `GapFrame`; with `disconnect` it ends with
    `SubscriberTooSlow`. Of a view only the newest is kept.
    """

    def __init__(
        self,
        source: SubscriptionSource,
        what: Listened,
        session: str | None,
        *,
        since: Cursor | None,
        types: Sequence[str] | None,
        policy: Policy,
    ) -> None:
        self._source = source
        self._what = what
        self._types = types
        self._sooner = trio.Event()
        self.faults = 0
        """Connections that the host has closed for a fault of its own since it last sent something for this."""
        self._policy: Policy = policy
        self._kept: deque[tuple[Told, int]] = deque()
        self._size = 0
        self._again_at = 0.0
        self._gap_end = Cursor(0)
        self._fell_behind = False
        self._refused_at: float | None = None
        self._is_over = False
        self._error: AgentrailError | None = None
        self._barred: type[NotEntered | AlreadyLeft | AlreadyRead] | None = NotEntered
        self._news = trio.Event()
        self.session = session
        """Id of the session; `None` for a view."""
        self.has_begun = False
        """Whether the host has begun to send."""
        self.id = ""
        """Id of it at the host; empty while the host sends nothing to it."""
        self.cursor = since
        """Place after the last event that has come; `None` before the first if none was given."""

    @in_brackets
    def __repr__(self) -> str:
        over = "ended" if self._is_over or self._error else "" if self.has_begun else "not begun"
        return listed(self.about, some(len(self._kept), "message waits", "messages wait"), over)

    @property
    def about(self) -> str:
        """What it is a subscription to."""
        return self._what if self.session is None else f"{self._what} of {self.session!r}"

    async def __aenter__(self) -> Self:
        """Begin to listen; return when the host has begun to send. Raise the error with which it refuses."""
        try:
            self._source.begin(self)
            while not self.has_begun and self._error is None:
                await self._more()
        except BaseException:
            self._source.stop(self)
            raise
        if self._error is not None and not self.has_begun:
            raise self._error
        self._barred = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to listen."""
        self._barred = AlreadyLeft
        self._source.stop(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Told:
        if self._barred is not None:
            raise self._barred
        self._barred = AlreadyRead
        try:
            while not self._kept:
                if self._error is not None:
                    raise self._error
                if self._is_over:
                    raise StopAsyncIteration
                if self._fell_behind and self._policy == "disconnect":
                    raise SubscriberTooSlow(*(self.cursor or Cursor(0)))
                await self._more()
        finally:
            if self._barred is AlreadyRead:
                self._barred = None
        frame, size = self._kept.popleft()
        self._size -= size
        return frame

    async def _more(self) -> None:
        """Wait until something has changed; have the host send again if it does not."""
        self._news = trio.Event()
        if not self.id:
            with trio.move_on_at(self._again_at):
                await self._sooner.wait()
            self._source.begin(self)
        await self._news.wait()

    # From the line

    @property
    def wish(self) -> dict[str, object]:
        """The message that has the host begin to send, from the cursor on."""
        skips = self._fell_behind and self._policy == "drop"
        wish: dict[str, object] = {"id": self.id, "listen": self._what}
        if self.session is not None:
            wish["session"] = self.session
        if self._what == "events":
            wish["policy"] = self._policy
        if self._types is not None:
            wish["types"] = list(self._types)
        if self.cursor is not None and not skips:
            wish["since"] = str(self.cursor)
        return wish

    def offer(self, frame: BegunFrame | Told, size: int) -> None:
        """Keep what the host has sent, a message of *size* characters."""
        self.has_begun, self._refused_at, self.faults = True, None, 0
        match frame:
            case BegunFrame(cursor=cursor):
                if self._fell_behind and self._policy == "drop" and self.cursor is not None and self.cursor < cursor:
                    self._keep(GapFrame(frame.id, self.cursor, cursor), size)
                    self.cursor = cursor
                self.cursor = cursor if self.cursor is None else self.cursor
                self._fell_behind = False
            case ViewFrame():
                self._kept.clear()
                self._size = 0
                self._keep(frame, size)
            case EventFrame(cursor=cursor):
                self.cursor = cursor
                self._keep(frame, size)
            case GapFrame(end=end) if end > self._gap_end:
                # The cursor stays: durable events of its range may follow, and would be lost by a cut before them.
                self._gap_end = end
                self._keep(frame, size)
            case GapFrame():  # told again after a cut
                pass
        self._news.set()

    def _keep(self, frame: Told, size: int) -> None:
        self._kept.append((frame, size))
        self._size += size
        if self._size > MOST_KEPT and not isinstance(frame, ViewFrame):
            self._fell_behind = True
            self._again_at = 0.0
            self._source.stop(self)

    def end(self) -> None:
        """It has come to its end at the host."""
        self._is_over = True
        self._news.set()

    def fail(self, error: AgentrailError) -> None:
        """It ends with *error*, after what was kept."""
        self._error = self._error or error
        self._news.set()

    def wait(self, seconds: float, sooner: trio.Event) -> None:
        """The host cannot begin now: ask it again after that many *seconds*, or when *sooner* is set."""
        now = trio.current_time()
        self._refused_at = now if self._refused_at is None else self._refused_at
        self._again_at, self._sooner = now + seconds, sooner
        self._news.set()

    @property
    def refused_for(self) -> float:
        """For how many seconds the host has not begun."""
        return 0.0 if self._refused_at is None else trio.current_time() - self._refused_at
