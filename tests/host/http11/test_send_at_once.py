import socket

import pytest
import trio
import trio.testing

from agentrail.host import HostLimits
from agentrail.host.http11.response_writer import MAX_AT_ONCE, SEND_SIZE, ResponseWriter, send_at_once
from tests.passes import Passes


def pair() -> tuple[trio.SocketStream, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    return trio.SocketStream(trio.socket.from_stdlib_socket(ours)), theirs


async def test_what_the_system_takes_is_sent() -> None:
    stream, peer = pair()
    with peer:
        async with stream:
            assert send_at_once(stream, b"all of it") == 9
            assert peer.recv(100) == b"all of it"


async def test_no_more_is_sent_than_the_system_takes() -> None:
    stream, peer = pair()
    with peer:
        async with stream:
            much = bytes(2**24)
            sent = send_at_once(stream, much)
            assert 0 < sent < len(much)
            assert send_at_once(stream, b"more") == 0
            peer.setblocking(False)
            assert len(peer.recv(2**24)) <= sent


async def test_nothing_is_sent_to_a_peer_that_is_gone_or_on_a_closed_stream() -> None:
    stream, peer = pair()
    peer.close()
    assert send_at_once(stream, b"text") == 0
    await stream.aclose()
    assert send_at_once(stream, b"text") == 0


async def test_a_stream_that_is_no_socket_is_left_to_itself() -> None:
    stream, peer = trio.testing.memory_stream_pair()
    assert send_at_once(stream, b"text") == 0
    await stream.send_all(b"later")
    assert await peer.receive_some() == b"later"


@pytest.mark.parametrize(("size", "pieces"), [(1, MAX_AT_ONCE), (SEND_SIZE // 4, 4), (SEND_SIZE, 1)])
async def test_others_have_their_turn_after_some_pieces_of_a_streamed_answer(size: int, pieces: int) -> None:
    stream, peer = pair()
    with peer:
        async with stream:
            writer, passes, counts = ResponseWriter(stream, HostLimits()), Passes(), list[int]()
            trio.lowlevel.add_instrument(passes)
            for _ in range(2 * pieces):
                await writer.piece(bytes(size))
                counts.append(passes.count)
            trio.lowlevel.remove_instrument(passes)
            assert counts == [*[0] * (pieces - 1), *[1] * pieces, 2]
            assert len(peer.recv(2**20, socket.MSG_WAITALL | socket.MSG_DONTWAIT)) == 2 * pieces * size


async def test_a_cancelled_task_sends_no_further_piece_of_a_streamed_answer() -> None:
    stream, peer = pair()
    with peer:
        async with stream:
            writer = ResponseWriter(stream, HostLimits())
            with trio.CancelScope() as scope:
                await writer.piece(b"first")
                scope.cancel()
                await writer.piece(b"second")
            assert scope.cancelled_caught
            assert peer.recv(100) == b"first"
