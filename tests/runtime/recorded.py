"""A journal and an event log without a session."""

import math
from collections.abc import Callable, Sequence

import trio
import trio.testing

from agentrail import Subscription
from agentrail.events import AgentEnd, AgentStart, Cursor, Envelope, Event, MessageDelta
from agentrail.journals import Record
from agentrail.runtime.events.log import EventLog
from agentrail.runtime.shared.admission import Gate
from tests.kit import NOTHING_USED, Arrival, TimerFired

READ_AHEAD = 2
"""Records per read: so few that reads end in the middle of events."""

TURN, ROUND, PATH = 3, 2, ("above", "c1")
"""Turn, round and path of all events."""


class Session:
    """A journal and an event log, used as by a session: a record is written before its events are published."""

    def __init__(self, buffer_size: int = 256, hearing: Gate | None = None) -> None:
        self.records: list[Record] = []
        self.events = EventLog("s", buffer_size, self, hearing or Gate(math.inf))
        self.log: list[Envelope] = []
        self.seq = 0
        self.at = 0
        self.unpublished: list[Record] = []
        self.during_reads: list[Callable[[], None]] = []
        self.reads = 0

    async def read(self, after: int, limit: int) -> Sequence[Record]:
        self.reads += 1
        if self.during_reads:
            self.during_reads.pop(0)()
        await trio.lowlevel.checkpoint()
        records = tuple(self.records[after : after + min(limit, READ_AHEAD)])
        await trio.lowlevel.checkpoint()
        if self.during_reads:
            self.during_reads.pop(0)()
        return records

    async def record_of_seq(self, seq: int) -> int:
        await trio.lowlevel.checkpoint()
        later = (record.number - 1 for record in self.records if record.events and record.events[-1].seq > seq)
        return next(later, len(self.records))

    def commit(self, *events: Event) -> None:
        envelopes = []
        for event in events:
            self.seq += 1
            self.at += 10
            envelopes.append(Envelope("s", self.seq, 0, self.at, TURN, ROUND, event, PATH))
        record = Record("s", len(self.records) + 1, Arrival(TimerFired("t"), 0), events=tuple(envelopes))
        self.records.append(record)
        self.unpublished.append(record)

    def show(self) -> None:
        for record in self.unpublished:
            self.events.publish(record.events)
            self.log.extend(record.events)
        self.unpublished.clear()

    def publish(self, *events: Event) -> None:
        self.commit(*events)
        self.show()

    def publish_ephemeral(self, event: Event) -> None:
        self.show()
        self.at += 10
        self.events.publish_ephemeral(event, self.at)
        self.log.append(Envelope("s", *self.events.cursor, self.at, TURN, ROUND, event, PATH))

    def burst(self, *texts: str) -> None:
        self.show()
        self.at += 10
        for text in texts:
            self.events.publish_ephemeral(text, self.at)
            self.log.append(Envelope("s", *self.events.cursor, self.at, TURN, ROUND, MessageDelta(text), PATH))

    def subscribe(
        self,
        since: Cursor | None = None,
        types: tuple[type[Event], ...] | None = None,
        policy: str = "coalesce",
        capacity: int = 1024,
    ) -> Subscription:
        return Subscription(self.events, since=since, types=types, policy=policy, capacity=capacity)


def start(ref: str = "p") -> AgentStart:
    return AgentStart(ref)


def end() -> AgentEnd:
    return AgentEnd("p", "end", (), NOTHING_USED)
