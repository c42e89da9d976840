import gc
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, nullcontext

import pytest
import trio
import trio.testing

from agentrail import Subscription
from agentrail.errors import SubscriberTooSlow
from agentrail.events import AgentEnd, AgentStart, Cursor, Envelope, Event, Gap, MessageDelta, ThinkingDelta
from agentrail.runtime.events.log import REACH, Stretch
from agentrail.runtime.events.subscription import MAX_MERGED
from agentrail.runtime.shared.admission import Gate
from tests.opcodes import counted_opcodes
from tests.passes import Passes
from tests.runtime.recorded import Session, end, start


async def drain(subscription: Subscription) -> list[Envelope]:
    """Return the events that can be received now."""
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
        session.publish_ephemeral(MessageDelta("a"))
        session.publish_ephemeral(MessageDelta("b"))
        session.publish(end())
        got = await drain(events)
    assert got == session.log
    assert cursors(got) == [(1, 0), (1, 1), (1, 2), (2, 0)]


async def test_events_that_come_at_once_have_numbers_of_their_own() -> None:
    session = Session()
    async with session.subscribe() as events:
        session.publish(start())
        session.publish_ephemeral(MessageDelta("a"))
        session.burst("b", "c")
        session.publish_ephemeral(MessageDelta("d"))
        session.publish(end())
        got = await drain(events)
    assert got == session.log
    assert cursors(got) == [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (2, 0)]


async def test_each_event_that_waits_takes_a_place_whether_it_has_its_envelope_or_not() -> None:
    session = Session()
    async with session.subscribe(policy="disconnect", capacity=3) as events:
        for text in "abc":
            session.publish_ephemeral(MessageDelta(text))
        session.publish(start())
        assert [(await anext(events)).n for _ in range(3)] == [1, 2, 3]
        with pytest.raises(SubscriberTooSlow):
            await anext(events)


async def test_what_waits_is_counted_whether_it_has_its_envelopes_or_not() -> None:
    session = Session(buffer_size=3)
    async with session.subscribe() as events, session.subscribe() as other:
        session.publish(start())
        session.burst("a", "b")
        assert events.waiting == 3
        assert len(await drain(other)) == 3
        session.publish(start("q"))
        session.burst("c", "d")  # more than the buffer keeps
        assert (events.waiting, other.waiting) == (6, 3)
        await events.__anext__()
        await events.__anext__()
        assert events.waiting == 4
        assert [*cursors(await drain(events)), events.waiting] == [(1, 2), (2, 0), (2, 1), (2, 2), 0]
        session.burst("e")
    assert (events.waiting, session.subscribe().waiting) == (0, 0)


CHUNK_OPCODES = 100
"""Opcodes that a piece of a text may take that nobody reads: no event is made of it."""


async def test_a_piece_that_nobody_reads_is_a_text() -> None:
    session = Session()
    session.publish(start())
    session.publish_ephemeral(MessageDelta("begun"))
    with counted_opcodes() as counted:
        for _ in range(100):
            session.events.publish_ephemeral("word ", 0)
    assert counted[0] / 100 <= CHUNK_OPCODES
    assert {type(event) for event in session.events.newest.events[1:]} == {str}


async def test_a_piece_costs_nothing_for_those_who_want_no_deltas() -> None:
    session = Session()
    session.publish(start())
    async with session.subscribe(types=(AgentEnd,)) as ends, session.subscribe(types=(AgentEnd, AgentStart)) as both:
        session.publish_ephemeral(MessageDelta("begun"))
        with counted_opcodes() as counted:
            for _ in range(100):
                session.events.publish_ephemeral("word ", 0)
        assert counted[0] / 100 <= CHUNK_OPCODES
        assert (ends.waiting, both.waiting) == (0, 0)
        session.publish(end())
        assert (cursors(await drain(ends)), cursors(await drain(both))) == ([(2, 0)], [(2, 0)])


