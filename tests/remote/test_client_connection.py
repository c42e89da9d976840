"""One WebSocket, in virtual time: who is silent, who takes nothing, and what no host may send."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import pytest
import trio
import trio.testing
from trio_websocket import ConnectionRejected
from wsproto import ConnectionType, WSConnection, events

from agentrail.remote.transport.client_connection import (
    MAX_ANSWER,
    MAX_MESSAGE,
    ClientConnection,
    NotAHostError,
    open_connection,
)
from agentrail.remote.transport.host_address import CutError, Dial, HostAddress, HostKey
from agentrail.remote.transport.host_subscription import read_host_frame
from tests.host.rfc6455.raw_peer import accept_of

ADDRESS: Final = HostAddress("127.0.0.1", 80)
CLOSE: Final = b"\x88\x00"
TAKEN: Final = b"\x81\x02{}"
"""A message of the host: `{}`."""


class Host:
    """The other end of a stream."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.protocol = WSConnection(ConnectionType.SERVER)
        self.heard: list[events.Event] = []

    async def accept(self) -> None:
        """Answer the handshake."""
        self.protocol.receive_data(bytes(await self.stream.receive_some(65536)))
        assert isinstance(next(iter(self.protocol.events())), events.Request)
        await self.stream.send_all(self.protocol.send(events.AcceptConnection(subprotocol="agentrail.v1")))

    async def listen(self, *, pongs: bool) -> None:
        """Keep what comes, and answer pings if *pongs*."""
        while data := await self.stream.receive_some(65536):
            self.protocol.receive_data(bytes(data))
            for event in self.protocol.events():
                self.heard.append(event)
                if isinstance(event, events.Ping) and pongs:
                    await self.stream.send_all(self.protocol.send(event.response()))
                if isinstance(event, events.CloseConnection):
                    return


Dispatch = Callable[[str], None]


@asynccontextmanager
async def connected(
    take: Dispatch, pair: tuple[trio.abc.Stream, trio.abc.Stream] | None = None
) -> AsyncGenerator[tuple[ClientConnection, Host]]:
    near, far = pair or trio.testing.memory_stream_pair()
    host = Host(far)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.accept)
        async with open_connection(ADDRESS, HostKey("key"), dialling(near), take) as connection:
            yield connection, host


def dialling(stream: trio.abc.Stream) -> Dial:
    async def dial() -> trio.abc.Stream:
        return stream

    return dial


async def cut_of(stream: trio.abc.Stream) -> CutError:
    """Return how a connection over *stream* is cut."""
    async with open_connection(ADDRESS, HostKey("key"), dialling(stream), _ignore) as connection:
        await connection.run()
    return connection.cut


async def test_a_host_that_says_nothing_is_left(autojump_clock: object) -> None:  # noqa: ARG001
    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        async with connected(_ignore) as (connection, host):
            nursery.start_soon(lambda: host.listen(pongs=False))
            await connection.run()
            assert (connection.cut.problem, trio.current_time() - began) == ("nothing came from it for 45 s", 45)
    assert [type(event) for event in host.heard] == [events.Ping, events.Ping, events.CloseConnection]


async def test_a_host_that_answers_pings_is_not_left(autojump_clock: object) -> None:  # noqa: ARG001
    async with trio.open_nursery() as nursery, connected(_ignore) as (connection, host):
        nursery.start_soon(lambda: host.listen(pongs=True))
        with trio.move_on_after(1000):
            await connection.run()
        assert connection.has_heard
    assert [type(event) for event in host.heard] == [*[events.Ping] * 40, events.CloseConnection]


async def test_a_host_that_takes_nothing_is_left(autojump_clock: object) -> None:  # noqa: ARG001
    async with connected(_ignore, trio.testing.lockstep_stream_pair()) as (connection, _):
        began = trio.current_time()
        await connection.run()
        assert (connection.cut.problem, trio.current_time() - began) == ("it took nothing for 20 s", 20)


async def test_one_that_leaves_says_so_and_does_not_wait_for_an_answer(autojump_clock: object) -> None:  # noqa: ARG001
    began = trio.current_time()
    async with connected(_ignore) as (_, host):
        pass
    with trio.CancelScope() as scope:
        async with connected(_ignore) as (connection, other):
            scope.cancel()
            await connection.run()
    assert trio.current_time() == began
    for leaver in (host, other):
        await leaver.listen(pongs=False)
        assert type(leaver.heard[-1]) is events.CloseConnection


