from collections.abc import Callable, Sequence

import pytest
import trio
import trio.testing
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentrail.core.inputs import Arrival, TimerFired
from agentrail.errors import SubscriberTooSlow
from agentrail.ports.journal import Record
from agentrail.runtime.bus import MOST_MERGED, Bus, Subscription
from agentrail.values.events.envelope import Cursor, Envelope, Event
from agentrail.values.events.life import AgentEnd, AgentStart
from agentrail.values.events.plugins import Gap
from agentrail.values.events.response import MessageDelta, ThinkingDelta
from agentrail.values.usage import NOTHING_USED

READ_AHEAD = 2
"""Records per read, so that a page ends in the middle of everything."""


class Session:
    """A journal and a bus, as the loop of a session uses them: first the record, then the event."""

    def __init__(self, buffer_size: int = 256) -> None:
        self.records: list[Record] = []
        self.bus = Bus("s", buffer_size, self.read)
        self.log: list[Envelope] = []
        self.seq = 0
        self.unpublished: list[Record] = []
        self.during_reads: list[Callable[[], None]] = []
        self.reads = 0

    async def read(self, after: int, limit: int) -> Sequence[Record]:
        self.reads += 1
        if self.during_reads:
            self.during_reads.pop(0)()
        await trio.lowlevel.checkpoint()
        found = tuple(self.records[after : after + min(limit, READ_AHEAD)])
        await trio.lowlevel.checkpoint()
        if self.during_reads:
            self.during_reads.pop(0)()
        return found

    def commit(self, *events: Event) -> None:
        envelopes = []
        for event in events:
            self.seq += 1
            envelopes.append(Envelope("s", self.seq, 0, 0, 1, 1, event))
        record = Record("s", len(self.records) + 1, Arrival(TimerFired("t"), 0), events=tuple(envelopes))
        self.records.append(record)
        self.unpublished.append(record)

    def show(self) -> None:
        for record in self.unpublished:
            self.bus.publish(record.events, record.number)
            self.log.extend(record.events)
        self.unpublished.clear()

    def publish(self, *events: Event) -> None:
        self.commit(*events)
        self.show()

    def whisper(self, event: Event) -> None:
        self.show()
        self.bus.whisper(event, 0)
        self.log.append(Envelope("s", *self.bus.cursor, 0, 1, 1, event))

    def subscribe(
        self,
        since: Cursor | None = None,
        types: tuple[type[Event], ...] | None = None,
        policy: str = "coalesce",
        capacity: int = 1024,
    ) -> Subscription:
        return Subscription(self.bus, since=since, types=types, policy=policy, capacity=capacity)


def start(ref: str = "p") -> AgentStart:
    return AgentStart(ref)


def end() -> AgentEnd:
    return AgentEnd("p", "end", (), NOTHING_USED)


async def drain(subscription: Subscription) -> list[Envelope]:
    """Return everything that is there now."""
    got: list[Envelope] = []
    while True:
        with trio.move_on_after(1) as scope:
            try:
                got.append(await subscription.__anext__())
            except StopAsyncIteration:
                return got
        if scope.cancelled_caught:
            return got


def cursors(envelopes: Sequence[Envelope]) -> list[tuple[int, int]]:
    return [(envelope.seq, envelope.n) for envelope in envelopes]


async def test_a_live_subscriber_gets_everything_in_order() -> None:
    session = Session()
    async with session.subscribe() as events:
        session.publish(start())
        session.whisper(MessageDelta("a"))
        session.whisper(MessageDelta("b"))
        session.publish(end())
        got = await drain(events)
    assert got == session.log
    assert cursors(got) == [(1, 0), (1, 1), (1, 2), (2, 0)]


async def test_nothing_from_before_is_heard_without_since() -> None:
    session = Session()
    session.publish(start())
    async with session.subscribe() as events:
        session.publish(end())
        assert cursors(await drain(events)) == [(2, 0)]


