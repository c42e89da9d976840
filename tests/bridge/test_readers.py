"""What a reader has entered on Trio is left there, whatever crosses; and what it has read is where it goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Self, TypeAlias, cast

import pytest
import trio

from agentrail import Subscription
from agentrail.bridge.bridge_reader import BridgeEventReader, BridgeReader, HeldOpen
from agentrail.bridge.trio_thread import TrioThread
from agentrail.errors import AlreadyRead
from agentrail.events import Cursor, Envelope
from agentrail.runtime.events.replay import gap_between
from agentrail.values import events as e
from tests.bridge.loops import bare_thread, plain, until
from tests.patience import PATIENCE


class Source:
    """What is entered on Trio: it has no item, and is left when the test says so."""

    def __init__(self) -> None:
        self.may_begin = trio.Event()
        self.has_begun = threading.Event()
        self.is_left = False
        self.may_be_left = trio.Event()
        self.leaves = threading.Event()

    async def __aenter__(self) -> Self:
        await self.may_begin.wait()
        self.has_begun.set()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with trio.CancelScope(shield=True):
            self.leaves.set()
            await self.may_be_left.wait()
            self.is_left = True

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        await trio.sleep_forever()
        raise AssertionError


Enter: TypeAlias = Callable[[TrioThread[object], Source], Coroutine[object, object, object]]


def enter_reader(thread: TrioThread[object], source: Source) -> Coroutine[object, object, object]:
    return BridgeReader(thread, source, 1).enter()


def hold_open(thread: TrioThread[object], source: Source) -> Coroutine[object, object, object]:
    return HeldOpen(thread, source).enter()


def let_run(thread: TrioThread[object]) -> None:
    """Block this loop until Trio has done what it can."""
    done = threading.Event()
    thread.post(done.set)
    assert done.wait(PATIENCE)


@pytest.mark.parametrize("enter", [enter_reader, hold_open])
def test_who_is_cancelled_as_the_source_has_been_entered_waits_until_it_is_left(enter: Enter) -> None:
    async def main() -> None:
        async with bare_thread() as bare:
            thread, source = cast("TrioThread[object]", bare), Source()
            entering = asyncio.create_task(enter(thread, source))
            await asyncio.sleep(0)
            thread.post(source.may_begin.set)  # not before it waits: it would return at once
            assert source.has_begun.wait(PATIENCE)  # this loop does not hear of it yet
            let_run(thread)
            entering.cancel()
            await until(source.leaves.is_set)
            waits = not entering.done()
            thread.post(source.may_be_left.set)
            assert waits
            with pytest.raises(asyncio.CancelledError):
                await entering
            assert source.is_left

    plain(main)


def test_one_task_at_a_time_waits_for_an_item() -> None:
    async def main() -> None:
        async with bare_thread() as bare:
            thread, source = cast("TrioThread[object]", bare), Source()
            source.may_begin.set()
            source.may_be_left.set()
            reader = BridgeReader[str](thread, source, 1)
            await reader.enter()
            first = asyncio.create_task(reader.next())
            await asyncio.sleep(0)
            with pytest.raises(AlreadyRead):
                await asyncio.wait_for(reader.next(), PATIENCE)
            assert reader.next_now() is None
            first.cancel()
            await reader.leave()

    plain(main)


class Events:
    """A subscription of which all events are there; the second one is a `Gap`."""

    position = Cursor(2)

    def __init__(self) -> None:
        self.items = [Envelope("s", seq, 0, 0, 1, 1, e.AgentStart("p")) for seq in (3, 6, 7, 8)]
        self.items.insert(1, gap_between("s", Cursor(3), Cursor(5, 9)))
        self.most: list[int] = []
        """How many events the reader would have taken at once, each time."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Be left."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Envelope:
        if not self.items:
            raise StopAsyncIteration
        return self.items.pop(0)

    def take_now(self, most: int) -> list[Envelope]:
        self.most.append(most)
        taken, self.items = self.items[:most], self.items[most:]
        return taken


async def read_events(bare: TrioThread[None], window: int, events: Events) -> list[tuple[int, Cursor]]:
    """Return the number of each event, with the reader's position after it."""
    reader = BridgeEventReader(cast("TrioThread[object]", bare), cast("Subscription", events), window)
    await reader.enter()
    assert reader.position == Cursor(2)
    read = [((await reader.next()).seq, reader.position) for _ in range(5)]
    with pytest.raises(StopAsyncIteration):
        await reader.next()
    await reader.leave()
    return read


def test_a_gap_moves_nobody_on_as_events_that_are_kept_may_follow() -> None:
    async def main() -> None:
        async with bare_thread() as bare:
            read = await read_events(bare, 256, Events())
            assert read == [(seq, Cursor(seq)) for seq in (3, 3, 6, 7, 8)]

    plain(main)


@pytest.mark.parametrize("window", [1, 2, 3])
def test_events_that_are_taken_at_once_fill_the_window_and_no_more(window: int) -> None:
    async def main() -> None:
        async with bare_thread() as bare:
            events = Events()
            assert len(await read_events(bare, window, events)) == 5
            assert events.most[0] == window - 1
            assert max(events.most) < window

    plain(main)
