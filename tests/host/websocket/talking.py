"""A client of `WS /v1/ws`, by trio-websocket, for a host on a real port."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeAlias

import httpx
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream
from wsproto.utilities import LocalProtocolError

from tests.host.hosted import CERTIFICATES, KEYS, Desk
from tests.patience import PATIENCE

SocketMessage: TypeAlias = dict[str, object]

SECONDS: Final = 60
"""How long a host may take for what a client waits for, however busy the machine is."""


class Talker:
    """One WebSocket."""

    def __init__(self, socket: WebSocketConnection) -> None:
        self.socket = socket
        self.kept: list[SocketMessage] = []
        """What came before the answers to calls beside others."""

    async def say(self, **fields: object) -> None:
        """Send a message."""
        await self.socket.send_message(json.dumps(fields))

    async def heard(self) -> SocketMessage:
        """Return the next message."""
        with trio.fail_after(SECONDS):
            return read_message(await self.socket.get_message())

    async def ask(self, call: str, **fields: object) -> SocketMessage:
        """Make a call, and return the next message, which has to be its answer."""
        await self.say(id=call, call=call, **fields)
        answer = await self.heard()
        assert answer.pop("id") == call
        return answer

    async def ask_beside(self, call: str, **fields: object) -> SocketMessage:
        """Make a call, and return its answer; what comes before is kept."""
        await self.say(id=call, call=call, **fields)
        while (answer := await self.heard())["id"] != call:
            self.kept.append(answer)
        return answer

    async def until(self, is_it: Callable[[SocketMessage], bool]) -> list[SocketMessage]:
        """Return messages up to one that *is_it*."""
        messages: list[SocketMessage] = []
        while not (messages and is_it(messages[-1])):
            messages.append(await self.heard())
        return messages

    async def closed(self) -> tuple[int, str | None]:
        """Read up to the close, and return its code and reason."""
        with trio.fail_after(SECONDS), suppress(ConnectionClosed):
            while True:
                await self.socket.get_message()
        reason = self.socket.closed
        assert reason is not None
        return reason.code, reason.reason


def read_message(message: str | bytes) -> SocketMessage:
    document = json.loads(message)
    assert isinstance(document, dict)
    return document


def problem(message: SocketMessage) -> str:
    """Return the kind of the problem in a message."""
    document = message["problem"]
    assert isinstance(document, dict)
    return str(document["type"]).removeprefix("urn:agentrail:problem:")


def finding_of(message: SocketMessage) -> str:
    """Return what was found, as the problem in a message says."""
    document = message["problem"]
    assert isinstance(document, dict)
    return str(document["found"])


@asynccontextmanager
async def talking(desk: Desk, user: str | None = "ann", *headers: tuple[str, str]) -> AsyncGenerator[Talker]:
    """Open a WebSocket of a user; `None`: without a key."""
    host, _, port = desk.serving.url.removeprefix("http://").partition(":")
    is_left = False
    try:
        # trio-websocket leaves a stream open that the server has closed.
        async with await trio.open_tcp_stream(host, int(port)) as stream, trio.open_nursery() as nursery:
            with trio.fail_after(SECONDS):  # trio-websocket waits for ever if the server closes before it answers
                socket = await wrap_client_stream(
                    nursery,
                    stream,
                    f"{host}:{port}",
                    "/v1/ws",
                    subprotocols=["agentrail.v1"],
                    extra_headers=_headers(user, headers),
                )
            yield Talker(socket)
            is_left = True
            await socket.aclose()
            nursery.cancel_scope.cancel()
    except* LocalProtocolError:
        if not is_left:  # else the host has sent a ping before it read the close, which trio-websocket answers
            raise


def _headers(user: str | None, headers: Sequence[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    pairs = [(name.encode(), value.encode()) for name, value in headers]
    return pairs if user is None else [*pairs, (b"authorization", f"Bearer {KEYS[user]}".encode())]


async def refusal(desk: Desk, user: str | None, *headers: tuple[str, str], query: str = "") -> tuple[int, str]:
    """Return status and kind of the problem with which a handshake is refused."""
    header_map = {name.decode(): value.decode() for name, value in _headers(user, headers)}
    header_map |= {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    header_map |= {"sec-websocket-key": "c2l4dGVlbiBieXRlcyBvaw=="}
    async with httpx.AsyncClient(trust_env=False, verify=CERTIFICATES, timeout=PATIENCE) as client:
        response = await client.get(f"{desk.serving.url}/v1/ws{query}", headers=header_map)
        return response.status_code, str(response.json()["type"]).removeprefix("urn:agentrail:problem:")
