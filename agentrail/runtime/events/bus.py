"""Event bus of a session: delivers events in order, and keeps the last ephemeral ones for those who come later."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from agentrail.ports.failpoints import reach
from agentrail.reprs import in_brackets, listed, some
from agentrail.runtime.events.replay import EphemeralTail, Reader
from agentrail.runtime.events.subscription import Subscription
from agentrail.runtime.shared.admission import Gate
from agentrail.values.events.context import PrefixChanged
from agentrail.values.events.envelope import Cursor, Envelope, Event
from agentrail.values.events.life import AgentAbort, AgentEnd

_TURN_ENDS = frozenset({AgentEnd, AgentAbort})


class Bus:
    """Event bus of one session."""

    __slots__ = (
        "_before",
        "_buffer",
        "_buffer_size",
        "_buffered",
        "_hear_deltas",
        "_last",
        "_n",
        "_subscriptions",
        "_whispers",
        "closed",
        "dropped",
        "hearing",
        "hears_prefix",
        "records",
        "session_id",
    )

    def __init__(
        self,
        session_id: str,
        buffer_size: int,
        records: Reader,
        hearing: Gate,
        before: int = 0,
        *,
        mid_turn: bool = False,
    ) -> None:
        self.session_id = session_id
        self.records = records
        self.hearing = hearing
        self.closed = False
        # Ephemeral events of an earlier process are gone, also those after the last durable one if a turn was open:
        # tests/runtime/test_cursors.py::test_deltas_of_an_earlier_process_are_a_gap
        self.dropped: Cursor | None = Cursor(before + mid_turn) if before else None
        self._whispers: EphemeralTail | None = None
        self._buffer: tuple[EphemeralTail, ...] = ()
        self._buffered = 0
        self._buffer_size = buffer_size
        self._before = before
        self._last: Envelope | None = None
        self._n = 0
        self._subscriptions: tuple[Subscription, ...] = ()
        self._hear_deltas: tuple[Subscription, ...] = ()  # subscriptions that want ephemeral events
        # Whether a subscription wanted `PrefixChanged` so far: from the first on, the session follows what changes.
        self.hears_prefix = False

    @in_brackets
    def __repr__(self) -> str:
        cursor = self.cursor
        position = f"{self.session_id!r} at {cursor.seq}.{cursor.n}"
        return listed(position, some(len(self._subscriptions), "subscription"), "closed" if self.closed else "")

    @property
    def cursor(self) -> Cursor:
        """Position after the last published event."""
        return Cursor(self._last.seq if self._last is not None else self._before, self._n)

    def publish(self, envelopes: Sequence[Envelope]) -> None:
        """Deliver durable events to all subscribers, in order."""
        if not envelopes:
            return
        reach("PUBLISH")
        for subscription in self._subscriptions:
            subscription.offer(envelopes)
        self._last = envelopes[-1]
        self._n = 0
        self._whispers = None
        if self._buffered and not _TURN_ENDS.isdisjoint([type(envelope.event) for envelope in envelopes]):
            self._drop_buffer()
        reach("PUBLISHED")

    def publish_ephemeral(self, event: Event | str, at: int) -> None:
        """Deliver an ephemeral event, which is not journaled, to all subscribers; a text is a `MessageDelta`."""
        self._n = n = self._n + 1
        whispers = self._whispers
        if whispers is None:
            whispers = self._begin_to_whisper(n)
        whispers.said.append(event)
        whispers.at.append(at)
        for subscription in self._hear_deltas:
            if n > subscription.room_to:
                subscription.squeeze(n)
            elif subscription.task is not None:
                subscription.wake_in_turn()
        self._buffered += 1
        if self._buffered > self._buffer_size:
            self._forget_first()

    def publish_all_ephemeral(self, events: Sequence[Event | str], at: int) -> None:
        """Deliver ephemeral events that came together."""
        n = self._n + len(events)
        whispers = self._whispers
        room = min([subscription.room_to for subscription in self._hear_deltas], default=n)
        if whispers is None or n > room or self._buffered + len(events) > self._buffer_size:
            for event in events:
                self.publish_ephemeral(event, at)
            return
        self._n = n
        whispers.said.extend(events)
        # An array, because of a list each number would be converted again.
        whispers.at.extend(array("q", (at,)) * len(events))
        self._buffered += len(events)
        for subscription in self._hear_deltas:
            subscription.wake_in_turn()

    @property
    def tail(self) -> tuple[EphemeralTail | None, int]:
        """The ephemeral events since the last durable one, and the number of the newest; 0 if there are none."""
        return self._whispers, self._n

    def _begin_to_whisper(self, first: int) -> EphemeralTail:
        """Start and return a buffer for ephemeral events after the last durable one."""
        behind = self._last or Envelope(self.session_id, self._before, 0, 0, 0, 0, Event())
        whispers = self._whispers = EphemeralTail(behind, first)
        self._buffer = (*self._buffer, whispers)
        return whispers

    def _forget_first(self) -> None:
        """Drop the oldest buffered ephemeral event; subscribers make their envelopes of it first."""
        first = self._buffer[0]
        oldest = first.last.n + 1 - len(first) if first is self._whispers else 0
        for subscription in self._hear_deltas:
            subscription.keep(oldest)
        self.dropped = first.forget_first()
        self._buffered -= 1
        if not first:
            self._buffer = self._buffer[1:]
            if first is self._whispers:
                self._whispers = None

    def buffered(self, since: Cursor) -> list[Envelope]:
        """Return the buffered ephemeral events after *since*."""
        return [envelope for whispers in self._buffer for envelope in whispers.after(since)]

    def join(self, subscription: Subscription) -> None:
        """Add *subscription*: it gets all events from now on."""
        self._become((*self._subscriptions, subscription))

    def leave(self, subscription: Subscription) -> None:
        """Remove *subscription*."""
        self._become(tuple(other for other in self._subscriptions if other is not subscription))

    def _become(self, subscriptions: tuple[Subscription, ...]) -> None:
        """Set the subscriptions, and those among them that want ephemeral events."""
        self._subscriptions = subscriptions
        self._hear_deltas = tuple(subscription for subscription in subscriptions if subscription.hears_deltas)
        if not self.hears_prefix:
            self.hears_prefix = any(subscription.wants(PrefixChanged) for subscription in self._hear_deltas)

    def sleep(self) -> None:
        """Drop the last event and keep only its number, while the session sleeps."""
        for subscription in self._hear_deltas:
            subscription.keep(self._n)
        self._before, self._last, self._whispers = self.cursor.seq, None, None

    def close(self) -> None:
        """Tell all subscribers that no more events come."""
        self.closed = True
        for subscription in self._subscriptions:
            subscription.end()
        self._drop_buffer()

    def _drop_buffer(self) -> None:
        """Drop all buffered ephemeral events."""
        if self._buffered:
            self.dropped = self._buffer[-1].last
        self._buffer, self._buffered, self._whispers = (), 0, None
