"""Clients that leave while they are answered: their connections are free at once, and their turns go on."""

from __future__ import annotations

import json
import socket
import struct
from typing import Final

import pytest
import trio
from trio.testing import MockClock

from agentrail import SessionSpec
from agentrail.errors import UnknownTask
from agentrail.host import HostLimits, HostPlugin, RequestEnd
from agentrail.host.requests.http_messages import SOON, while_here
from agentrail.testing import ScriptedModel, stall
from tests.host.hosted import KEYS, Desk, open_desk, scripted
from tests.host.http11.served import everything, statuses

BODY: Final = json.dumps({"message": "stay", "session": "trip"}).encode()


def request_bytes(line: str, body: bytes = b"") -> bytes:
    """Return the bytes of a request of ann's."""
    head = f"{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEYS['ann']}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}\r\n".encode() + body


CHAT: Final = request_bytes("POST /v1/chat", BODY)


class Ends(HostPlugin):
    """Notes how requests end."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_request_end(self, context: RequestEnd) -> None:
        self.heard.append(f"{context.kind} {context.outcome}")


async def connect(desk: Desk) -> trio.SocketStream:
    host, _, port = desk.serving.url.removeprefix("http://").partition(":")
    return await trio.open_tcp_stream(host, int(port))


async def turn_begins(model: ScriptedModel) -> None:
    with trio.fail_after(20):
        while not model.requests:  # noqa: ASYNC110 - in the host
            await trio.sleep(0.01)


async def answered(desk: Desk) -> list[int]:
    """Return the status of the answer to another connection of ann's."""
    async with await connect(desk) as stream:
        await stream.send_all(
            request_bytes("GET /v1/sessions/trip").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        )
        return statuses(await everything(stream))


@pytest.mark.parametrize("way", ["closes", "resets", "closes its side", "asks more, and closes"])
async def test_a_client_that_leaves_a_chat_frees_its_connection_and_not_its_turn(way: str) -> None:
    ends = Ends()
    model = ScriptedModel([stall(after=1)])
    limits = HostLimits(connections=3, drain_seconds=0.5, requests_per_second=1e6, burst=10**6)
    async with open_desk(SessionSpec(model=model), [ends], limits=limits) as desk, await connect(desk) as stream:
        await stream.send_all(CHAT)
        await turn_begins(model)
        assert await answered(desk) == [429]
        match way:
            case "closes its side":
                await stream.send_eof()
                assert await everything(stream) == b""
            case "resets":
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            case "asks more, and closes":
                await stream.send_all(request_bytes("GET /v1/sessions") * 2)
            case _:
                pass
        await stream.aclose()
        with trio.fail_after(20):
            while await answered(desk) != [200]:
                pass
        assert ((await desk.ann.get("/v1/sessions/trip")).json()["at_work"], ends.heard) == (True, [])
        assert (await desk.ann.post("/v1/sessions/trip/abort", json={})).status_code == 204
        with trio.fail_after(20):
            while not ends.heard:  # noqa: ASYNC110 - in the host
                await trio.sleep(0.01)
    assert ends.heard == ["chat aborted"]


async def test_a_client_that_has_closed_its_side_gets_the_answers_that_do_not_wait_for_a_turn() -> None:
    async with open_desk(scripted(stall(after=1))) as desk:
        prompt = json.dumps({"message": "hi"}).encode()
        async with await connect(desk) as stream:
            opened = request_bytes("POST /v1/sessions", b'{"session": "trip"}')
            prompted = request_bytes("POST /v1/sessions/trip/prompt", prompt)
            await stream.send_all(
                opened + prompted + request_bytes("GET /v1/sessions/trip") + request_bytes("GET /healthz")
            )
            await stream.send_eof()
            assert statuses(await everything(stream)) == [201, 202, 200, 200]


async def test_what_is_asked_during_a_chat_is_answered_after_it() -> None:
    async with open_desk(scripted("one", "two")) as desk, await connect(desk) as stream:
        await stream.send_all(CHAT + CHAT + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answers = await everything(stream)
    assert statuses(answers) == [200, 200, 200]
    assert answers.index(b'"text":"one"') < answers.index(b'"text":"two"') < answers.index(b'"status":"ok"')


async def test_an_error_after_a_while_is_raised_as_it_is(autojump_clock: MockClock) -> None:
    async def answer() -> None:
        await trio.sleep(2 * SOON)
        raise UnknownTask("trip.none", "none")

    with pytest.raises(UnknownTask):
        await while_here(trio.sleep_forever, answer)
    assert autojump_clock.current_time() > 2 * SOON