async def test_a_piece_costs_nothing_for_those_who_have_room_for_it_and_need_not_be_woken() -> None:
    session = Session()
    session.publish(start())
    async with AsyncExitStack() as entered:
        readers = [await entered.enter_async_context(session.subscribe()) for _ in range(10)]
        session.publish_ephemeral(MessageDelta("begun"))
        with counted_opcodes() as counted:
            for _ in range(100):
                session.events.publish_ephemeral("word ", 0)
        assert counted[0] / 100 <= CHUNK_OPCODES
        assert [reader.waiting for reader in readers] == [101] * 10


async def test_nothing_from_before_is_heard_without_since() -> None:
    session = Session()
    session.publish(start())
    async with session.subscribe() as events:
        session.publish(end())
        assert cursors(await drain(events)) == [(2, 0)]


async def test_a_late_subscriber_gets_the_journal_the_buffer_and_what_is_live() -> None:
    session = Session()
    session.publish(start())
    session.publish_ephemeral(MessageDelta("a"))
    session.publish(start("q"))
    session.publish_ephemeral(MessageDelta("b"))
    async with session.subscribe(since=Cursor(0)) as events:
        session.publish_ephemeral(MessageDelta("c"))
        session.publish(end())
        assert await drain(events) == session.log


async def test_since_is_exclusive_also_among_deltas() -> None:
    session = Session()
    session.publish(start())
    for text in "abc":
        session.publish_ephemeral(MessageDelta(text))
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
    session.publish_ephemeral(MessageDelta("a"))
    async with session.subscribe(since=Cursor(0), types=(AgentEnd,)) as events:
        session.publish_ephemeral(MessageDelta("a"))
        session.publish(start())
        session.publish(end())
        assert cursors(await drain(events)) == [(2, 0), (4, 0)]


async def test_deltas_that_are_gone_are_one_gap() -> None:
    session = Session(buffer_size=2)
    session.publish(start())
    for text in "abcde":
        session.publish_ephemeral(MessageDelta(text))
    async with session.subscribe(since=Cursor(1)) as events:
        gap, *rest = await drain(events)
    assert gap == Envelope(gap.session_id, 1, 0, 0, 0, 0, Gap(1, 0, 1, 3)), "it has no time, turn or round"
    assert cursors(rest) == [(1, 4), (1, 5)]


async def test_what_waits_can_be_let_go_and_is_read_again() -> None:
    session = Session()
    async with session.subscribe() as events:
        session.publish(start())
        session.publish_ephemeral(MessageDelta("a"))
        assert cursors([await anext(events)]) == [(1, 0)]
        events.let_go()
        session.publish(start("q"))
        session.publish_ephemeral(MessageDelta("b"))
        session.publish(end())
        events.let_go()
        session.publish_ephemeral(MessageDelta("c"))
        assert (events.waiting, events.dropped) == (0, 5)
        gap, *rest = await drain(events)
        assert (gap.event, cursors(rest)) == (Gap(1, 0, 2, 1), [(2, 0), (3, 0), (3, 1)])
        session.publish(end())
        assert await drain(events) == session.log[-1:]
        events.let_go()
        assert await drain(events) == []


@pytest.mark.parametrize("policy", ["drop", "disconnect"])
async def test_what_was_let_go_is_lost_by_other_policies(policy: str) -> None:
    session = Session()
    async with session.subscribe(policy=policy) as events:
        session.publish(start(), end())
        events.let_go()
        with pytest.raises(SubscriberTooSlow) if policy == "disconnect" else nullcontext():
            assert [envelope.event for envelope in await drain(events)] == [Gap(0, 0, 2, 0)]


async def test_each_delta_is_heard_as_soon_as_it_comes() -> None:
    session = Session()
    got: list[Event] = []

    async def listen(task_status: trio.TaskStatus[None]) -> None:
        async with session.subscribe() as events:
            task_status.started()
            while len(got) < 3:
                got.append((await events.__anext__()).event)

    async with trio.open_nursery() as nursery:
        await nursery.start(listen)
        for text in "abc":
            await trio.testing.wait_all_tasks_blocked()
            session.publish_ephemeral(MessageDelta(text))
            await trio.testing.wait_all_tasks_blocked()
            assert got[-1:] == [MessageDelta(text)]
        session.events.close()


