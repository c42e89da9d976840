"""The nursery of everything under a supervisor, and how it is left although something in it never ends.

A nursery cannot be left while a task lives in it. So this one belongs to a system task of Trio and not to the task that
has opened the supervisor: that one waits for it as long as it may, and is free then. What is left behind goes on, and
`trio.run` waits for it when everything else has ended: nothing can end a task that does not heed its cancellation but
the end of the process.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import copy_context
from typing import Final, cast

import trio

from agentrail.runtime.diagnosis.stacks import ROOF, called, place_of, tasks_in, threads_among
from agentrail.runtime.shared.sanitize import traced

log = logging.getLogger("agentrail.supervisor")

THE_END: Final = "the end of the supervisor"


class Roof:
    """Keeps a nursery open until its supervisor is left, and cancels its *body* if the nursery breaks."""

    def __init__(self, body: trio.CancelScope) -> None:
        self.error: BaseException | None = None
        self.nursery: trio.Nursery
        self._body = body
        self._end: Callable[[], Awaitable[None]] = _nothing
        self._ending = trio.CancelScope(shield=True)
        self._has_ended = False
        self._left = False
        self._opened, self._told, self._over = trio.Event(), trio.Event(), trio.Event()
        self._task: trio.lowlevel.Task

    async def open(self) -> trio.Nursery:
        """Return the nursery."""
        self._task = trio.lowlevel.spawn_system_task(self._stand, name=ROOF, context=copy_context())
        with trio.CancelScope(shield=True):
            await self._opened.wait()
        return self.nursery

    async def _stand(self) -> None:
        """Hold the nursery, and then end what is in it.

        It is shielded, so that a cancellation from outside reaches the body first: sessions are stopped in order, and
        each of them has its time.
        """
        try:
            with trio.CancelScope(shield=True):
                async with trio.open_nursery() as nursery:  # noqa: TID251 - the one nursery that everything hangs in
                    self.nursery = nursery
                    self._opened.set()
                    try:
                        await self._told.wait()
                    finally:
                        self._body.cancel()
                        with self._ending:
                            await self._told.wait()  # noqa: ASYNC102 - it ends within its time
                            await self._end()  # noqa: ASYNC102 - it ends within its time
                        self._has_ended = True
                        nursery.cancel_scope.cancel()
        except BaseException as error:  # noqa: BLE001, ASYNC103 - it is raised where the supervisor is left; here it would end the run
            self.error = alone(error)
            if self._left:
                log.error("what a supervisor has left behind broke: %s", traced(self.error))  # noqa: TRY400
        finally:
            self._over.set()

    async def leave(
        self,
        patience: trio.CancelScope,
        last: Callable[[], float],
        end: Callable[[], Awaitable[None]] | None,
        cut: Callable[[], None] | None,
    ) -> bool:
        """Have it *end* in order; *cut* it short when the *patience* is over; return whether all has ended soon after.

        That is within *last* seconds.
        """
        self._end = end or _nothing
        self._told.set()
        with patience:
            await self._over.wait()
        if not self._over.is_set():
            if cut is not None:
                cut()
            self._ending.cancel()
            self.nursery.cancel_scope.cancel()
            with trio.move_on_after(last(), shield=True):
                await self._over.wait()
        self._left = not self._over.is_set()
        return not self._left

    def left(self, threads: Mapping[int, str]) -> tuple[str, ...]:
        """Return each task that has not ended, and each thread that keeps one from it or is among *threads*.

        They are in words, each with the place where it stands.
        """
        tasks = tuple(tasks_in(self.nursery))
        said = [f"task `{called(task)}` at {place_of(task)}" for task in tasks]
        if not self._has_ended:
            said.append(f"{THE_END} at {place_of(self._task)}")
        names = {task.name for task in (*tasks, self._task)}
        said += [f"thread `{name}` at {place}" for name, place in threads_among(names, threads)]
        return tuple(said)


async def _nothing() -> None:
    await trio.lowlevel.checkpoint()


def alone(error: BaseException) -> BaseException:
    """Return the one exception that a nursery has wrapped, or the group if there are more."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return group if len(group.exceptions) > 1 else next(iter(group.exceptions))
