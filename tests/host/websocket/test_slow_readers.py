"""A client that does not read keeps little waiting, holds nobody up, and is told to continue from its last cursor."""

from __future__ import annotations

import gc
import json
import socket
import tracemalloc
from collections.abc import Sequence
from functools import partial

import pytest
import trio

from agentrail.host import ApiKeys, Host, HostLimits, Identity, Profile
from agentrail.host.websocket import socket_connection
from agentrail.host.websocket.send_queue import MAX_AT_ONCE, SendQueue
from agentrail.testing import say
from tests.host.hosted import KEYS, Desk, open_desk, scripted
from tests.host.model.in_process import opened
from tests.host.model.people import LINES, PEOPLE
from tests.host.model.socket_lines import line
from tests.host.rfc6455.raw_frames import Opcode, frame
from tests.host.rfc6455.raw_peer import Peer, shaken, upgrade
from tests.host.test_streams import freed
from tests.host.websocket.talking import talking
from tests.passes import Passes

LONG = "word " * 4_000
MOST = 1000


@pytest.mark.parametrize(("first", "second", "waits"), [(500, 499, False), (500, 500, False), (500, 501, True)])
async def test_so_many_bytes_wait_to_be_sent_and_no_more(first: int, second: int, waits: bool) -> None:
    send_queue = SendQueue(MOST)
    await send_queue.put(lambda: b"a" * first)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_queue.put, lambda: b"b" * second)
        await trio.testing.wait_all_tasks_blocked()
        assert send_queue.unsent == first + (0 if waits else second)
        nursery.start_soon(send_queue.put, lambda: b"c")  # small enough, but it waits for its turn
        await trio.testing.wait_all_tasks_blocked()
        numbers: list[int] = []
        while len(numbers) < 3:
            numbers += map(len, ready := await send_queue.first())
            send_queue.note_sent(len(ready))
        assert numbers == [first, second, 1] or not waits
    assert send_queue.unsent == 0


async def test_a_message_that_is_larger_goes_alone_and_a_closed_outbox_keeps_nothing() -> None:
    send_queue = SendQueue(MOST)
    await send_queue.put(lambda: b"a" * (MOST + 1))
    assert send_queue.unsent == MOST + 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_queue.put, lambda: b"b")
        await trio.testing.wait_all_tasks_blocked()
        send_queue.close()
    assert send_queue.unsent == 0
    await send_queue.put(lambda: b"c")
    assert send_queue.unsent == 0