async def test_what_comes_at_once_takes_no_more_room_than_there_is() -> None:
    session = Session(buffer_size=3)
    session.publish(start())
    session.publish_ephemeral(MessageDelta("a"))
    session.burst("b", "c", "d")
    async with session.subscribe(since=Cursor(1)) as events:
        got = await drain(events)
    assert [envelope.event for envelope in got] == [Gap(1, 0, 1, 1), *map(MessageDelta, "bcd")]


async def test_deltas_that_are_gone_are_a_gap_for_who_wants_deltas_alone() -> None:
    session = Session(buffer_size=1)
    session.publish(start())
    for text in "abc":
        session.publish_ephemeral(MessageDelta(text))
    async with session.subscribe(since=Cursor(1), types=(MessageDelta,)) as events:
        got = await drain(events)
    assert [envelope.event for envelope in got] == [Gap(1, 0, 1, 2), MessageDelta("c")]


async def test_the_deltas_of_a_turn_that_is_over_are_gone() -> None:
    session = Session()
    session.publish(start())
    session.publish_ephemeral(MessageDelta("a"))
    session.publish(end())
    async with session.subscribe(since=Cursor(0)) as events:
        got = await drain(events)
    assert [envelope.event for envelope in got] == [Gap(0, 0, 1, 1), start(), end()]


async def test_who_wants_no_deltas_hears_of_no_gap_among_them() -> None:
    session = Session()
    session.publish(start())
    session.publish_ephemeral(MessageDelta("a"))
    session.publish(end())
    async with session.subscribe(since=Cursor(0), types=(AgentStart, AgentEnd)) as events:
        assert cursors(await drain(events)) == [(1, 0), (2, 0)]


async def test_who_wants_events_of_any_class_hears_of_a_gap() -> None:
    session = Session(buffer_size=1)
    session.publish(start())
    for text in "abc":
        session.publish_ephemeral(MessageDelta(text))
    async with session.subscribe(since=Cursor(1), types=(Event,)) as events:
        assert [envelope.event for envelope in await drain(events)] == [Gap(1, 0, 1, 2), MessageDelta("c")]
        session.publish_ephemeral(MessageDelta("d"))
        assert cursors(await drain(events)) == [(1, 4)]


async def test_deltas_that_a_session_took_with_it_are_a_gap() -> None:
    session = Session()
    session.publish(start())
    session.publish_ephemeral(MessageDelta("a"))
    session.events.close()
    async with session.subscribe(since=Cursor(1)) as events:
        assert [envelope.event for envelope in await drain(events)] == [Gap(1, 0, 1, 1)]


async def test_an_ended_session_still_replays_and_then_ends() -> None:
    session = Session()
    session.publish(start(), end())
    session.events.close()
    async with session.subscribe(since=Cursor(0)) as events:
        assert [envelope.event async for envelope in events] == [start(), end()]


async def test_a_session_that_ends_before_the_subscriber_has_entered_ends_it() -> None:
    session = Session()
    events = session.subscribe()
    session.events.close()
    with trio.fail_after(1):
        async with events:
            assert [envelope async for envelope in events] == []


async def test_what_waits_when_a_session_is_gone_is_heard() -> None:
    session = Session()
    async with session.subscribe() as events:
        session.publish(start())
        session.publish_ephemeral(MessageDelta("a"))
        assert events.waiting == 2
        session.events.close()
        assert await drain(events) == session.log


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
            session.events.close()
    assert got == session.log


