"""Frames that are ready go out together, in order, and a client that takes none is waited for."""

from __future__ import annotations

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.events import Cursor
from agentrail.host import HostLimits
from agentrail.host.http11 import response_writer
from agentrail.host.http11.response_writer import send_at_once
from agentrail.host.operations.event_frames import EventFrames
from agentrail.testing import ScriptedModel, say
from bench.rig import InstantModel
from tests.host.hosted import frames, open_desk

CHUNKS = 20
TURNS = 10


@pytest.mark.parametrize(("since", "writes"), [(None, 1), (Cursor(0), 2)], ids=["live", "past and live"])
async def test_events_that_are_ready_are_given_at_once(since: Cursor | None, writes: int) -> None:
    pieces: list[bytes] = []

    async def give(frames: bytes) -> bool:
        pieces.append(frames)
        await trio.lowlevel.checkpoint()
        return b"event: AgentEnd" not in frames

    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([say(chunks=["a"] * CHUNKS)])))
        async with session.subscribe(since=since) as events:
            await session.ask("hi")
            await EventFrames(HostLimits()).give_each(events, give)
    written = b"".join(pieces)
    deltas = [line for line in written.split(b"\n\n") if b"event: MessageDelta" in line]
    numbers = [int(delta.split(b"\n")[0].rpartition(b".")[2]) for delta in deltas]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == CHUNKS
    assert len(pieces) <= writes


async def test_a_streamed_request_has_few_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[bytes] = []

    def noted(stream: trio.abc.Stream, data: bytes) -> int:
        writes.append(data)
        return send_at_once(stream, data)

    monkeypatch.setattr(response_writer, "send_at_once", noted)
    async with open_desk(SessionSpec(model=InstantModel(chunks=CHUNKS))) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        writes.clear()
        for _ in range(TURNS):
            response = await desk.ann.post("/v1/stream", json={"message": "hi", "session": "trip"})
            assert [frame.get("event") for frame in frames(response.text)].count("MessageDelta") == CHUNKS
    assert all(write.startswith(b"HTTP/1.1 200 OK\r\n") for write in writes if b"HTTP/1.1" in write)
    assert sum(b"\r\n\r\n" in write and b":\n\n" in write for write in writes) == TURNS  # the head and the first piece
    ends = [write for write in writes if write.endswith(b"\r\n0\r\n\r\n")]
    assert [b"event: reply\n" in end for end in ends] == [True] * TURNS
    assert len(writes) <= 4 * TURNS  # two for the beginning and the end, and those of the events between
