"""One WebSocket, in virtual time: who is silent, who takes nothing, and what no host may send."""

from __future__ import annotations

from typing import Final

import pytest
import trio
import trio.testing
from wsproto import ConnectionType, WSConnection, events

from agentrail.remote.transport.client_connection import ClientConnection
from agentrail.remote.transport.client_handshake import MAX_REJECTION, NotAHostError, RejectedError
from agentrail.remote.transport.client_socket import MAX_MESSAGE, ClientSocket, CutError
from agentrail.remote.transport.host_address import HostAddress, HostKey
from agentrail.remote.transport.host_frames import read_host_frame
from tests.host.rfc6455.raw_peer import accept_of

ADDRESS: Final = HostAddress("127.0.0.1", 80)
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


async def opened() -> tuple[ClientSocket, Host]:
    near, far = trio.testing.memory_stream_pair()
    socket, host = ClientSocket(near), Host(far)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.accept)
        await socket.shake(ADDRESS, HostKey("key"))
    return socket, host


async def test_a_host_that_says_nothing_is_left(autojump_clock: object) -> None:  # noqa: ARG001
    socket, host = await opened()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: host.listen(pongs=False))
        began = trio.current_time()
        cut = await ClientConnection(socket, _ignore).run()
        assert (cut.problem, trio.current_time() - began) == ("nothing came from it for 45 s", 45)
    assert [type(event) for event in host.heard] == [events.Ping, events.Ping, events.CloseConnection]


async def test_a_host_that_answers_pings_is_not_left(autojump_clock: object) -> None:  # noqa: ARG001
    socket, host = await opened()
    connection = ClientConnection(socket, _ignore)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: host.listen(pongs=True))
        with trio.move_on_after(1000):
            await connection.run()
    assert connection.has_heard
    assert [type(event) for event in host.heard] == [*[events.Ping] * 40, events.CloseConnection]


async def test_a_host_that_takes_nothing_is_left(autojump_clock: object) -> None:  # noqa: ARG001
    near, far = trio.testing.lockstep_stream_pair()
    socket, host = ClientSocket(near), Host(far)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.accept)
        await socket.shake(ADDRESS, HostKey("key"))
    began = trio.current_time()
    cut = await ClientConnection(socket, _ignore).run()
    assert (cut.problem, trio.current_time() - began) == ("it took nothing for 20 s", 20)


async def test_pings_of_the_host_are_answered() -> None:
    socket, host = await opened()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ClientConnection(socket, _ignore).run)
        await host.stream.send_all(b"\x89\x03abc")
        while events.Pong(payload=b"abc") not in host.heard:
            host.protocol.receive_data(bytes(await host.stream.receive_some(65536)))
            host.heard += host.protocol.events()
        nursery.cancel_scope.cancel()


BAD: Final = {
    "it broke a rule of WebSocket: a message is no UTF-8": b"\x81\x01\xff",
    "it sent a message that is no text": b"\x82\x02ab",
    "it broke a rule of WebSocket: a reserved bit is set": b"\xf1\x00",
    "it closed the connection (1012: later)": b"\x88\x07\x03\xf4later",
    "it closed the connection (1005)": b"\x88\x00",
    "the connection was cut": b"",
    "it sent a message that cannot be read": b"\x81\x03{]}",
}


@pytest.mark.parametrize("problem", BAD)
async def test_what_ends_a_connection(problem: str) -> None:
    socket, host = await opened()
    await host.stream.send_all(TAKEN + BAD[problem])
    if not BAD[problem]:
        await host.stream.aclose()

    def take(text: str) -> None:
        read_host_frame(text)

    with trio.fail_after(30):
        cut = await ClientConnection(socket, take).run()
    assert cut.problem.startswith(problem)


@pytest.mark.long
@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_a_message_has_a_most(more: int) -> None:
    socket, host = await opened()
    length = MAX_MESSAGE + more
    await host.stream.send_all(b"\x81\x7f" + length.to_bytes(8, "big") + b"x" * length)
    if more > 0:
        with pytest.raises(CutError, match="at most 67108864 bytes"):
            await socket.receive()
    else:
        assert len(str(await socket.receive())) == length


@pytest.mark.parametrize("more", [-1, 0, 1])
async def test_of_a_refusal_only_so_much_is_kept(more: int) -> None:
    near, far = trio.testing.memory_stream_pair()
    length = MAX_REJECTION + more
    head = f"HTTP/1.1 403 No\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n"
    await far.send_all(head.encode() + b"x" * length)
    with pytest.raises(RejectedError) as raised:
        await ClientSocket(near).shake(ADDRESS, HostKey("key"))
    assert (raised.value.rejection.status, len(raised.value.rejection.body)) == (403, min(length, MAX_REJECTION))


HEAD: Final = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
OTHERS: Final = {
    "it does not speak HTTP as a host does": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "it does not speak WebSocket as a host does": f"{HEAD}Sec-WebSocket-Accept: wrong\r\n\r\n".encode(),
    "it closed the connection during the handshake": b"HTTP/1.1 101 Switch",
}


@pytest.mark.parametrize("problem", OTHERS)
async def test_what_answers_may_be_no_host(problem: str) -> None:
    near, far = trio.testing.memory_stream_pair()
    await far.send_all(OTHERS[problem])
    await far.send_eof()
    try:
        await ClientSocket(near).shake(ADDRESS, HostKey("key"))
    except (NotAHostError, CutError) as error:
        assert error.problem == problem  # noqa: PT017 - two classes, each of which has a `problem`
    else:
        pytest.fail("it was taken for a host")


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
        with pytest.raises(NotAHostError) as raised:
            await ClientSocket(near).shake(ADDRESS, HostKey("key"))
    assert raised.value.problem == "it does not speak the protocol `agentrail.v1`"


@pytest.mark.parametrize("coding", ["chunked", None])
async def test_a_refusal_is_read_also_when_it_is_cut(coding: str | None) -> None:
    near, far = trio.testing.memory_stream_pair()
    named = "content-length: 99\r\n" if coding is None else f"transfer-encoding: {coding}\r\n"
    await far.send_all(f"HTTP/1.1 502 No\r\n{named}\r\n".encode() + (b"5\r\nhello\r\n" if coding else b"hello"))
    await far.send_eof()
    with pytest.raises(RejectedError) as raised:
        await ClientSocket(near).shake(ADDRESS, HostKey("key"))
    assert (raised.value.rejection.status, raised.value.rejection.body) == (502, b"hello")


async def test_frames_that_come_with_the_answer_are_read() -> None:
    near, far = trio.testing.memory_stream_pair()
    host = Host(far)

    async def accept() -> None:
        host.protocol.receive_data(bytes(await far.receive_some(65536)))
        answer = host.protocol.send(events.AcceptConnection(subprotocol="agentrail.v1"))
        await far.send_all(answer + TAKEN)

    socket = ClientSocket(near)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        await socket.shake(ADDRESS, HostKey("key"))
    assert await socket.receive() == "{}"


def _ignore(text: str) -> None:
    """No-op: what comes does not matter."""
