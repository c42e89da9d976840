"""Subscriptions, traces and monitors on asyncio."""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress

import pytest

from agentrail import SessionSpec, aio
from agentrail.errors import (
    AlreadyLeft,
    AlreadyRead,
    JournalFull,
    NotEntered,
    SubscriberTooSlow,
    UnknownCursor,
    UsageError,
)
from agentrail.events import AgentEnd, Event, Gap, MessageDelta
from agentrail.testing import ScriptedModel, say, stall
from tests.bridge.loops import Run, on_each_loop, plain, until
from tests.patience import PATIENCE
from tests.runtime.journals import TestJournal

ANSWERS = SessionSpec(model=ScriptedModel(["hello there"], repeat_last=True))
STALLS = SessionSpec(model=ScriptedModel([stall()], repeat_last=True))


def flood(chunks: int) -> SessionSpec:
    return SessionSpec(model=ScriptedModel([say(chunks=["x"] * chunks)], repeat_last=True))


async def events_until_end(events: aio.Subscription) -> list[Event]:
    received: list[Event] = []
    async for envelope in events:
        received.append(envelope.event)
        if isinstance(envelope.event, AgentEnd):
            break
    return received


@on_each_loop
def test_no_event_after_entering_is_missed(run: Run) -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(ANSWERS)
            for window in (1, 256):
                async with session.subscribe(window=window) as events:
                    await session.prompt("hi")
                    names = [type(event).__name__ for event in await events_until_end(events)]
                    assert names[:2] == ["PromptReceived", "AgentStart"]
                    assert names.count("MessageDelta") == 2

    run(main)


def test_a_subscriber_goes_on_after_a_cursor() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(ANSWERS)
            async with session.subscribe() as events:
                await session.ask("hi")
                await events_until_end(events)
                position = events.position
            await session.ask("again")
            async with session.subscribe(since=position) as events:
                names = [type(event).__name__ for event in await events_until_end(events)]
                assert names[:2] == ["Gap", "PromptReceived"]  # deltas of a turn that is over are not kept
            with pytest.raises(UnknownCursor):
                session.subscribe(since=9999)

    plain(main)


def test_a_reader_that_stops_leaves_its_window_in_the_bridge_and_the_rest_to_the_policy() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(flood(3000))
            async with session.subscribe(window=64, capacity=100) as events:
                await session.ask("go")  # the turn ends although nobody reads
                assert events.waiting <= 64 + 100 + 3
                read = await events_until_end(events)
                assert sum(len(event.delta) for event in read if isinstance(event, MessageDelta)) == 3000
                assert not any(isinstance(event, Gap) for event in read)
                assert events.merged > 0

    plain(main)


def test_events_that_wait_are_counted_wherever_they_are() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(ANSWERS)
            async with session.subscribe() as events, session.subscribe() as unread:
                await session.ask("hi")
                count = len(await events_until_end(events))
                async with asyncio.timeout(PATIENCE):
                    await until(lambda: unread.waiting == count)
                for left in range(count - 1, -1, -1):
                    assert unread.next_now() is not None
                    assert unread.waiting == left

    plain(main)


def test_a_slow_subscriber_is_disconnected_if_it_wants_that() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(flood(3000))
            async with session.subscribe(policy="disconnect", window=8, capacity=16) as events:
                await session.ask("go")
                with pytest.raises(SubscriberTooSlow):
                    await events_until_end(events)

    plain(main)


@on_each_loop
def test_streams_end_when_the_supervisor_is_left(run: Run) -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(ANSWERS)
            entered = asyncio.Event()

            async def read() -> int:
                async with session.subscribe() as events:
                    entered.set()
                    return len([envelope async for envelope in events])

            reading = asyncio.create_task(read())
            await entered.wait()
            await session.label()
        assert await reading >= 0

    run(main)


def test_a_subscription_is_read_inside_of_its_async_with_by_one_task() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(ANSWERS)
            events = session.subscribe()
            with pytest.raises(NotEntered):
                await anext(events)
            async with events:
                first = asyncio.create_task(anext(events))
                await asyncio.sleep(0)
                with pytest.raises(AlreadyRead):
                    await anext(events)
                await session.ask("hi")
                await first
                assert events.next_now() is not None
            with pytest.raises(AlreadyLeft):
                await anext(events)
            assert events.next_now() is None

    plain(main)


@on_each_loop
def test_a_reader_that_is_cancelled_leaves_its_subscription(run: Run) -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(STALLS)

            async def read() -> None:
                async with session.subscribe() as events:
                    async for _ in events:
                        pass

            for turns in range(30):
                reading = asyncio.create_task(read())
                for _ in range(turns % 10):
                    await asyncio.sleep(0)
                reading.cancel()
                await asyncio.wait([reading])
                assert reading.cancelled()
            assert "subscription" not in repr(session)

    run(main)


def test_a_trace_shows_the_steps_and_a_monitor_the_end() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(ANSWERS)
            async with session.trace() as steps, session.monitor() as down:
                await session.ask("hi")
                assert type((await anext(steps)).input).__name__ == "PromptSent"
                waiting = asyncio.create_task(down.wait())
                await session.stop("enough")
                assert (await waiting).reason == "enough"

    plain(main)


def test_a_prompt_has_its_reply_later_under_its_command_id() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(ANSWERS)
            assert (await session.prompt("hi", command="hi")).ref
            assert (await session.ask("hi", command="hi")).text == "hello there"
            assert (await session.ask("hi", command="hi")).text == "hello there"
            await until(lambda: session.status().phase == "idle")

    plain(main)


def test_a_monitor_tells_that_the_journal_cannot_be_written() -> None:
    async def main() -> None:
        journal = TestJournal()
        async with aio.open_supervisor(journal=journal) as supervisor:
            session = await supervisor.spawn(ANSWERS)
            problems: list[str] = []
            async with session.monitor() as down:
                end = down.when_stuck(lambda problem: problems.append(type(problem).__name__))
                journal.failing = lambda _: JournalFull("no space")
                prompting = asyncio.create_task(session.prompt("hi"))
                await until(lambda: problems)
                end()
                journal.failing = None
                await prompting
            assert set(problems) == {"JournalFull"}

    plain(main)


@pytest.mark.parametrize("way", ["call", "refusal", "subscription", "cancellation"])
def test_nothing_is_left_for_the_collector(way: str) -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session, other = await supervisor.spawn(ANSWERS), await supervisor.spawn(STALLS)

            async def once() -> None:
                match way:
                    case "call":
                        await session.resume()
                    case "refusal":
                        with suppress(UsageError):
                            await session.approve("nothing")
                    case "subscription":
                        async with session.subscribe():
                            pass
                    case _:
                        with suppress(TimeoutError):
                            await asyncio.wait_for(other.monitor().wait(), 0)

            for _ in range(20):
                await once()
            gc.collect()
            gc.disable()
            try:
                for _ in range(20):
                    await once()
                assert gc.collect() < 20
            finally:
                gc.enable()

    plain(main)