async def test_a_late_subscriber_gets_the_journal_the_buffer_and_what_is_live() -> None:
    session = Session()
    session.publish(start())
    session.whisper(MessageDelta("a"))
    session.publish(start("q"))
    session.whisper(MessageDelta("b"))
    async with session.subscribe(since=Cursor(0)) as events:
        session.whisper(MessageDelta("c"))
        session.publish(end())
        assert await drain(events) == session.log


async def test_since_is_exclusive_also_among_deltas() -> None:
    session = Session()
    session.publish(start())
    for text in "abc":
        session.whisper(MessageDelta(text))
    async with session.subscribe(since=Cursor(1, 2)) as events:
        assert cursors(await drain(events)) == [(1, 3)]


async def test_a_record_that_is_written_and_not_published_comes_once() -> None:
    session = Session()
    session.publish(start())
    session.commit(start("q"))
    async with session.subscribe(since=Cursor(0)) as events:
        first = await drain(events)
        session.show()
        assert cursors([*first, *(await drain(events))]) == [(1, 0), (2, 0)]


async def test_types_filter_what_is_replayed_and_what_is_live() -> None:
    session = Session()
    session.publish(start(), end())
    session.whisper(MessageDelta("a"))
    async with session.subscribe(since=Cursor(0), types=(AgentEnd,)) as events:
        session.whisper(MessageDelta("a"))
        session.publish(start())
        session.publish(end())
        assert cursors(await drain(events)) == [(2, 0), (4, 0)]


async def test_deltas_that_are_gone_are_one_gap() -> None:
    session = Session(buffer_size=2)
    session.publish(start())
    for text in "abcde":
        session.whisper(MessageDelta(text))
    async with session.subscribe(since=Cursor(1)) as events:
        gap, *rest = await drain(events)
    assert gap.event == Gap(1, 0, 1, 3)
    assert cursors(rest) == [(1, 4), (1, 5)]


async def test_the_deltas_of_a_turn_that_is_over_are_gone() -> None:
    session = Session()
    session.publish(start())
    session.whisper(MessageDelta("a"))
    session.publish(end())
    async with session.subscribe(since=Cursor(0)) as events:
        got = await drain(events)
    assert [envelope.event for envelope in got] == [Gap(0, 0, 1, 1), start(), end()]


async def test_who_wants_no_deltas_hears_of_no_gap_among_them() -> None:
    session = Session()
    session.publish(start())
    session.whisper(MessageDelta("a"))
    session.publish(end())
    async with session.subscribe(since=Cursor(0), types=(AgentStart, AgentEnd)) as events:
        assert cursors(await drain(events)) == [(1, 0), (2, 0)]


async def test_deltas_that_a_session_took_with_it_are_a_gap() -> None:
    session = Session()
    session.publish(start())
    session.whisper(MessageDelta("a"))
    session.bus.close()
    async with session.subscribe(since=Cursor(1)) as events:
        assert [envelope.event for envelope in await drain(events)] == [Gap(1, 0, 1, 1)]


async def test_an_ended_session_still_replays_and_then_ends() -> None:
    session = Session()
    session.publish(start(), end())
    session.bus.close()
    async with session.subscribe(since=Cursor(0)) as events:
        assert [envelope.event async for envelope in events] == [start(), end()]


async def test_a_session_that_ends_before_the_subscriber_has_entered_ends_it() -> None:
    session = Session()
    events = session.subscribe()
    session.bus.close()
    with trio.fail_after(1):
        async with events:
            assert [envelope async for envelope in events] == []


async def test_the_end_wakes_a_subscriber_that_waits() -> None:
    session = Session()
    got: list[Envelope] = []

    async def listen() -> None:
        async with session.subscribe() as events:
            got.extend([envelope async for envelope in events])

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            await trio.testing.wait_all_tasks_blocked()
            session.publish(start())
            session.bus.close()
    assert got == session.log


async def test_who_has_left_hears_nothing_more() -> None:
    session = Session()
    async with session.subscribe() as events:
        pass
    session.publish(start())
    assert events.waiting == 0