async def test_a_subscription_that_is_ended_while_it_waits_ends() -> None:
    session = Session()
    got: list[Envelope] = []

    async def listen(events: Subscription) -> None:
        got.extend([envelope async for envelope in events])

    with trio.fail_after(1):
        async with session.subscribe() as events, trio.open_nursery() as nursery:
            nursery.start_soon(listen, events)
            await trio.testing.wait_all_tasks_blocked()
            session.publish(start())
            await trio.testing.wait_all_tasks_blocked()
            events.end()
    assert got == session.log


async def test_who_has_read_what_was_before_reads_what_is_live_without_a_wait() -> None:
    session = Session()
    session.publish(start())
    async with session.subscribe(since=Cursor(0)) as events:
        assert await events.next_past() == session.log[0]
        assert await events.next_past() is None
        session.publish(end())
        assert events.next_now() == session.log[1]
        assert (await events.next_past(), events.next_now()) == (None, None)


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
            session.publish_ephemeral(MessageDelta(text))
        session.publish_ephemeral(ThinkingDelta("x"))
        for number in range(10):
            session.publish(start(str(number)))
        assert events.waiting <= 3
        got = await drain(events)
    durable = [envelope for envelope in got if envelope.event.durable]
    assert durable == [envelope for envelope in session.log if envelope.event.durable]
    text = "".join(envelope.event.delta for envelope in got if isinstance(envelope.event, MessageDelta))
    assert text == "abcdef"


async def test_deltas_of_two_messages_are_not_merged() -> None:
    session = Session()
    async with session.subscribe(capacity=1, types=(MessageDelta,)) as events:
        for text in ("one", "two"):
            session.publish(start(text))
            session.publish_ephemeral(MessageDelta(text))
        got = await drain(events)
    assert [envelope.event for envelope in got] == [MessageDelta("one"), MessageDelta("two")]
    assert cursors(got) == [(1, 1), (2, 1)]


async def test_a_merged_delta_does_not_grow_without_bounds() -> None:
    session = Session(buffer_size=4)
    async with session.subscribe(capacity=1) as events:
        for _ in range(100):
            session.publish_ephemeral(MessageDelta("x" * 1000))
        got = await drain(events)
    sizes = [len(envelope.event.delta) for envelope in got if isinstance(envelope.event, MessageDelta)]
    assert max(sizes) <= MAX_MERGED + 1000
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
    assert slow.value.cursor == (2, 0)
    async with session.subscribe(since=Cursor(*slow.value.cursor), policy="disconnect") as events:
        assert [*got, *(await drain(events))] == session.log


async def test_a_subscriber_that_is_disconnected_hears_nothing_from_after_the_place_where_it_fell_behind() -> None:
    session = Session()
    async with session.subscribe(policy="disconnect", capacity=1) as events:
        session.publish(start("heard"))
        session.publish(start("too much"))
        assert (await events.__anext__()).event == start("heard")
        session.publish(start("later"))
        session.publish_ephemeral(MessageDelta("later"))
        with pytest.raises(SubscriberTooSlow) as slow:
            await events.__anext__()
    assert slow.value.cursor == (1, 0)


class Steps(trio.abc.Instrument):
    """Counts how often each task runs."""

    def __init__(self) -> None:
        self.of: Counter[str] = Counter()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.of[task.name] += 1


async def test_a_subscriber_is_woken_for_what_it_wants_to_hear_alone() -> None:
    session = Session()
    got: list[Event] = []
    steps = Steps()

    async def listen(*types: type[Event], task_status: trio.TaskStatus[None]) -> None:
        async with session.subscribe(types=types or None) as events:
            task_status.started()
            got.append((await events.__anext__()).event)

    async def show(doing: Callable[[], None]) -> tuple[int, int, int]:
        steps.of.clear()
        doing()
        await trio.testing.wait_all_tasks_blocked()
        return steps.of["all"], steps.of["ends"], steps.of["deltas"]

    trio.lowlevel.add_instrument(steps)
    async with trio.open_nursery() as nursery:
        await nursery.start(listen, name="all")
        await nursery.start(listen, AgentEnd, name="ends")
        await nursery.start(listen, MessageDelta, name="deltas")
        await trio.testing.wait_all_tasks_blocked()
        assert await show(lambda: session.publish_ephemeral(ThinkingDelta("a"))) == (1, 0, 0)
        assert await show(lambda: session.publish(start())) == (0, 0, 0)
        assert await show(lambda: session.publish_ephemeral(MessageDelta("b"))) == (0, 0, 1)
        assert await show(lambda: session.publish(end())) == (0, 1, 0)
    trio.lowlevel.remove_instrument(steps)
    assert got == [ThinkingDelta("a"), MessageDelta("b"), end()]


