"""The pool of tasks that run requests and tool calls."""

from __future__ import annotations

import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from functools import partial

import pytest
import trio
import trio.testing

from agentrail.runtime.shared.task_pool import MAX_SPARE, SPARE, TaskPool, Work

VAR: ContextVar[str] = ContextVar("VAR", default="unset")


class Noted(Work):
    """Work that notes what becomes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.task: trio.lowlevel.Task | None = None

    async def once(self, body: Callable[[], Awaitable[object]] = trio.lowlevel.checkpoint) -> None:
        """Be the work: note the task, and await *body*."""
        self.task = trio.lowlevel.current_task()
        self.seen.append(f"ran as {self.task.name}")
        await body()

    def raised(self, error: BaseException) -> None:
        """Note an exception."""
        self.seen.append(f"raised {type(error).__name__}")

    async def stopped(self) -> None:
        """Wait, which the cancelled scope would not let it do."""
        await trio.lowlevel.checkpoint()
        self.seen.append("stopped")

    def over(self) -> None:
        """Note the end."""
        self.seen.append("over")


async def settle() -> None:
    """Let all other tasks run until they wait."""
    await trio.testing.wait_all_tasks_blocked()


async def test_one_task_runs_one_work_after_the_other_under_their_names() -> None:
    works = [Noted() for _ in range(3)]
    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery)
        for number, work in enumerate(works):
            pool.start(work, work.once, f"work {number}")
            await settle()
        assert [work.seen for work in works] == [[f"ran as work {number}", "over"] for number in range(3)]
        assert [task.name for task in nursery.child_tasks] == [SPARE]
        assert {work.task for work in works} == nursery.child_tasks
        assert repr(pool) == f"<TaskPool 1 {SPARE}>"
        nursery.cancel_scope.cancel()
    assert repr(pool) == "<TaskPool empty>"


async def test_context_variables_are_those_of_the_caller_each_time() -> None:
    seen: list[str] = []

    async def body() -> None:
        seen.append(VAR.get())
        VAR.set("of the work")
        await trio.lowlevel.checkpoint()
        seen.append(VAR.get())

    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery)
        for name in ("one", "two"):
            VAR.set(name)
            work = Noted()
            pool.start(work, partial(work.once, body), name)
            await settle()
        nursery.cancel_scope.cancel()
    assert seen == ["one", "of the work", "two", "of the work"]


async def test_work_that_is_cancelled_ends_its_task_and_is_stopped_outside_of_the_scope() -> None:
    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery)
        work = Noted()
        pool.start(work, partial(work.once, trio.sleep_forever), "work")
        await settle()
        work.cancel()
        await settle()
        assert work.seen == ["ran as work", "stopped", "over"]
        assert nursery.child_tasks == frozenset()


@pytest.mark.parametrize("spare", [False, True])
async def test_work_that_is_cancelled_before_it_begins_ends_at_its_first_checkpoint(spare: bool) -> None:
    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery)
        if spare:
            pool.start(earlier := Noted(), earlier.once, "earlier")
            await settle()
        work = Noted()
        pool.start(work, partial(work.once, trio.sleep_forever), "work")
        work.cancel()
        await settle()
        assert work.seen == ["ran as work", "stopped", "over"]
        unheard = Noted()
        unheard.cancel()
        pool.start(unheard, partial(unheard.once, trio.sleep_forever), "unheard")
        await settle()
        assert unheard.seen == ["ran as unheard", "stopped", "over"]
        assert nursery.child_tasks == frozenset()


async def test_work_that_was_cancelled_before_it_takes_a_spare_task_ends_at_its_first_checkpoint() -> None:
    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery)
        pool.start(earlier := Noted(), earlier.once, "earlier")
        await settle()
        work = Noted()
        work.cancel()
        pool.start(work, partial(work.once, trio.sleep_forever), "work")
        await settle()
        assert work.seen == ["ran as work", "stopped", "over"]
        assert work.task is earlier.task
        assert nursery.child_tasks == frozenset()


async def test_work_that_is_cancelled_when_it_is_over_cancels_nothing_that_follows() -> None:
    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery)
        earlier, later = Noted(), Noted()
        pool.start(earlier, earlier.once, "earlier")
        await settle()
        pool.start(later, partial(later.once, trio.lowlevel.checkpoint), "later")
        earlier.cancel()
        await settle()
        assert later.seen == ["ran as later", "over"]
        assert later.task is earlier.task
        nursery.cancel_scope.cancel()


async def test_work_that_raises_ends_its_task_alone() -> None:
    async def body() -> None:
        raise ValueError

    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery)
        work = Noted()
        pool.start(work, partial(work.once, body), "work")
        await settle()
        assert work.seen == ["ran as work", "raised ValueError", "over"]
        assert nursery.child_tasks == frozenset()


async def test_an_error_in_the_end_of_work_is_not_swallowed() -> None:
    class Endless(Noted):
        def over(self) -> None:
            raise LookupError

    work = Endless()
    with pytest.RaisesGroup(LookupError):
        async with trio.open_nursery() as nursery:
            pool = TaskPool(nursery)
            pool.start(work, work.once, "work")
            await settle()
            nursery.cancel_scope.cancel()
    assert work.seen == ["ran as work"]


async def test_work_that_leaves_a_scope_open_fails_and_ends_its_task() -> None:
    async def numbers() -> AsyncGenerator[int, None]:
        with trio.CancelScope():
            yield 1
            yield 2

    actual = numbers()
    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery)
        work = Noted()
        pool.start(work, partial(work.once, actual.__anext__), "work")
        await settle()
        assert work.seen == ["ran as work", "raised RuntimeError", "over"]
        assert nursery.child_tasks == frozenset()
    await actual.aclose()


async def test_work_that_keeps_a_lock_ends_its_task_so_that_nobody_waits_for_it_forever() -> None:
    lock = trio.Lock()
    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery)
        work, later = Noted(), Noted()
        pool.start(work, partial(work.once, lock.acquire), "work")
        await settle()
        pool.start(later, partial(later.once, lock.acquire), "later")
        await settle()
        assert work.seen == ["ran as work", "over"]
        assert later.seen == ["ran as later", "raised BrokenResourceError", "over"]
        assert nursery.child_tasks == frozenset()


async def test_work_that_leaves_a_nursery_behind_ends_its_task() -> None:
    async def body() -> None:
        with suppress(RuntimeError), trio.CancelScope():
            await trio.open_nursery().__aenter__()

    work = Noted()
    with pytest.RaisesGroup(RuntimeError):
        async with trio.open_nursery() as nursery:
            pool = TaskPool(nursery)
            pool.start(work, partial(work.once, body), "work")
            await settle()
            work.seen.append("the task goes on")
            nursery.cancel_scope.cancel()
    assert work.seen == ["ran as work", "over"]


async def test_at_most_so_many_tasks_are_spare() -> None:
    works = [Noted() for _ in range(MAX_SPARE + 1)]
    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery)
        for work in works:
            pool.start(work, work.once, "work")
        await settle()
        assert all(work.seen == ["ran as work", "over"] for work in works)
        assert len(nursery.child_tasks) == MAX_SPARE
        nursery.cancel_scope.cancel()


async def test_a_spare_task_holds_nothing_of_its_work() -> None:
    async def body(held: Noted) -> None:
        VAR.set(held)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # anything can be held
        await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery)
        work = Noted()
        pool.start(work, partial(work.once, partial(body, work)), "work")
        await settle()
        removed = weakref.ref(work)
        del work
        assert removed() is None
        nursery.cancel_scope.cancel()


async def test_work_under_way_when_its_nursery_is_cancelled_is_over() -> None:
    async with trio.open_nursery() as nursery:
        pool = TaskPool(nursery)
        work = Noted()
        pool.start(work, partial(work.once, trio.sleep_forever), "work")
        await settle()
        nursery.cancel_scope.cancel()
    assert work.seen == ["ran as work", "over"]