async def test_pings_of_the_host_are_answered() -> None:
    async with trio.open_nursery() as nursery, connected(_ignore) as (connection, host):
        nursery.start_soon(connection.run)
        await host.stream.send_all(b"\x89\x03abc")
        while events.Pong(payload=b"abc") not in host.heard:
            host.protocol.receive_data(bytes(await host.stream.receive_some(65536)))
            host.heard += host.protocol.events()
        nursery.cancel_scope.cancel()


BAD: Final = {
    "a rule of WebSocket was broken (1007: ": b"\x81\x01\xff",
    "it sent a message that is no text": b"\x82\x02ab",
    "a rule of WebSocket was broken (1002: ": b"\xf1\x00",
    "it closed the connection (1012: later)": b"\x88\x07\x03\xf4later",
    "it closed the connection (1005)": CLOSE,
    "the connection was cut": b"",
    "it sent a message that cannot be read": b"\x81\x03{]}",
}


@pytest.mark.parametrize("problem", BAD)
async def test_what_ends_a_connection(problem: str) -> None:
    with trio.fail_after(30):
        async with connected(_reading) as (connection, host):
            await host.stream.send_all(TAKEN + BAD[problem])
            if not BAD[problem]:
                await host.stream.aclose()
            await connection.run()
    assert connection.cut.problem.startswith(problem)


@pytest.mark.long
@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_a_message_has_a_most(more: int) -> None:
    lengths: list[int] = []
    length = MAX_MESSAGE + more
    async with connected(lambda text: lengths.append(len(text))) as (connection, host):
        await host.stream.send_all(b"\x81\x7f" + length.to_bytes(8, "big") + b"x" * length + CLOSE * (more <= 0))
        await connection.run()
    cut = connection.cut
    if more > 0:
        assert (cut.problem, cut.code) == ("it sent a message of more than 67108864 characters", 1006)
    else:
        assert lengths == [length]


@pytest.mark.parametrize("more", [-1_000, 1])
async def test_the_answer_to_a_handshake_has_a_most(more: int) -> None:
    near, far = trio.testing.memory_stream_pair()
    length = MAX_ANSWER + more
    head = f"HTTP/1.1 403 No\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n"
    await far.send_all(head.encode() + b"x" * length)
    with pytest.raises((ConnectionRejected, NotAHostError)) as raised:
        await cut_of(near)
    if isinstance(raised.value, ConnectionRejected):
        assert (raised.value.status_code, raised.value.body, more < 0) == (403, b"x" * length, True)
    else:
        assert (str(raised.value), more > 0) == ("its answer to the handshake has more than 131072 bytes", True)


HEAD: Final = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
OTHERS: Final = {
    b"SSH-2.0-OpenSSH_9.2\r\n\r\n": "it does not speak WebSocket as a host does",
    f"{HEAD}Sec-WebSocket-Accept: wrong\r\n\r\n".encode(): "it does not speak WebSocket as a host does",
    b"HTTP/1.1 101 Switch": "it closed the connection during the handshake",
    f"{HEAD}Sec-WebSocket-Protocol: \u00e9\r\n\r\n".encode(): "it does not speak WebSocket as a host does",
}


@pytest.mark.parametrize("answer", OTHERS)
async def test_what_answers_may_be_no_host(answer: bytes, autojump_clock: object) -> None:  # noqa: ARG001
    near, far = trio.testing.memory_stream_pair()
    await far.send_all(answer)
    await far.send_eof()
    began = trio.current_time()
    try:
        await cut_of(near)
    except (NotAHostError, CutError) as error:
        assert error.problem == OTHERS[answer]  # noqa: PT017 - two classes, each of which has a `problem`
    else:
        pytest.fail("it was taken for a host")
    assert trio.current_time() == began


REFUSALS: Final = {
    "cut": b"HTTP/1.1 502 No\r\ncontent-length: 99\r\n\r\nhello",
    "cut in a chunk": b"HTTP/1.1 502 No\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhello",
    "whole": b"HTTP/1.1 502 No\r\nconnection: close\r\n\r\nhello",
    "of HTTP/1.0": b"HTTP/1.0 502 No\r\n\r\nhello",
}


