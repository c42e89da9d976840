"""Stopping never waits, also in a busy house: what runs from an abort to its event is counted, not timed."""

from __future__ import annotations

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.events import AgentAbort
from agentrail.journals import MemoryJournal
from bench.load import EndlessModel, OneWord
from tests.opcodes import counted_opcodes

pytestmark = pytest.mark.long

MOST_OPCODES = 600_000
"""Twice the most that was seen, and half of what the turns of the crowd take."""


async def _aborts_beside_a_crowd(sessions: int, aborts: int) -> list[int]:
    """Return the opcodes of all tasks from each abort to its event."""
    taken: list[int] = []
    async with open_supervisor(journal=MemoryJournal(keep=1)) as supervisor:
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
                    with counted_opcodes() as counted:
                        burst.start_soon(aborted.abort, "measured")
                        await anext(events)
                    taken.append(counted[0])
    return taken


def test_an_abort_beside_a_hundred_prompted_sessions_is_heard_before_they_have_their_turns() -> None:
    taken = trio.run(_aborts_beside_a_crowd, 100, 40)
    assert len(taken) == 40
    assert max(taken) <= MOST_OPCODES
