"""Many sessions at once: one turn with one call each, ten milliseconds between chunks."""

from __future__ import annotations

import time

import trio
import trio.testing

from agentrail import SessionHandle, SessionSpec, open_supervisor
from bench import bare
from bench.rig import InstantModel, Note, listen

DELAY = 0.01
CHUNKS = 20


async def crowd(sessions: int) -> float:
    """Return the seconds that all sessions together take for one turn."""
    async with open_supervisor() as supervisor, trio.open_nursery() as nursery:
        spawned: list[SessionHandle] = []
        note = Note()
        for _ in range(sessions):
            spec = SessionSpec(model=InstantModel(1, CHUNKS, DELAY), tools=[note])
            spawned.append(await supervisor.spawn(spec))
            nursery.start_soon(listen, spawned[-1])
        await trio.testing.wait_all_tasks_blocked()
        began = time.perf_counter()
        async with trio.open_nursery() as asking:
            for session in spawned:
                asking.start_soon(session.ask, "go on")
        spent = time.perf_counter() - began
        nursery.cancel_scope.cancel()
    return spent


async def bare_crowd(sessions: int) -> float:
    """Return the same on bare Trio."""
    async with trio.open_nursery() as nursery:
        boxes: list[tuple[bare.Wake, bare.Wake]] = []
        for _ in range(sessions):
            box, events, done = bare.Wake(), bare.Wake(), bare.Wake()
            nursery.start_soon(bare.session, nursery, box, events, done, CHUNKS, DELAY)
            nursery.start_soon(bare.subscriber, events)
            boxes.append((box, done))
        await trio.testing.wait_all_tasks_blocked()
        began = time.perf_counter()
        async with trio.open_nursery() as asking:
            for box, done in boxes:
                box.put(("prompt", 1))
                asking.start_soon(done.take)
        spent = time.perf_counter() - began
        nursery.cancel_scope.cancel()
    return spent
