"""Stopping never waits, also in a busy house; in CPU time, which no neighbour disturbs."""

from __future__ import annotations

import gc
import time

import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.values.events.life import AgentAbort
from tests.benchmarks.load import EndlessModel, OneWord
from tests.benchmarks.rig import Forgetful


async def _aborts_beside_a_crowd(sessions: int, aborts: int) -> list[float]:
    taken: list[float] = []
    async with open_supervisor(journal=Forgetful()) as supervisor:
        spec = SessionSpec(model=OneWord(), max_prompt_queue=1_000_000)
        crowd = [await supervisor.spawn(spec) for _ in range(sessions)]
        aborted = await supervisor.spawn(SessionSpec(model=EndlessModel()))
        async with aborted.subscribe(types=(AgentAbort,)) as events:
            for _ in range(aborts):
                await aborted.prompt("go on")
                async with trio.open_nursery() as burst:
                    for session in crowd:
                        burst.start_soon(session.prompt, "go on")
                    await trio.lowlevel.checkpoint()
                    began = time.process_time()
                    burst.start_soon(aborted.abort, "measured")
                    await anext(events)
                    taken.append(time.process_time() - began)
    return taken


def test_an_abort_beside_a_hundred_prompted_sessions_is_heard_within_100_ms() -> None:
    gc.collect()
    gc.freeze()  # what the rest of the tests has piled up is none of the collector's business here
    try:
        taken = trio.run(_aborts_beside_a_crowd, 100, 200)
    finally:
        gc.unfreeze()
    assert len(taken) == 200
    assert max(taken) <= 0.1
