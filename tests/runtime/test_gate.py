import math
from collections.abc import Callable

import trio
import trio.testing

from agentrail.runtime.gate import Gate


async def passes_of(gate: Gate, visitors: int) -> list[int]:
    """Return how many are admitted in each pass."""
    admitted: list[int] = []
    now = 0

    def admit() -> None:
        nonlocal now
        now += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(gate.run)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(visitors):
            gate.enter(admit)
        while sum(admitted) + now < visitors:
            admitted.append(now)
            now = 0
            await trio.lowlevel.checkpoint()
        admitted.append(now)
        nursery.cancel_scope.cancel()
    return admitted


async def test_so_many_are_admitted_per_pass_and_no_more() -> None:
    admitted = await passes_of(Gate(3), 10)
    assert sum(admitted) == 10
    for passed in range(len(admitted)):  # the gate may run before or after us in a pass
        assert sum(admitted[: passed + 1]) <= 3 * (passed + 2)


async def test_those_that_fit_need_not_wait() -> None:
    assert (await passes_of(Gate(8), 5))[0] == 5


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