async def test_a_durable_event_waits_for_no_turn_and_deltas_before_it_are_heard_first() -> None:
    gate, passes = Gate(2), Passes()
    session, heard = Session(hearing=gate), list[tuple[int, Event]]()

    async def listen(*, task_status: trio.TaskStatus[None]) -> None:
        async with session.subscribe() as events:
            task_status.started()
            async for envelope in events:
                heard.append((passes.count, envelope.event))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.run)
        for _ in range(10):
            await nursery.start(listen)
        session.publish(start())
        await trio.testing.wait_all_tasks_blocked()
        heard.clear()
        trio.lowlevel.add_instrument(passes)
        session.publish_ephemeral(MessageDelta("a"))
        session.publish(end())
        await trio.testing.wait_all_tasks_blocked()
        assert heard == [(1, event) for _ in range(10) for event in (MessageDelta("a"), end())]
        session.publish_ephemeral(MessageDelta("b"))
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.remove_instrument(passes)
        assert Counter(event for _, event in heard[20:]) == {MessageDelta("b"): 10}
        assert set(Counter(number for number, _ in heard[20:]).values()) == {2}
        nursery.cancel_scope.cancel()


async def test_a_live_subscriber_that_falls_behind_does_not_read_the_whole_journal() -> None:
    session = Session()
    for number in range(100):
        session.publish(start(str(number)))
    async with session.subscribe(capacity=1) as events:
        for number in range(4):
            session.publish(start(f"live {number}"))
        assert len(await drain(events)) == 4
    assert session.reads <= 5


async def test_a_place_that_is_not_reached_yet_loses_nothing_when_the_subscriber_falls_behind() -> None:
    session = Session()
    session.publish(start())
    async with session.subscribe(since=Cursor(1000), capacity=2) as events:
        for number in range(5):
            session.publish(start(str(number)))
        got = await drain(events)
    assert cursors(got) == [(seq, 0) for seq in range(2, 7)]


async def test_a_replay_reads_no_record_from_before_its_place() -> None:
    session = Session()
    for number in range(100):
        session.publish(start(str(number)), end())
    for since, reads in (195, 1), (196, 1), (197, 1), (198, 0):
        session.reads = 0
        async with session.subscribe(since=Cursor(since)) as events:
            assert [envelope.seq for envelope in await drain(events)] == list(range(since + 1, 201))
        assert session.reads == reads, "what the log holds is not read"


async def test_a_subscriber_that_has_fallen_behind_reads_on_from_where_it_is() -> None:
    session = Session()
    async with session.subscribe(capacity=2) as events:
        for number in range(100):
            session.publish(start(str(number)))
            assert (await events.__anext__()).seq == number + 1
        for number in range(4):
            session.publish(start(str(number)))
        assert [envelope.seq for envelope in await drain(events)] == [101, 102, 103, 104]
    assert session.reads == 1


async def test_what_is_not_buffered_is_not_kept_for_anybody() -> None:
    session = Session(buffer_size=0)
    for _ in range(3):
        session.publish(start())
        session.publish_ephemeral(MessageDelta("a"))
        session.publish_ephemeral(MessageDelta("b"))
    assert session.events.after(Cursor(0)) == []
    assert session.events.dropped == Cursor(3, 2)


