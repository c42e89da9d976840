"""`LateTasks`: a task beside work begins only if the work lasts, and ends with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from agentrail.host.delayed_tasks import SOON, DelayedTasks


@asynccontextmanager
async def running() -> AsyncGenerator[DelayedTasks, None]:
    late = DelayedTasks()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(late.run)
        yield late
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("seconds", "begun"), [(SOON / 2, 0), (SOON * 2, 1)])
async def test_a_task_begins_if_the_work_lasts(seconds: float, begun: int, autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    texts: list[str] = []

    async def work() -> None:
        texts.append("begun")
        try:
            await trio.sleep_forever()
        finally:
            texts.append("ended")

    async with running() as late:
        for _ in range(2):
            async with late.beside(work):
                await trio.sleep(seconds)
            await trio.sleep(SOON * 2)
    assert texts == ["begun", "ended"] * 2 * begun


async def test_tasks_begin_when_each_is_due(autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    begun: list[float] = []

    async def work() -> None:
        begun.append(trio.current_time())
        await trio.sleep_forever()

    async def lasts(late: DelayedTasks, after: float) -> None:
        await trio.sleep(after)
        async with late.beside(work):
            await trio.sleep(1)

    began = trio.current_time()
    async with running() as late, trio.open_nursery() as nursery:
        for after in (0, 0.01, 0.5):
            nursery.start_soon(lasts, late, after)
    assert [round(time - began - SOON, 3) for time in begun] == [0, 0.01, 0.5]


async def test_an_exception_is_raised_as_it_is_and_ends_the_task(autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    texts: list[str] = []

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            texts.append("task")

    async def fail(late: DelayedTasks) -> None:
        async with late.beside(work):
            await trio.sleep(SOON * 2)
            raise KeyError("found")

    async with running() as late:
        with pytest.raises(KeyError, match="found"):
            await fail(late)
    assert texts == ["task"]


async def test_a_task_that_fails_ends_no_other(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    assert autojump_clock.autojump_threshold == 0

    async def fails() -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError

    async with running() as late:
        async with late.beside(fails):
            await trio.sleep(SOON * 2)
        async with late.beside(fails):
            await trio.sleep(SOON * 2)
    assert [record.getMessage() for record in caplog.records] == ["a task beside an answer failed"] * 2


async def test_a_cancellation_reaches_the_work_and_waits_for_the_task(autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    texts: list[str] = []

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)
            texts.append("task")

    async with running() as late:
        with trio.move_on_after(SOON * 2) as scope:
            async with late.beside(work):
                await trio.sleep_forever()
        texts.append("after")
    assert (scope.cancelled_caught, texts) == (True, ["task", "after"])
