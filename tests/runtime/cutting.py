"""Cancels an operation at one of its checkpoints."""

from collections.abc import Awaitable, Callable

import trio


class Nth(trio.abc.Instrument):
    """Cancels *scope* when *task* has stopped at a checkpoint for the nth time, from 0 on."""

    def __init__(self, moment: int, task: trio.lowlevel.Task, scope: trio.CancelScope) -> None:
        self._left = moment
        self._task = task
        self._scope = scope

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            if not self._left:
                self._scope.cancel()
            self._left -= 1


async def cut(moment: int, operation: Callable[[], Awaitable[object]]) -> bool:
    """Run *operation*, cancel it at its checkpoint number *moment*; return whether it was there to be cancelled."""
    with trio.CancelScope() as scope:
        nth = Nth(moment, trio.lowlevel.current_task(), scope)
        trio.lowlevel.add_instrument(nth)
        try:
            await operation()
        finally:
            trio.lowlevel.remove_instrument(nth)
    return scope.cancel_called
