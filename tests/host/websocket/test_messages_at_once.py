"""Messages that are ready go out together, in order, within the bounds of a WebSocket."""

from __future__ import annotations

from functools import partial

import pytest
import trio
import trio.testing

from agentrail import SessionSpec
from agentrail.host.http11 import web_socket
from agentrail.host.http11.response_writer import send_at_once
from agentrail.host.operations.event_frames import AT_ONCE
from agentrail.host.websocket.send_queue import MAX_AT_ONCE, SendQueue
from bench.rig import InstantModel
from tests.host.hosted import open_desk
from tests.host.websocket.talking import Talker, talking
from tests.passes import Passes

CHUNKS = 20
TURNS = 10


async def turns(talker: Talker) -> None:
    """Have turns, each of which is heard whole."""
    for turn in range(TURNS):
        await talker.say(id=f"{turn}", call="chat", body={"message": "hi", "session": "trip"})
        heard = [await talker.heard()]
        while {"answer", "end"} - {_kind(frame) for frame in heard}:
            heard.append(await talker.heard())
        assert [frame.get("event") for frame in heard].count("MessageDelta") == CHUNKS
        cursors = [tuple(map(int, str(frame["cursor"]).split("."))) for frame in heard if "event" in frame]
        assert cursors == sorted(set(cursors))


def _kind(message: dict[str, object]) -> str:
    return "answer" if "status" in message else "end" if message.get("event") == "AgentEnd" else ""


async def test_events_that_are_ready_go_out_in_few_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[bytes] = []

    def noted(stream: trio.abc.Stream, data: bytes) -> int:
        writes.append(data)
        return send_at_once(stream, data)

    monkeypatch.setattr(web_socket, "send_at_once", noted)
    async with open_desk(SessionSpec(model=InstantModel(chunks=CHUNKS))) as desk, talking(desk) as talker:
        await talker.ask("open_session", body={"session": "trip"})
        await talker.say(id="e", listen="events", session="trip")
        await talker.heard()
        writes.clear()
        await turns(talker)
    assert len(writes) <= 6 * TURNS  # of more than 25 messages each: the events come in a few lots, then the answer


async def test_a_writer_is_given_all_that_waits_up_to_so_many_bytes() -> None:
    send_queue = SendQueue(10 * AT_ONCE)
    half = b"x" * (AT_ONCE // 2)
    send_queue.put_now(b"a", b"b")
    for frame in (b"c", half, half, b"d"):
        await send_queue.put(partial(bytes, frame))
    assert await send_queue.first() == [b"a", b"b", b"c", half, half]
    assert send_queue.unsent == AT_ONCE + 4
    send_queue.note_sent(3)
    assert send_queue.unsent == AT_ONCE + 1
    assert await send_queue.first() == [half, half]
    send_queue.note_sent(2)
    assert await send_queue.first() == [b"d"]


async def test_messages_of_one_who_adds_wait_together_for_room() -> None:
    send_queue = SendQueue(10)
    send_queue.put_now(b"a" * 5)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_queue.put_all, lambda: [b"b" * 3, b"c" * 3])
        await trio.testing.wait_all_tasks_blocked()
        assert await send_queue.first() == [b"a" * 5]
        send_queue.note_sent(1)
    assert await send_queue.first() == [b"bbb", b"ccc"]
    send_queue.close()
    assert send_queue.unsent == 0


async def test_messages_count_one_by_one_for_the_pass_that_others_get() -> None:
    send_queue, passes = SendQueue(10), Passes()
    send_queue.open(lambda _: True)
    trio.lowlevel.add_instrument(passes)
    try:
        for _ in range(6):
            await send_queue.put_all(lambda: [b"a"] * (MAX_AT_ONCE // 2))
    finally:
        trio.lowlevel.remove_instrument(passes)
    assert passes.count == 3