async def test_the_oldest_deltas_are_forgotten_first_whatever_they_are_behind() -> None:
    session = Session(buffer_size=3)
    for text in "abc":
        session.publish(start())
        session.publish_ephemeral(MessageDelta(text))
        session.publish_ephemeral(ThinkingDelta(text))
    remaining = [(envelope.seq, envelope.n, envelope.event) for envelope in session.events.after(Cursor(0))]
    assert remaining == [
        (2, 2, ThinkingDelta("b")),
        (3, 0, start()),
        (3, 1, MessageDelta("c")),
        (3, 2, ThinkingDelta("c")),
    ]
    assert session.events.dropped == Cursor(2, 1)
    assert [envelope.cursor for envelope in session.events.after(Cursor(3, 1))] == [Cursor(3, 2)]


def stretches() -> int:
    """Return how many stretches of events are in memory."""
    gc.collect()
    return sum(isinstance(thing, Stretch) for thing in gc.get_objects())


async def test_a_turn_of_many_steps_holds_no_more_than_the_last_ones() -> None:
    session = Session()
    session.publish(start())
    session.publish_ephemeral(MessageDelta("a"))
    for _ in range(REACH + 100):
        session.publish(start())
    assert len(session.events.after(Cursor(0))) == 1
    async with session.subscribe(since=Cursor(1)) as events:
        gap, *rest = await drain(events)
    assert gap.event == Gap(1, 0, 1, 1)
    assert cursors(rest) == [(seq, 0) for seq in range(2, REACH + 102)]


@pytest.mark.parametrize("types", [None, (AgentEnd,), (AgentEnd, MessageDelta)])
async def test_a_subscriber_that_does_not_read_holds_no_more_than_its_capacity(
    types: tuple[type[Event], ...] | None,
) -> None:
    session = Session(buffer_size=10)
    async with session.subscribe(types=types, policy="drop", capacity=3) as events:
        session.publish(end())
        old = stretches()
        for _ in range(100):
            session.publish(start())
            session.publish_ephemeral(ThinkingDelta("a"))
        session.publish(end())
        assert stretches() <= old + 3
        got = await drain(events)
    assert [envelope.event for envelope in got[:2]] == [end(), end() if types else start()]


async def test_a_session_that_is_over_holds_nothing() -> None:
    session = Session()
    session.publish(start())
    session.publish_ephemeral(MessageDelta("a"))
    session.publish(start("secret"))
    old_cursor = session.events.cursor
    session.events.close()
    assert (session.events.after(Cursor(0)), session.events.cursor) == ([], old_cursor)


async def test_readers_who_wait_anew_are_woken_anew() -> None:
    session, heard = Session(), list[Event]()

    async def listen(*, task_status: trio.TaskStatus[None]) -> None:
        async with session.subscribe() as events:
            task_status.started()
            async for envelope in events:
                heard.append(envelope.event)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            await nursery.start(listen)
        for text in "ab":  # each time they wait anew
            await trio.testing.wait_all_tasks_blocked()
            session.publish_ephemeral(MessageDelta(text))  # which wakes them
            session.publish_ephemeral(MessageDelta(text))  # which they need not be told
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert Counter(heard) == {MessageDelta("a"): 20, MessageDelta("b"): 20}


async def test_who_comes_with_a_filter_between_two_texts_hears_the_second() -> None:
    session = Session()
    async with session.subscribe() as everything:
        session.publish_ephemeral(MessageDelta("a"))
        async with session.subscribe(types=(MessageDelta,)) as texts:
            session.publish_ephemeral(MessageDelta("b"))
            assert [envelope.event for envelope in await drain(texts)] == [MessageDelta("b")]
        assert [envelope.event for envelope in await drain(everything)] == [MessageDelta("a"), MessageDelta("b")]


async def test_an_event_after_live_ones_were_let_go_is_dropped_too() -> None:
    session = Session()
    async with session.subscribe(policy="disconnect") as events:
        session.publish_ephemeral(MessageDelta("a"))
        events.let_go()
        session.publish_ephemeral(MessageDelta("b"))
        assert events.dropped == 2
        with pytest.raises(SubscriberTooSlow):
            await anext(events)
