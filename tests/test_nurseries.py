"""`open_shielded_nursery`: entering it, and what a cancellation reaches."""

import threading

import trio
import trio.testing

from agentrail.nurseries import open_shielded_nursery


def test_a_caller_that_is_cancelled_while_it_enters_goes_on() -> None:
    """In a thread of its own: without the fix the run never ends."""
    ended: list[str] = []

    async def main() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            async with open_shielded_nursery():
                ended.append("entered")
        ended.append("left")

    thread = threading.Thread(target=trio.run, args=(main,), daemon=True)
    thread.start()
    thread.join(30)
    assert ended == ["left"]


async def test_a_cancellation_from_outside_reaches_the_tasks_after_the_code() -> None:
    told: list[str] = []

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            told.append("task")

    with trio.CancelScope() as scope:
        async with open_shielded_nursery() as nursery:
            nursery.start_soon(work)
            try:
                scope.cancel()
                await trio.lowlevel.checkpoint()
            finally:
                with trio.CancelScope(shield=True):
                    await trio.testing.wait_all_tasks_blocked()
                told.append("code")
    assert told == ["code", "task"]
