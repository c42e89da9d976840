"""A handshake is screened as each request is; the key comes with it, or as the first message."""

from __future__ import annotations

import json

import pytest
import trio

from agentrail.host import HostLimits
from tests.host.hosted import KEYS, open_desk, scripted
from tests.host.rfc6455.raw_peer import KEY, connected, shaken, upgrade
from tests.host.websocket.talking import problem, read_message, refusal, talking

WS = "/v1/ws"


async def test_a_key_comes_with_the_handshake_or_as_the_first_message() -> None:
    async with open_desk(scripted("one")) as desk:
        async with talking(desk, None) as talker:
            await talker.say(key=KEYS["ann"])
            assert (await talker.ask("open_session", body={"session": "trip"}))["status"] == 201
            await talker.say(key=KEYS["eve"])
            assert problem(await talker.heard()) == "bad-frame"
            assert (await talker.ask("show_session", session="trip"))["status"] == 200
        async with talking(desk, "eve") as eve:
            assert problem(await eve.ask("show_session", session="ann.trip")) == "unknown-session"


@pytest.mark.parametrize(
    "first", ['{"key": "ar_none_x"}', '{"key": ""}', '{"id": "1", "call": "commands"}', "{", '{"key":"a\\r\\nb"}']
)
async def test_without_a_valid_key_the_socket_is_closed(first: str) -> None:
    async with open_desk(scripted("one")) as desk, talking(desk, None) as talker:
        await talker.socket.send_message(first)
        message = await talker.heard()
        while problem(message) != "not-authenticated":
            message = await talker.heard()
        assert await talker.closed() == (1008, "the key is not valid")


async def test_a_key_has_to_come_in_time() -> None:
    limits = HostLimits(header_seconds=0.5, drain_seconds=0.5)
    async with open_desk(scripted("one"), limits=limits) as desk, talking(desk, None) as talker:
        assert problem(await talker.heard()) == "not-authenticated"
        assert await talker.closed() == (1008, "the key is not valid")


@pytest.mark.parametrize(
    ("user", "headers", "query", "refused"),
    [
        ("ann", [("origin", "https://elsewhere.example")], "", (403, "origin-refused")),
        ("ann", [("origin", "null")], "", (403, "origin-refused")),
        (None, [("authorization", "Bearer wrong")], "", (401, "not-authenticated")),
        (None, [("authorization", "Basic abc")], "", (401, "not-authenticated")),
        (None, [], "?key=secret", (400, "bad-query")),
    ],
)
async def test_a_handshake_is_refused_with_a_problem_document(
    user: str | None, headers: list[tuple[str, str]], query: str, refused: tuple[int, str]
) -> None:
    async with open_desk(scripted("one")) as desk:
        assert await refusal(desk, user, *headers, query=query) == refused


async def test_a_page_of_the_host_itself_may_open_a_socket() -> None:
    async with open_desk(scripted("one")) as desk, talking(desk, None, ("origin", desk.serving.url)) as talker:
        await talker.say(key=KEYS["ann"])
        assert (await talker.ask("commands"))["status"] == 200


async def test_the_host_in_a_handshake_has_to_be_known() -> None:
    async with (
        open_desk(scripted("one")) as desk,
        await trio.open_tcp_stream("127.0.0.1", port(desk.serving.url)) as it,
    ):
        peer = await shaken(it, upgrade(WS).replace(b"Host: 127.0.0.1", b"Host: evil.example"))
        assert peer.answer.status == 403


def port(url: str) -> int:
    return int(url.rpartition(":")[2])


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("GET ", "HEAD "),
        ("HTTP/1.1", "HTTP/1.0"),
        ("Upgrade: websocket", "Upgrade: h2c"),
        ("Upgrade: websocket\r\n", ""),
        ("Connection: Upgrade", "Connection: keep-alive"),
        ("Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 8"),
        ("Sec-WebSocket-Version: 13\r\n", ""),
        (KEY, "c2hvcnQ="),
        (KEY, "sixteen bytes, or so"),
        (f"Sec-WebSocket-Key: {KEY}\r\n", ""),
        (f"Sec-WebSocket-Key: {KEY}", f"Sec-WebSocket-Key: {KEY}\r\nSec-WebSocket-Key: {KEY}"),
        ("Host:", "Content-Length: 1\r\nHost:"),
    ],
)
async def test_what_is_no_handshake_is_told_what_is_wanted(was: str, becomes: str) -> None:
    async with (
        open_desk(scripted("one")) as desk,
        await trio.open_tcp_stream("127.0.0.1", port(desk.serving.url)) as it,
    ):
        sent = upgrade(WS).decode().replace(was, becomes, 1).encode()
        answer = (await shaken(it, sent)).answer
        assert (answer.status, answer.headers["sec-websocket-version"]) == (426, "13")
        assert answer.headers["upgrade"] == "websocket"


async def test_an_upgrade_of_another_path_is_a_plain_request() -> None:
    async with (
        open_desk(scripted("one")) as desk,
        await trio.open_tcp_stream("127.0.0.1", port(desk.serving.url)) as it,
    ):
        for _ in range(2):
            assert (await shaken(it, upgrade("/healthz"))).answer.status == 200


async def test_other_methods_are_refused_and_no_other_subprotocol_is_chosen() -> None:
    async with open_desk(scripted("one")) as desk:
        response = await desk.ann.post(WS, json={})
        assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")
        for offered, chosen in (("other", None), ("other, agentrail.v1", "agentrail.v1"), ("agentrail.v2", None)):
            headers = (f"Authorization: Bearer {KEYS['ann']}", f"Sec-WebSocket-Protocol: {offered}")
            async with connected(port(desk.serving.url), WS, headers) as peer:
                assert peer.answer.headers.get("sec-websocket-protocol") == chosen
                await peer.say(json.dumps({"id": "1", "call": "commands"}))
                assert read_message(await peer.next_text())["status"] == 200


async def test_messages_that_come_with_the_handshake_are_read() -> None:
    async with open_desk(scripted("one")) as desk:
        text = json.dumps({"id": "1", "call": "commands"}).encode()
        early = bytes([0x81, 0x80 | len(text)]) + bytes(4) + text
        host = port(desk.serving.url)
        async with await trio.open_tcp_stream("127.0.0.1", host) as stream:
            peer = await shaken(stream, upgrade(WS, f"Authorization: Bearer {KEYS['ann']}") + early)
            assert read_message(await peer.next_text())["status"] == 200


async def test_a_socket_counts_for_its_key_and_not_for_its_address() -> None:
    limits = HostLimits(connections_per_address=1, drain_seconds=0.5)
    async with (
        open_desk(scripted("one"), limits=limits) as desk,
        talking(desk) as talker,
        talking(desk, "bob") as other,
    ):
        assert (await talker.ask("commands"))["status"] == 200
        assert (await other.ask("commands"))["status"] == 200
        assert (await desk.clients["bob"].get("/v1/sessions")).status_code == 200
