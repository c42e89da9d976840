"""The measure of the cases of RFC 6455: what the package `websockets`, which nobody here wrote, does with each."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from contextlib import suppress
from typing import Final

import pytest
import trio
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from tests.host.rfc6455.frame_cases import CASES, NO_ID, Case, ping, sizes
from tests.host.rfc6455.handshake_cases import HANDSHAKES, UPGRADE
from tests.host.rfc6455.raw_peer import connected, shaken

MOST: Final = 120_000

STILL: Final = b"still there"

WAITS: Final = " of 126 bytes, of which ten come"
"""End of the names of cases in which `websockets` waits for the rest of a frame that is wrong already."""

DIFFERS: Final = {"length with the highest bit": 1009, "close between fragments": 1002}
"""Cases in which `websockets` closes with another code."""

CLOSED: Final = {"HTTP/0.9", "a body", "a body in chunks"}
"""Handshakes that `websockets` refuses without an answer."""


def is_taken(case: Case) -> bool:
    """Return whether `websockets` takes what it need not: we are stricter."""
    is_longer = case.name.startswith("length ") and " in " in case.name
    return is_longer or case.name.endswith("in a message that does not end")


def echo(connection: ServerConnection) -> None:
    with suppress(ConnectionClosed):
        for message in connection:
            connection.send(message)


@pytest.fixture(scope="module")
def port() -> Generator[int]:
    with serve(echo, "127.0.0.1", 0, compression=None, max_size=MOST, close_timeout=2) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.socket.getsockname()[1]
        server.shutdown()
        thread.join()


async def close_and_echoes(port: int, case: Case) -> tuple[int | str | None, list[str], list[bytes]]:
    """Return the code of the close, the ids of the echoes, and the pongs."""
    async with connected(port, "/") as peer:
        await peer.play(case.first, len(case.ids), len(case.pongs))
        if is_taken(case):
            await peer.play([*case.last, ping(STILL)], 0, len(case.pongs) + 1)
            return "taken", peer.heard.texts[len(case.ids) + 1 :], peer.heard.pongs
        await peer.send(*case.last)
        heard = await peer.rest()
        return heard.code, [json.loads(text).get("id", NO_ID) for text in heard.texts], heard.pongs


@pytest.mark.long
async def test_websockets_judges_frames_as_we_do_or_takes_more(port: int) -> None:
    wrong: dict[str, object] = {}
    for case in (*CASES, *sizes(MOST)):
        if case.name.endswith(WAITS):
            continue
        expected: object = (DIFFERS.get(case.name, case.code), list(case.ids), list(case.pongs))
        if is_taken(case):
            expected = ("taken", [], [*case.pongs, STILL])
        got = await close_and_echoes(port, case)
        if got != expected:
            wrong[case.name] = got
    assert wrong == {}


@pytest.mark.long
async def test_websockets_judges_handshakes_as_we_do_or_takes_more(port: int) -> None:
    differs: dict[str, int] = {}
    for case in HANDSHAKES:
        if case.name not in CLOSED:
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                answer = (await shaken(stream, case.sent("/"))).answer
            if answer.status != case.status:
                differs[case.name] = answer.status
            else:
                assert {name: answer.headers.get(name) for name in case.answered} == dict(case.answered), case.name
    names = [
        case.name for case in HANDSHAKES if case.status == UPGRADE and ("version" in case.name or "key" in case.name)
    ]
    refused = dict.fromkeys(names, 400)
    assert differs == refused | {"no Host": 101, "HTTP/1.0": 505, "an address with a fragment": 101}
