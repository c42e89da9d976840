import trio
import trio.testing

from agentrail.runtime.shared.reply_slot import Slot


async def test_a_value_that_is_there_is_returned_at_once() -> None:
    slot: Slot[int] = Slot()
    slot.settle(1)
    assert await slot.wait() == 1


async def test_a_waiter_gets_the_value_when_it_comes() -> None:
    slot: Slot[int] = Slot()
    got: list[int] = []

    async def wait() -> None:
        got.append(await slot.wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        slot.settle(2)
    assert got == [2]


async def test_only_the_first_value_counts() -> None:
    slot: Slot[int] = Slot()
    slot.settle(1)
    slot.settle(2)
    assert await slot.wait() == 1


async def test_a_waiter_that_left_does_no_harm() -> None:
    slot: Slot[int] = Slot()
    with trio.move_on_after(1) as scope:
        await slot.wait()
    assert scope.cancelled_caught
    slot.settle(3)
    assert await slot.wait() == 3


async def test_a_waiter_cancelled_in_the_pass_of_the_value_keeps_the_value() -> None:
    slot: Slot[int] = Slot()
    got: list[int] = []

    async def wait() -> None:
        got.append(await slot.wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        slot.settle(4)
        nursery.cancel_scope.cancel()
    assert got == [4]


async def test_of_several_waiters_one_may_leave() -> None:
    slot: Slot[int] = Slot()
    got: list[int] = []

    async def wait(patience: float) -> None:
        with trio.move_on_after(patience):
            got.append(await slot.wait())

    async with trio.open_nursery() as nursery:
        for patience in (10.0, 1.0, 10.0):
            nursery.start_soon(wait, patience)
        await trio.sleep(2)
        slot.settle(5)
    assert got == [5, 5]
