"""`TaskStream`: follows a task from the events of its session, until it is over or waits for somebody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, cast

import trio
from attrs import define

from agentrail.a2a.shapes import (
    SUBMITTED,
    WORKING,
    Shape,
    TaskName,
    artifact_update,
    is_completed,
    status_of,
    status_update,
)
from agentrail.a2a.task_calls import Outcome, TaskCalls
from agentrail.a2a.task_frames import TaskFrames
from agentrail.errors import AgentrailError
from agentrail.events import AgentAbort, AgentEnd, Cursor, Envelope, PromptReceived
from agentrail.host import SessionEvents

SendFrame: TypeAlias = Callable[[Shape, Cursor | None], Awaitable[None]]
"""Sends a frame, with the position from which its client goes on after it; `None`: from where it was before."""


@define
class Rest:
    """When a task has come to rest."""

    position: Cursor | None = None
    """Position of the session then; `None` as long as it is at work."""
    scope: trio.CancelScope | None = None
    """Scope of the wait for the next event."""


class TaskStream:
    """The stream of one task to one client."""

    def __init__(self, tasks: TaskCalls, task: TaskName, events: SessionEvents, send: SendFrame) -> None:
        self._tasks = tasks
        self._task = task
        self._events = events
        self._send = send
        self._position = events.position
        """Position of the last event that was read."""

    async def follow(self, after: Cursor | None = None) -> None:
        """Send the frames of the task; with *after*, those after this position, which its client has already."""
        outcome = await self._tasks.outcome(self._task)
        turn = 0 if isinstance(outcome, AgentrailError) else int(str(outcome["turn"]))
        goes_on = not isinstance(outcome, AgentrailError) and (turn or outcome["stop_reason"] == "running")
        frames = TaskFrames(self._task, turn, continues=after is not None)
        if not goes_on:
            await self._replay(frames, outcome, after)
            return
        if after is None:
            await self._send_state(status_of(WORKING if turn else SUBMITTED))
        while True:
            await self._follow_to_rest(frames, after)
            if frames.is_over:
                return
            outcome = await self._tasks.outcome(self._task)
            if isinstance(outcome, AgentrailError) or outcome["stop_reason"] != "running":
                await self._send_outcome(outcome)
                return

    async def _send_state(self, status: Shape) -> None:
        shape = {"id": self._task.id, "contextId": self._task.session, "status": status}
        await self._send({"task": shape}, None)

    async def _send_outcome(self, outcome: Outcome) -> None:
        """Tell how the task stands, for which there is no event that would tell it."""
        shape = await self._tasks.shape(self._task, outcome, 0)
        await self._send(status_update(self._task, cast("Shape", shape["status"])), None)

    async def _replay(self, frames: TaskFrames, outcome: Outcome, after: Cursor | None) -> None:
        """Send the frames of a task that is over, as far as they come after the position of the events."""
        until = await self._tasks.calls.position(self._task.session)
        held_back: list[tuple[Sequence[Shape], Cursor]] = []
        while not frames.is_over and self._position.seq < until.seq:
            envelope = await anext(self._events, None)
            if envelope is None:
                break
            self._position = envelope.cursor
            if isinstance(envelope.event, PromptReceived | AgentEnd | AgentAbort):
                is_own = envelope.event.ref == self._task.ref
                if not is_own or isinstance(envelope.event, PromptReceived):
                    held_back.clear()  # they were of another turn
            frames.turn = envelope.turn
            held_back.append((frames.of(envelope), envelope.cursor))
        if not frames.is_over:
            if after is None:
                await self._send({"task": await self._tasks.shape(self._task, outcome)}, None)
            return
        if after is None:
            await self._send_state(status_of(WORKING))
        for shapes, cursor in held_back:
            await self._give(shapes, cursor, after)

    async def _give(self, shapes: Sequence[Shape], cursor: Cursor, after: Cursor | None) -> None:
        """Send the frames of one event, unless the client has them."""
        if after is not None and cursor <= after:
            return
        for shape in shapes[:-1]:
            await self._send(shape, None)
        for shape in shapes[-1:]:
            if is_completed(shape):
                for artifact in await self._tasks.files(self._task):
                    await self._send(artifact_update(self._task, artifact), None)
            await self._send(shape, cursor)

    async def _follow_to_rest(self, frames: TaskFrames, after: Cursor | None) -> None:
        """Send the frames of events until the task is over, or waits for somebody, or there are no events."""
        failures: list[Exception] = []
        async with trio.open_nursery() as nursery:  # noqa: TID251 - the other task ends with the stream
            rest = Rest()
            nursery.start_soon(self._wait_rest, rest)
            try:
                while not frames.is_over and (envelope := await self._next(rest)) is not None:
                    self._position = envelope.cursor
                    await self._give(frames.of(envelope), envelope.cursor, after)
            except Exception as error:  # noqa: BLE001 - raised below; the nursery would put it into a group
                failures.append(error)
            nursery.cancel_scope.cancel()
        if failures:
            raise failures[0]

    async def _wait_rest(self, rest: Rest) -> None:
        """Body of the task that finds out when the task comes to rest."""
        try:
            await self._tasks.outcome(self._task, wait=True)
            rest.position = await self._tasks.calls.position(self._task.session)
        except AgentrailError:  # the events end too, and tell why
            return
        if rest.scope is not None:
            rest.scope.cancel()

    async def _next(self, rest: Rest) -> Envelope | None:
        """Return the next event; `None` if there is none before the task came to rest."""
        while rest.position is None or self._position.seq < rest.position.seq:
            with trio.CancelScope() as rest.scope:
                return await anext(self._events, None)
        return None
