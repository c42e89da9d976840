"""Nurseries that raise an exception of the code in them as it is, and not in a group.

The tasks of `open_shielded_nursery` go on when the code around them is cancelled, until it has cleaned up.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import trio


@asynccontextmanager
async def open_shielded_nursery() -> AsyncGenerator[trio.Nursery, None]:
    """Open a nursery for the time of the `async with`; leaving it cancels what still runs there, and waits for it.

    A cancellation from outside reaches the code in the `async with` alone: what it does on its way out, such as
    waiting for open turns, may need the tasks. An exception of that code is raised as it is, not in a group.
    """
    failure: BaseException | None = None
    scope = trio.CancelScope()
    async with trio.open_nursery() as around:  # noqa: TID251 - it ends with the code in it
        nursery = await around.start(_hold_open, scope)
        # Shielded: with the first SIGTERM the whole program is cancelled, and turns are to finish all the same.
        # tests/host/test_signals.py::test_a_host_that_is_told_to_end_finishes_its_turns
        # Not before it has started: a caller that is cancelled while it enters would wait for the task for ever.
        # tests/test_nurseries.py::test_a_caller_that_is_cancelled_while_it_enters_goes_on
        scope.shield = True
        try:
            yield nursery
        except BaseException as error:  # noqa: BLE001, ASYNC103 - raised below; the nursery would put it into a group
            failure = error
        scope.cancel()
    if failure is not None:
        raise failure


async def _hold_open(scope: trio.CancelScope, task_status: trio.TaskStatus[trio.Nursery]) -> None:
    """Body of the task in which the nursery is open, until *scope* is cancelled."""
    with scope:
        async with trio.open_nursery() as nursery:  # noqa: TID251 - as above
            task_status.started(nursery)
            await trio.sleep_forever()