async def test_a_slow_subscriber_that_coalesces_gets_merged_deltas_and_every_durable_event() -> None:
    session = Session()
    async with session.subscribe(capacity=3) as events:
        session.publish(start())
        for text in "abcdef":
            session.whisper(MessageDelta(text))
        session.whisper(ThinkingDelta("x"))
        for number in range(10):
            session.publish(start(str(number)))
        assert events.waiting <= 3
        got = await drain(events)
    durable = [envelope for envelope in got if envelope.event.durable]
    assert durable == [envelope for envelope in session.log if envelope.event.durable]
    text = "".join(envelope.event.delta for envelope in got if isinstance(envelope.event, MessageDelta))
    assert text == "abcdef"


async def test_a_merged_delta_does_not_grow_without_bounds() -> None:
    session = Session(buffer_size=4)
    async with session.subscribe(capacity=1) as events:
        for _ in range(100):
            session.whisper(MessageDelta("x" * 1000))
        got = await drain(events)
    sizes = [len(envelope.event.delta) for envelope in got if isinstance(envelope.event, MessageDelta)]
    assert max(sizes) <= MOST_MERGED + 1000
    assert any(isinstance(envelope.event, Gap) for envelope in got)


async def test_a_slow_subscriber_that_drops_gets_a_gap() -> None:
    session = Session()
    async with session.subscribe(policy="drop", capacity=2) as events:
        for number in range(5):
            session.publish(start(str(number)))
        assert events.waiting == 2
        got = await drain(events)
        session.publish(end())
        got += await drain(events)
    assert [envelope.event for envelope in got] == [start("0"), start("1"), Gap(2, 0, 5, 0), end()]


async def test_a_slow_subscriber_that_disconnects_is_told_where_to_go_on() -> None:
    session = Session()
    async with session.subscribe(policy="disconnect", capacity=2) as events:
        for number in range(5):
            session.publish(start(str(number)))
        got = [await events.__anext__(), await events.__anext__()]
        with pytest.raises(SubscriberTooSlow) as slow:
            await events.__anext__()
    assert slow.value.args == (2, 0)
    async with session.subscribe(since=Cursor(*slow.value.args), policy="disconnect") as events:
        assert [*got, *(await drain(events))] == session.log


async def test_a_live_subscriber_that_falls_behind_does_not_read_the_whole_journal() -> None:
    session = Session()
    for number in range(100):
        session.publish(start(str(number)))
    async with session.subscribe(capacity=1) as events:
        for number in range(4):
            session.publish(start(f"live {number}"))
        assert len(await drain(events)) == 4
    assert session.reads <= 5


# Whatever happens, nothing is lost and nothing comes twice


class Reader:
    """A subscriber that reconnects, and keeps everything it was ever given."""

    def __init__(self, session: Session, policy: str, capacity: int, types: tuple[type[Event], ...] | None) -> None:
        self.session = session
        self.policy = policy
        self.capacity = capacity
        self.types = types
        self.got: list[Envelope] = []
        self.at = Cursor(0)
        self.subscription: Subscription | None = None

    async def connect(self) -> None:
        if self.subscription is None:
            self.subscription = self.session.subscribe(self.at, self.types, self.policy, self.capacity)
            await self.subscription.__aenter__()

    async def disconnect(self) -> None:
        if self.subscription is not None:
            await self.subscription.__aexit__(None, None, None)
            self.subscription = None

    async def read(self, most: int) -> None:
        await self.connect()
        for _ in range(most):
            assert self.subscription is not None
            assert self.subscription.waiting <= self.capacity
            with trio.move_on_after(1) as scope:
                try:
                    envelope = await self.subscription.__anext__()
                except SubscriberTooSlow as slow:
                    self.at = max(self.at, Cursor(*slow.args))
                    await self.disconnect()
                    await self.connect()
                    continue
                self.got.append(envelope)
                if isinstance(envelope.event, Gap):
                    self.at = max(self.at, Cursor(envelope.seq, envelope.n))
                else:
                    assert envelope.cursor > self.at
                    self.at = envelope.cursor
            if scope.cancelled_caught:
                return

    def check(self) -> None:
        wanted = [e for e in self.session.log if self.types is None or isinstance(e.event, self.types)]
        gaps = [e.event for e in self.got if isinstance(e.event, Gap)]

        def may_be_lost(envelope: Envelope) -> bool:
            if envelope.event.durable and self.policy != "drop":
                return False
            return any((g.from_seq, g.from_n) < envelope.cursor <= (g.to_seq, g.to_n) for g in gaps)

        tokens = [token for e in self.got if not isinstance(e.event, Gap) for token in tokens_of(e)]
        assert len(tokens) == len(set(tokens)), "something came twice"
        order = {token: place for place, e in enumerate(wanted) for token in tokens_of(e)}
        assert [order[token] for token in tokens] == sorted(order[token] for token in tokens), "out of order"
        lost = {token for e in wanted for token in tokens_of(e) if not may_be_lost(e)} - set(tokens)
        assert not lost, f"lost: {sorted(lost)}"