@pytest.mark.parametrize("size", [MOST // 4, MOST, 3 * MOST])
async def test_beside_what_waits_to_be_sent_one_message_is_made(size: int) -> None:
    send_queue, count, sent, held = SendQueue(MOST), 0, 0, list[int]()

    def make() -> bytes:
        nonlocal count
        count += size
        return bytes(size)

    async with trio.open_nursery() as nursery:
        for _ in range(64):
            nursery.start_soon(send_queue.put, make)
        while sent < 64 * size:
            await trio.testing.wait_all_tasks_blocked()
            held.append(count - sent)
            sent += sum(map(len, ready := await send_queue.first()))
            send_queue.note_sent(len(ready))
    assert max(held) <= max(MOST, size) + size
    assert held[:-2] == [held[0]] * len(held[:-2]) or size < MOST


async def test_what_the_system_takes_never_waits_and_what_follows_something_that_waits_does() -> None:
    send_queue, sent = SendQueue(MOST), list[bytes]()

    def send_now(messages: Sequence[bytes]) -> bool:
        sent.extend(messages)
        return b"second" not in messages

    send_queue.open(send_now)
    for content in (b"first", b"second", b"third"):
        await send_queue.put(partial(bytes, content))
    assert (sent, send_queue.unsent) == ([b"first", b"second"], len(b"secondthird"))
    waited: list[bytes] = []
    while send_queue.unsent:
        waited += (ready := await send_queue.first())
        send_queue.note_sent(len(ready))
    assert waited == [b"second", b"third"]
    await send_queue.put(lambda: b"fourth")
    assert (sent, send_queue.unsent) == ([b"first", b"second", b"fourth"], 0)


@pytest.mark.parametrize("count", [MAX_AT_ONCE - 1, MAX_AT_ONCE, MAX_AT_ONCE + 1])
async def test_whoever_has_many_messages_for_a_client_that_takes_them_holds_up_nobody(count: int) -> None:
    send_queue, passes = SendQueue(MOST), Passes()
    send_queue.open(lambda _: True)
    trio.lowlevel.add_instrument(passes)
    try:
        for _ in range(count):
            await send_queue.put(lambda: b"a")
    finally:
        trio.lowlevel.remove_instrument(passes)
    assert passes.count == count // MAX_AT_ONCE


async def test_a_message_that_cannot_be_made_holds_up_no_other() -> None:
    send_queue = SendQueue(MOST)

    def fail() -> bytes:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await send_queue.put(fail)
    await send_queue.put(lambda: b"a")
    assert send_queue.unsent == 1


WIDE = "x" * 300_000
CALLS = 60


@pytest.mark.long
@pytest.mark.parametrize("call_name", ["ask", "messages", "events", "both"])
async def test_a_client_that_reads_no_answers_has_one_made_beside_what_waits_to_be_sent(call_name: str) -> None:
    """Counted are the bytes that the host has made, and not sent, with those that the way to the client keeps."""
    limits = HostLimits(requests_per_second=1e6, burst=10**6, drain_seconds=0.5, write_seconds=60)
    host = Host([Profile("desk", scripted(say(WIDE)))], limits=limits)
    async with opened(host, ApiKeys(lines=LINES)) as opened_host:
        async with line(opened_host.application, PEOPLE[0]) as first:
            await first.ask("open_session", body={"session": "s1"})
            await first.ask("ask", "s1", body={"message": "hi"}, command="k")
        async with line(opened_host.application, PEOPLE[0], reads=False) as deaf:
            gc.collect()
            tracemalloc.start()
            try:
                for number in range(CALLS):
                    if call_name == "ask" or (call_name == "both" and number % 2):
                        await deaf.send(call="ask", session="s1", body={"message": "hi"}, command="k")
                    elif call_name == "events":
                        await deaf.send(listen="events", session="s1", since="0")
                    else:
                        await deaf.send(call="messages", session="s1")
                await trio.testing.wait_all_tasks_blocked()
                gc.collect()
                held, _ = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
            (unsent,) = [item.unsent for item in gc.get_objects() if type(item) is SendQueue and item.unsent]
            # One is in the queue, one is made beside it; of the first there are three copies on its way.
            assert held < 7 * max(unsent, len(WIDE))


@pytest.mark.long
async def test_subscriptions_that_cannot_be_and_are_not_read_of_are_left_unread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket_connection, "SOCKET_CALLS", 3)

    class Counting(ApiKeys):
        count = 0

        async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
            self.count += 1
            return await super().identify(headers)

    limits = HostLimits(requests_per_second=1e6, burst=10**6, drain_seconds=0.5, streams=2)
    host = Host([Profile("desk", scripted("one"))], limits=limits)
    keys = Counting(lines=LINES)
    async with opened(host, keys) as opened_host, line(opened_host.application, PEOPLE[0], reads=False) as deaf:
        async with trio.open_nursery() as nursery:

            async def listen() -> None:
                for _ in range(2_000):
                    await deaf.send(listen="events", session="none")

            nursery.start_soon(listen)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        assert keys.count < 1_000


async def deaf(desk: Desk) -> Peer:
    """Open a WebSocket with little room for what it does not read, which listens to a session."""
    below = trio.socket.socket()
    below.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await below.connect(("127.0.0.1", int(desk.serving.url.rpartition(":")[2])))
    stream = trio.SocketStream(below)
    peer = await shaken(stream, upgrade("/v1/ws", f"Authorization: Bearer {KEYS['ann']}"))
    message = {"id": "e", "listen": "events", "session": "trip", "since": "0"}
    await peer.send(frame(Opcode.TEXT, json.dumps(message).encode()))
    return peer


@pytest.mark.long
async def test_a_client_that_does_not_read_is_closed_and_can_go_on_from_its_last_cursor() -> None:
    limits = HostLimits(write_seconds=2.0, streams=1, drain_seconds=0.5)
    script = [say(LONG, chunks=50) for _ in range(20)]
    async with open_desk(scripted(*script), limits=limits) as desk, talking(desk) as talker:
        await talker.ask("open_session", body={"session": "trip"})
        peer = await deaf(desk)
        for _ in range(20):
            message = await talker.ask("chat", body={"message": "hi", "session": "trip"})
            assert message["status"] == 200  # the session waits for nobody
        await freed(desk)
        heard = await peer.rest()
        assert (heard.code, heard.reason) == (1013, "too slow; continue from your last cursor")
        cursors = [frame["cursor"] for frame in map(json.loads, heard.texts) if "cursor" in frame]
        await talker.say(id="e", listen="events", session="trip", since=cursors[-1])
        received = [frame_ for frame_ in await talker.until(_is_last) if "event" in frame_]
        seen = {int(str(frame_["cursor"]).partition(".")[0]) for frame_ in received}
        first = int(cursors[-1].partition(".")[0])
        assert seen | {first} == set(range(first, max(seen) + 1))
        await peer.stream.aclose()


@pytest.mark.long
async def test_a_client_that_reads_no_answers_is_closed_although_no_more_of_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket_connection, "SOCKET_CALLS", 2)
    limits = HostLimits(write_seconds=2.0, streams=1, drain_seconds=0.5)
    async with open_desk(scripted(say(LONG * 10)), limits=limits) as desk, talking(desk) as talker:
        await talker.ask("open_session", body={"session": "trip"})
        await talker.ask("chat", body={"message": "hi", "session": "trip"})
        peer = await deaf(desk)
        for number in range(5):
            message = {"id": f"{number}", "call": "messages", "session": "trip"}
            await peer.send(frame(Opcode.TEXT, json.dumps(message).encode()))
        await freed(desk)
        assert (await peer.rest()).code == 1013
        await peer.stream.aclose()


def _is_last(message: dict[str, object]) -> bool:
    data = message.get("data")
    return message.get("event") == "AgentEnd" and isinstance(data, dict) and data["turn"] == 20
