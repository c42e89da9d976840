"""`HostSubscription`: what a host sends is kept, within limits, until it is read; `Line`: calls to it, and these.

`read_host_frame`: reads the messages that a host sends over `WS /v1/ws`; `socket_frames` writes them. Fields and kinds
of messages that are not known are passed over: the host may be newer than the client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Protocol, Self, TypeAlias, cast

import msgspec
import trio

from agentrail.api.socket_frames import Listened
from agentrail.api.sse_frames import read_cursor
from agentrail.errors import AgentrailError, AlreadyLeft, AlreadyRead, BadText, NotEntered, SubscriberTooSlow
from agentrail.reprs import in_brackets, listed, some
from agentrail.values.events.envelope import Cursor
from agentrail.values.events.policies import SubscriptionPolicy
from agentrail.values.json import Json, JsonObject
from agentrail.values.value import Value, learned


class AnswerFrame(Value):
    """The answer to a call."""

    id: str
    """Id of the call."""
    body: Json
    """What the call gives; `None` if it gives nothing."""


class RefusalFrame(Value):
    """A call failed, a subscription ended by an error, or a message of the client could not be read."""

    id: str
    """Id of the call or subscription; empty if the host could not read it."""
    problem: JsonObject
    """The problem document."""


class BegunFrame(Value):
    """A subscription to events has begun."""

    id: str
    """Id of the subscription."""
    cursor: Cursor
    """The events after it follow."""


class EventFrame(Value):
    """An event of a session."""

    id: str
    """Id of the subscription."""
    cursor: Cursor
    """The place of the event, to continue from."""
    event: str
    """Name of its class."""
    data: Json
    """Its envelope, as JSON."""


class GapFrame(Value):
    """Ephemeral events, or with the policy `drop` any events, are missing here."""

    id: str
    """Id of the subscription."""
    start: Cursor
    """The last event before them."""
    end: Cursor
    """The last of them."""


class ViewFrame(Value):
    """A view as it is now, whole."""

    id: str
    """Id of the subscription."""
    data: Json
    """The view."""


class ChangesFrame(Value):
    """Rows of the tree that have changed."""

    id: str
    """Id of the subscription."""
    data: Json
    """The rows, by their session, and how many there are."""


class EndedFrame(Value):
    """A subscription came to its end: its session has ended."""

    id: str
    """Id of the subscription."""


HostFrame: TypeAlias = (
    AnswerFrame | RefusalFrame | BegunFrame | EventFrame | GapFrame | ViewFrame | ChangesFrame | EndedFrame
)
"""A message of a host."""


class _AnyFrame(msgspec.Struct):
    """The fields of all messages of a host, to decode one in one pass."""

    id: str = ""
    status: int | None = None
    body: object = None
    problem: dict[str, object] | None = None
    cursor: str | None = None
    event: str | None = None
    data: object = msgspec.UNSET
    changed: dict[str, object] | None = None
    matching: int = 0
    total: int = 0
    first: bool = False
    gap: dict[str, str] | None = None
    end: bool = False


_decode: Final = cast("Callable[[str], _AnyFrame]", msgspec.json.Decoder(learned(_AnyFrame)).decode)
_NO_CURSOR: Final = "has a cursor that is none"


def read_host_frame(text: str) -> HostFrame | None:
    """Parse *text*; return its message, or `None` if it is of an unknown kind. Raise `BadText` if it is invalid."""
    try:
        frame = _decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as why:
        raise BadText(str(why)) from None
    if frame.problem is not None:
        return RefusalFrame(frame.id, cast("JsonObject", frame.problem))
    if frame.status is not None:
        return AnswerFrame(frame.id, cast("Json", frame.body))
    if frame.cursor is not None:
        cursor = _cursor(frame.cursor)
        if frame.event is None:
            return BegunFrame(frame.id, cursor)
        return EventFrame(frame.id, cursor, frame.event, cast("Json", frame.data))
    if frame.gap is not None:
        return GapFrame(frame.id, _cursor(frame.gap.get("from", "")), _cursor(frame.gap.get("to", "")))
    if frame.changed is not None:
        changes = {"changed": frame.changed, "matching": frame.matching, "total": frame.total, "first": frame.first}
        return ChangesFrame(frame.id, cast("Json", changes))
    if frame.data is not msgspec.UNSET:
        return ViewFrame(frame.id, cast("Json", frame.data))
    return EndedFrame(frame.id) if frame.end else None


def _cursor(text: str) -> Cursor:
    cursor = read_cursor(text)
    if cursor is None:
        raise BadText(_NO_CURSOR)
    return cursor


SubscriptionFrame: TypeAlias = EventFrame | GapFrame | ViewFrame | ChangesFrame
"""What a subscription yields: an event, a mark that some are missing, a view as it is now, or rows that changed."""

MAX_KEPT: Final = 256 * 1024
"""The most characters that wait for the reader of one subscription; with more, its policy is applied."""


class SubscriptionSource(Protocol):
    """Interface: the connection to the host, as a subscription uses it."""

    def begin(self, subscription: HostSubscription) -> None:
        """Ask the host to begin *subscription* at its cursor, under a new id."""
        ...

    def stop(self, subscription: HostSubscription) -> None:
        """Ask the host to end *subscription*, and clear its id."""
        ...


class HostSubscription:
    """A subscription to the events of a session, or to a view: `async with` it, then `async for` over it.

    After a lost connection, the next connection continues it after its cursor. If it is read too slowly, it is ended at
    the host, so that it holds up no other. With the policy `coalesce` the rest is asked for again, from its cursor,
    when what was kept is read; with `drop` it goes on with what is new then, after a `GapFrame`; with `disconnect` it
    ends with `SubscriberTooSlow`. Of a view only the newest is kept. Rows that change are sent all
    again when it goes on.
    """

    def __init__(
        self,
        source: SubscriptionSource,
        what: Listened,
        session: str | None,
        *,
        since: Cursor | None,
        types: Sequence[str] | None,
        policy: SubscriptionPolicy,
        changes: JsonObject | None = None,
    ) -> None:
        """Make a subscription; *changes* is the query for rows of the tree that change, `None` if it is for others."""
        self._changes = changes
        self._source = source
        self._what = what
        self._types = types
        self._retry_early = trio.Event()
        self.faults = 0
        """Connections that the host has closed for a fault of its own since it last sent something for this."""
        self._policy: SubscriptionPolicy = policy
        self._frames: deque[tuple[SubscriptionFrame, int]] = deque()
        self._size = 0
        self._retry_at = 0.0
        self._gap_end = Cursor(0)
        self._fell_behind = False
        self._refused_at: float | None = None
        self._has_ended = False
        self._error: AgentrailError | None = None
        self._unusable_error: type[NotEntered | AlreadyLeft | AlreadyRead] | None = NotEntered
        self._changed = trio.Event()
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
        over = "ended" if self._has_ended or self._error else "" if self.has_begun else "not begun"
        return listed(self.about, some(len(self._frames), "message waits", "messages wait"), over)

    @property
    def about(self) -> str:
        """The subject of the subscription, for messages."""
        return self._what if self.session is None else f"{self._what} of {self.session!r}"

    async def __aenter__(self) -> Self:
        """Ask the host to begin; return when the host has confirmed. Raise the error with which it refuses."""
        try:
            self._source.begin(self)
            while not self.has_begun and self._error is None:
                await self._wait_for_change()
        except BaseException:
            self._source.stop(self)
            raise
        if self._error is not None and not self.has_begun:
            raise self._error
        self._unusable_error = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask the host to end the subscription."""
        self._unusable_error = AlreadyLeft
        self._source.stop(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SubscriptionFrame:
        if self._unusable_error is not None:
            raise self._unusable_error
        self._unusable_error = AlreadyRead
        try:
            while not self._frames:
                if self._error is not None:
                    raise self._error
                if self._has_ended:
                    raise StopAsyncIteration
                if self._fell_behind and self._policy == "disconnect":
                    raise SubscriberTooSlow(*(self.cursor or Cursor(0)))
                await self._wait_for_change()
        finally:
            if self._unusable_error is AlreadyRead:
                self._unusable_error = None
        frame, size = self._frames.popleft()
        self._size -= size
        return frame

    async def _wait_for_change(self) -> None:
        """Wait until a frame, the end, an error, or a refusal for now has come from the connection.

        Each of these sets `_changed`. If the host sends nothing, because this subscription fell behind or was refused
        for now, it is begun again first: at the time `_retry_at`, or at the event `_retry_early`; `postpone` has set
        both.
        """
        self._changed = trio.Event()
        if not self.id:
            with trio.move_on_at(self._retry_at):
                await self._retry_early.wait()
            self._source.begin(self)
        await self._changed.wait()

    # Called by the connection

    @property
    def subscribe_message(self) -> dict[str, object]:
        """The message that has the host begin to send, from the cursor on."""
        skips = self._fell_behind and self._policy == "drop"
        message: dict[str, object] = {"id": self.id, "listen": self._what}
        if self.session is not None:
            message["session"] = self.session
        if self._what == "events":
            message["policy"] = self._policy
        if self._types is not None:
            message["types"] = list(self._types)
        if self._changes is not None:
            message |= {"changes": True, "query": self._changes}
        if self.cursor is not None and not skips:
            message["since"] = str(self.cursor)
        return message

    def offer(self, frame: BegunFrame | SubscriptionFrame, size: int) -> None:
        """Store a frame of the host until it is read; its message has *size* characters."""
        self.has_begun, self._refused_at, self.faults = True, None, 0
        match frame:
            case BegunFrame(cursor=cursor):
                if self._fell_behind and self._policy == "drop" and self.cursor is not None and self.cursor < cursor:
                    self._append(GapFrame(frame.id, self.cursor, cursor), size)
                    self.cursor = cursor
                self.cursor = cursor if self.cursor is None else self.cursor
                self._fell_behind = False
            case ViewFrame():
                self._frames.clear()
                self._size = 0
                self._append(frame, size)
            case ChangesFrame():  # after it fell behind, it begins again with all rows
                self._fell_behind = False
                self._append(frame, size)
            case EventFrame(cursor=cursor):
                self.cursor = cursor
                self._append(frame, size)
            case GapFrame(end=end) if end > self._gap_end:
                # The cursor is not moved: durable events in the range of the gap may follow, and would be lost if the
                # connection were cut before them.
                self._gap_end = end
                self._append(frame, size)
            case GapFrame():  # an event that was sent again after a lost connection
                pass
        self._changed.set()

    def _append(self, frame: SubscriptionFrame, size: int) -> None:
        self._frames.append((frame, size))
        self._size += size
        if self._size > MAX_KEPT and not isinstance(frame, ViewFrame):
            self._fell_behind = True
            self._retry_at = 0.0
            self._source.stop(self)

    def end(self) -> None:
        """Note that the host has ended the subscription: stored frames can still be read."""
        self._has_ended = True
        self._changed.set()

    def fail(self, error: AgentrailError) -> None:
        """End the subscription with *error*, which is raised after the stored frames."""
        self._error = self._error or error
        self._changed.set()

    def postpone(self, seconds: float, retry_early: trio.Event) -> None:
        """Begin again after *seconds*, or when *retry_early* is set: the host cannot begin the subscription now."""
        now = trio.current_time()
        self._refused_at = now if self._refused_at is None else self._refused_at
        self._retry_at, self._retry_early = now + seconds, retry_early
        self._changed.set()

    @property
    def refused_for(self) -> float:
        """Seconds for which the host has refused to begin."""
        return 0.0 if self._refused_at is None else trio.current_time() - self._refused_at


class Line(Protocol):
    """Carries calls to a host, and events back. `HostConnection` is one."""

    @property
    def address(self) -> object:
        """Where the host is, to be shown."""
        ...

    async def call(
        self,
        name: str,
        *,
        session: str | None = None,
        body: JsonObject | None = None,
        query: JsonObject | None = None,
        command: str | None = None,
    ) -> Json:
        """Have the host carry out a call, and return what it gives. See `HostConnection.call`."""
        ...

    def whole_id(self, session: str) -> str:
        """Return the id that the host shows of a session. See `HostConnection.whole_id`."""
        ...

    def listen(
        self,
        what: Listened,
        session: str | None = None,
        *,
        since: Cursor | None = None,
        types: Sequence[str] | None = None,
        policy: SubscriptionPolicy = "coalesce",
        changes: JsonObject | None = None,
    ) -> HostSubscription:
        """Return a subscription. See `HostConnection.listen`."""
        ...
