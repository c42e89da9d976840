"""A client may send any schema for an answer: what it takes to read does not hold up the sessions of others."""

from __future__ import annotations

import gc
import json
import time

import httpx
import pytest
import trio
from trio.lowlevel import Task

from tests.host.hosted import open_desk, scripted
from tests.opcodes import counted_opcodes
from tests.tools.large_schemas import LARGE_SCHEMAS

MOST_OPCODES = 2_500_000
"""Instructions of the event loop that a prompt with a schema of 64 kB may take; reading its patterns takes twice as
many."""

MOST_SECONDS = 0.02
"""Seconds for which a prompt may hold the event loop."""


def body_with(name: str) -> str:
    """Return the body of a prompt with a large schema."""
    return json.dumps({"message": "hi", "returns": LARGE_SCHEMAS[name]()})


async def prompted(client: httpx.AsyncClient, body: str) -> int:
    """Prompt; return the status."""
    response = await client.post("/v1/sessions/trip/prompt", content=body, headers={"content-type": "application/json"})
    return response.status_code


@pytest.mark.long
async def test_a_schema_is_read_beside_the_event_loop() -> None:
    async with open_desk(scripted("hello", "hello", "hello")) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        assert await prompted(desk.ann, body_with("patterns")) in {202, 422}  # what is imported late
        body = body_with("patterns of 4 kB")
        with counted_opcodes() as counted:
            assert await prompted(desk.ann, body) in {202, 422}
        assert counted[0] < MOST_OPCODES


class LongestStep(trio.abc.Instrument):
    """Measures the longest step of a task, in seconds of CPU of the event loop."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._begun = time.thread_time()

    def before_task_step(self, task: Task) -> None:
        self._begun = time.thread_time()

    def after_task_step(self, task: Task) -> None:
        self.seconds = max(self.seconds, time.thread_time() - self._begun)


@pytest.mark.campaign
@pytest.mark.long
@pytest.mark.parametrize("name", LARGE_SCHEMAS)
async def test_no_schema_of_64_kb_holds_the_event_loop(name: str) -> None:
    async with open_desk(scripted("hello", "hello", "hello")) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        await prompted(desk.ann, body_with("long names"))
        body = body_with(name)
        gc.collect()
        longest = LongestStep()
        trio.lowlevel.add_instrument(longest)
        assert await prompted(desk.ann, body) in {202, 400, 422}
        trio.lowlevel.remove_instrument(longest)
        assert longest.seconds < MOST_SECONDS
