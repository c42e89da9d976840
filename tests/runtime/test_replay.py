"""Whatever subscriber and session do, each event comes once and none is lost."""

import pytest
import trio
import trio.testing
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentrail import Subscription
from agentrail.errors import SubscriberTooSlow
from agentrail.events import AgentStart, Cursor, Envelope, Event, Gap, MessageDelta, ThinkingDelta
from tests.runtime.recorded import Session, end, start

pytestmark = pytest.mark.long


class Reader:
    """A subscriber that can reconnect, and keeps every event that it got."""

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
        logs = [e for e in self.session.log if self.types is None or isinstance(e.event, self.types)]
        gaps = [e.event for e in self.got if isinstance(e.event, Gap)]

        def may_be_lost(envelope: Envelope) -> bool:
            if envelope.event.durable and self.policy != "drop":
                return False
            return any((g.from_seq, g.from_n) < envelope.cursor <= (g.to_seq, g.to_n) for g in gaps)

        tokens = [token for e in self.got if not isinstance(e.event, Gap) for token in tokens_of(e)]
        assert len(tokens) == len(set(tokens)), "something came twice"
        order = {token: index for index, e in enumerate(logs) for token in tokens_of(e)}
        assert [order[token] for token in tokens] == sorted(order[token] for token in tokens), "out of order"
        lost = {token for e in logs for token in tokens_of(e) if not may_be_lost(e)} - set(tokens)
        assert not lost, f"lost: {sorted(lost)}"


def tokens_of(envelope: Envelope) -> list[str]:
    """Return a name for each event that this one stands for: a merged delta stands for several."""
    event = envelope.event
    if isinstance(event, MessageDelta | ThinkingDelta):
        return event.delta.split()
    return [f"#{envelope.seq}"]


OPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 3)),
        st.tuples(st.just("commit"), st.integers(0, 2)),
        st.tuples(st.just("publish_ephemeral"), st.integers(1, 6)),
        st.tuples(st.just("burst"), st.integers(1, 6)),
        st.tuples(st.just("think"), st.integers(1, 3)),
        st.tuples(st.just("end"), st.just(1)),
        st.tuples(st.just("read"), st.integers(1, 6)),
        st.tuples(st.just("cut"), st.just(0)),
        st.tuples(st.just("during a read"), st.integers(1, 3)),
    ),
    max_size=40,
)


class Play:
    """Carries out generated operations on a session and a subscriber."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.said = 0

    def say(self, kind: type[MessageDelta | ThinkingDelta], count: int) -> None:
        for _ in range(count):
            self.said += 1
            self.session.publish_ephemeral(kind(f"{kind.__name__}{self.said} "))

    def burst(self, count: int) -> None:
        self.said += count
        self.session.burst(*(f"text{number} " for number in range(self.said - count, self.said)))

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
            case "publish_ephemeral":
                self.say(MessageDelta, count)
            case "burst":
                self.burst(count)
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
    capacity=st.integers(1, 8),
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
