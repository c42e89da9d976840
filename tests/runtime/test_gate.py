import math
from collections.abc import Callable

import trio
import trio.testing

from agentrail.runtime.shared.admission import Gate


class Passes(trio.abc.Instrument):
    """Counts the tasks that are admitted in each pass of the loop."""

    def __init__(self) -> None:
        self.admitted: list[int] = []
        self.now = 0

    def admit(self) -> None:
        self.now += 1

    def before_io_wait(self, timeout: float) -> None:
        del timeout
        self.admitted.append(self.now)
        self.now = 0


async def passes_of(gate: Gate, visitors: int) -> list[int]:
    """Return how many tasks are admitted in each pass."""
    passes = Passes()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.run)
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.add_instrument(passes)
        for _ in range(visitors):
            gate.enter(passes.admit)
        while sum(passes.admitted) < visitors:
            await trio.lowlevel.checkpoint()
        trio.lowlevel.remove_instrument(passes)
        nursery.cancel_scope.cancel()
    return passes.admitted


async def test_so_many_are_admitted_per_pass_and_no_more() -> None:
    admitted = await passes_of(Gate(3), 10)
    assert admitted == [3, 3, 3, 1]


async def test_those_that_fit_need_not_wait() -> None:
    assert await passes_of(Gate(8), 5) == [5]


async def test_a_gate_of_no_width_is_always_open() -> None:
    admitted: list[int] = []
    gate = Gate(math.inf)
    for number in range(1000):
        gate.enter(lambda number=number: admitted.append(number))  # type: ignore[misc]  # binds early
    assert admitted == list(range(1000))


async def test_visitors_are_admitted_in_the_order_they_came() -> None:
    gate = Gate(2)
    admitted: list[int] = []

    def visitor(number: int) -> Callable[[], None]:
        return lambda: admitted.append(number)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.run)
        await trio.testing.wait_all_tasks_blocked()
        for number in range(9):
            gate.enter(visitor(number))
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert admitted == list(range(9))


async def test_the_gate_opens_again_after_a_quiet_time() -> None:
    gate = Gate(1)
    admitted: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.run)
        for number in range(3):
            await trio.sleep(1)
            gate.enter(lambda number=number: admitted.append(number))  # type: ignore[misc]  # binds early
            assert admitted[-1] == number
        nursery.cancel_scope.cancel()


class Steps(trio.abc.Instrument):
    """Counts the steps of one task."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.count += task.name == self.name


async def test_the_task_of_the_gate_wakes_only_when_there_is_no_more_room() -> None:
    gate = Gate(4)
    steps = Steps("gate")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.run, name="gate")
        await trio.testing.wait_all_tasks_blocked()
        trio.lowlevel.add_instrument(steps)
        for visitors, woken in ((3, 0), (1, 1), (3, 0), (1, 1)):
            steps.count = 0
            for _ in range(visitors):
                gate.enter(lambda: None)
            await trio.testing.wait_all_tasks_blocked()
            assert steps.count == woken
        trio.lowlevel.remove_instrument(steps)
        nursery.cancel_scope.cancel()