def tokens_of(envelope: Envelope) -> list[str]:
    """Return names for all that an event stands for: a merged delta stands for several."""
    event = envelope.event
    if isinstance(event, MessageDelta | ThinkingDelta):
        return event.delta.split()
    return [f"#{envelope.seq}"]


OPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 3)),
        st.tuples(st.just("commit"), st.integers(0, 2)),
        st.tuples(st.just("whisper"), st.integers(1, 6)),
        st.tuples(st.just("think"), st.integers(1, 3)),
        st.tuples(st.just("end"), st.just(1)),
        st.tuples(st.just("read"), st.integers(1, 6)),
        st.tuples(st.just("cut"), st.just(0)),
        st.tuples(st.just("during a read"), st.integers(1, 3)),
    ),
    max_size=40,
)


class Play:
    """Carries out generated operations."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.said = 0

    def say(self, kind: type[MessageDelta | ThinkingDelta], count: int) -> None:
        for _ in range(count):
            self.said += 1
            self.session.whisper(kind(f"{kind.__name__}{self.said} "))

    def meanwhile(self, count: int) -> None:
        self.session.during_reads.append(lambda: self.session.publish(*(start() for _ in range(count))))
        self.session.during_reads.append(lambda: self.say(MessageDelta, count))

    async def do(self, reader: Reader, what: str, count: int) -> None:
        match what:
            case "publish":
                self.session.show()
                self.session.publish(*(start() for _ in range(count)))
            case "commit":
                self.session.show()
                self.session.commit(*(start() for _ in range(count)))
            case "whisper":
                self.say(MessageDelta, count)
            case "think":
                self.say(ThinkingDelta, count)
            case "end":
                self.session.show()
                self.session.publish(end())
            case "read":
                await reader.read(count)
            case "cut":
                await reader.disconnect()
            case _:
                self.meanwhile(count)


@given(
    ops=OPS,
    policy=st.sampled_from(["coalesce", "drop", "disconnect"]),
    capacity=st.integers(1, 4),
    buffer_size=st.sampled_from([0, 1, 3, 256]),
    types=st.sampled_from([None, (AgentStart,), (AgentStart, MessageDelta)]),
)
@settings(max_examples=500)
@example(
    ops=[("during a read", 3), ("cut", 0), ("publish", 1), ("read", 6)],
    policy="coalesce",
    capacity=1,
    buffer_size=256,
    types=None,
)
def test_nothing_is_lost_and_nothing_comes_twice(
    ops: list[tuple[str, int]],
    policy: str,
    capacity: int,
    buffer_size: int,
    types: tuple[type[Event], ...] | None,
) -> None:
    async def play() -> None:
        session = Session(buffer_size)
        reader = Reader(session, policy, capacity, types)
        playing = Play(session)
        await reader.connect()
        for what, count in ops:
            await playing.do(reader, what, count)
        session.show()
        while session.during_reads:
            session.during_reads.pop(0)()
        await reader.connect()
        await reader.read(1000)
        await reader.disconnect()
        reader.check()

    trio.run(play, clock=trio.testing.MockClock(autojump_threshold=0))