@pytest.mark.parametrize("answer", REFUSALS)
async def test_a_refusal_is_read_also_when_its_end_is_that_of_the_connection(answer: str) -> None:
    near, far = trio.testing.memory_stream_pair()
    await far.send_all(REFUSALS[answer])
    await far.send_eof()
    with pytest.raises(ConnectionRejected) as raised:
        await cut_of(near)
    assert (raised.value.status_code, raised.value.body) == (502, b"hello")


async def test_one_that_is_cut_at_the_end_of_its_handshake_is_made_or_not() -> None:
    """In whichever order the tasks run: never is it made, and an error of the handshake raised afterwards."""
    for _ in range(20):
        near, far = trio.testing.memory_stream_pair()
        host, connections = Host(far), list[ClientConnection]()

        async def accept_and_end(host: Host = host) -> None:
            await host.accept()
            await host.stream.aclose()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept_and_end)
            with suppress(CutError):
                async with open_connection(ADDRESS, HostKey("key"), dialling(near), _ignore) as connection:
                    connections.append(connection)
                    await connection.run()
                assert connection.cut.problem == "the connection was cut"
                connections.clear()
        assert connections == []


@pytest.mark.parametrize("wrong", [b"\x82\x02ab", b"\x81\x03{]}"])
async def test_pings_after_a_close_of_ours_are_no_error(wrong: bytes) -> None:
    async with connected(_reading) as (connection, host):
        await host.stream.send_all(wrong + 2_000 * b"\x89\x00")
        await connection.run()
    assert connection.cut.problem.startswith("it sent a message")


async def test_only_a_message_or_a_pong_counts_as_heard() -> None:
    for content, has_heard in ((b"\x88\x02\x03\xf5", False), (b"\x89\x00" + CLOSE, False), (TAKEN + CLOSE, True)):
        async with connected(_ignore) as (connection, host):
            await host.stream.send_all(content)
            await connection.run()
        assert connection.has_heard == has_heard, content


async def test_a_long_name_with_a_port_is_named_as_it_is(autojump_clock: object) -> None:  # noqa: ARG001
    near, far = trio.testing.memory_stream_pair()
    name = "a" * 58
    with pytest.raises(CutError, match="did not answer"):
        async with open_connection(HostAddress(name, 12_345), HostKey("key"), dialling(near), _ignore):
            pass
    assert f"Host: {name}:12345\r\n".encode() in await far.receive_some(65_536)


async def test_what_never_answers_is_left(autojump_clock: object) -> None:  # noqa: ARG001
    near, _ = trio.testing.memory_stream_pair()
    with pytest.raises(CutError, match="it did not answer within 10 s"):
        await cut_of(near)


@pytest.mark.parametrize("subprotocol", [None, "agentrail.v2"])
async def test_a_host_speaks_the_protocol(subprotocol: str | None) -> None:
    near, far = trio.testing.memory_stream_pair()
    named = "" if subprotocol is None else f"Sec-WebSocket-Protocol: {subprotocol}\r\n"

    async def accept() -> None:
        request = bytes(await far.receive_some(65536)).decode()
        key = request.partition("Sec-WebSocket-Key: ")[2].partition("\r\n")[0]
        await far.send_all(f"{HEAD}{named}Sec-WebSocket-Accept: {accept_of(key)}\r\n\r\n".encode())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        with pytest.raises(NotAHostError, match="does not speak"):
            await cut_of(near)


async def test_frames_that_come_with_the_answer_are_read() -> None:
    near, far = trio.testing.memory_stream_pair()
    host, texts = Host(far), list[str]()

    async def accept() -> None:
        host.protocol.receive_data(bytes(await far.receive_some(65536)))
        answer = host.protocol.send(events.AcceptConnection(subprotocol="agentrail.v1"))
        await far.send_all(answer + TAKEN)
        await host.listen(pongs=True)

    def take(text: str) -> None:
        texts.append(text)
        nursery.cancel_scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        async with open_connection(ADDRESS, HostKey("key"), dialling(near), take) as connection:
            await connection.run()
    assert texts == ["{}"]


def _reading(text: str) -> None:
    read_host_frame(text)


def _ignore(text: str) -> None:
    """No-op: what comes does not matter."""
