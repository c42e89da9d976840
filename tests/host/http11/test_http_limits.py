"""Each limit takes what is one below it and what is at it, and refuses what is one above it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import pytest
import trio
import trio.testing

from agentrail.api.limits import DEFAULTS, HEADER_COUNT, LEAST_RATE, TARGET_CHARS
from agentrail.host import HostLimits
from agentrail.host.http11.http_server import HttpConnection, HttpServer
from agentrail.host.requests.connection_slots import MAX_HEARD
from agentrail.host.requests.http_messages import Handler, HttpRequest, HttpResponse, Send
from agentrail.host.requests.refusals import CLOSED_FOR_ANOTHER, HttpRefusal
from tests.host.http11.served import NOW_MS, echo, everything, request, served, statuses

SMALL: Final = HostLimits(header_bytes=10_000, body_bytes=1000, connections=5, connections_per_address=3)


def _head(size: int) -> bytes:
    empty = request("GET / HTTP/1.1", "A: ")
    return request("GET / HTTP/1.1", "A: " + "a" * (size - len(empty)))


def _target(size: int) -> bytes:
    return request(f"GET /{'a' * (size - 1)} HTTP/1.1")


def _headers(count: int) -> bytes:
    return request("GET / HTTP/1.1", *["A: b"] * (count - 1))


def _body(size: int) -> bytes:
    return request("POST / HTTP/1.1", f"Content-Length: {size}") + b"a" * size


def _chunks(size: int) -> bytes:
    ones, hundreds = size % 100 + 100, size // 100 - 1
    chunks = b"1\r\na\r\n" * ones + (b"64\r\n" + b"a" * 100 + b"\r\n") * hundreds
    return request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + chunks + b"0\r\n\r\n"


SIZES: Final[dict[str, tuple[Callable[[int], bytes], Callable[[HostLimits], int], int, str]]] = {
    "head": (_head, lambda limits: limits.header_bytes, 431, "head-too-large"),
    "target": (_target, lambda _: TARGET_CHARS, 414, "target-too-long"),
    "headers": (_headers, lambda _: HEADER_COUNT, 431, "head-too-large"),
    "body": (_body, lambda limits: limits.body_bytes, 413, "body-too-large"),
    "chunks": (_chunks, lambda limits: limits.body_bytes, 413, "body-too-large"),
}


@pytest.mark.parametrize("limits", [SMALL, HostLimits()], ids=["small", "default"])
@pytest.mark.parametrize("name", SIZES)
async def test_a_size_is_taken_up_to_its_limit(name: str, limits: HostLimits) -> None:
    make, limit, status, kind = SIZES[name]
    most = limit(limits)
    async with served(limits=limits) as server:
        answers = [await server.talk(make(size)) for size in (most - 1, most, most + 1)]
    assert [statuses(answer) for answer in answers] == [[200], [200], [status]]
    head, _, content = answers[-1].partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head
    assert json.loads(content)["type"] == f"urn:agentrail:problem:{kind}"


async def test_a_request_line_that_does_not_end_is_too_long() -> None:
    async with served(limits=SMALL.but(header_bytes=400)) as server:
        assert statuses(await server.talk(b"GET /" + b"a" * 400, ends=False)) == [414]


async def test_a_head_that_has_reached_the_limit_without_its_end_is_refused_at_once() -> None:
    async with served(limits=SMALL.but(header_bytes=400)) as server:
        assert statuses(await server.talk(b"GET /" + b"a" * 395, ends=False)) == [414]


async def test_a_limit_of_a_handler_takes_the_place_of_the_limit_of_the_server() -> None:
    async def upload(http_request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), str(len(await http_request.body.read(5000))).encode())

    async with served(upload, SMALL) as server:
        assert [statuses(await server.talk(_body(size))) for size in (4999, 5000, 5001)] == [[200], [200], [413]]


async def test_a_body_that_is_too_large_is_refused_before_it_is_sent() -> None:
    async with served() as server, await server.connect() as stream:
        await stream.send_all(request("POST / HTTP/1.1", "Expect: 100-continue", "Content-Length: 99999999999"))
        assert statuses(await everything(stream)) == [413]


async def test_a_body_is_asked_for_when_it_is_read() -> None:
    async with served() as server, await server.connect() as stream:
        await stream.send_all(
            request("POST / HTTP/1.1", "Expect: 100-continue", "Content-Length: 2", "Connection: close")
        )
        assert await stream.receive_some() == b"HTTP/1.1 100 Continue\r\n\r\n"
        await stream.send_all(b"ab")
        answer = await everything(stream)
    assert statuses(answer) == [200]
    assert b'"body": "ab"' in answer


async def test_a_body_that_nobody_reads_ends_the_connection_unless_it_is_there_already() -> None:
    async def ignores(_: HttpRequest) -> HttpResponse:
        return HttpResponse(200)

    async with served(ignores) as server:
        short = request("POST / HTTP/1.1", "Content-Length: 2") + b"ab"
        long = request("POST / HTTP/1.1", "Content-Length: 3000000") + b"a" * 3_000_000
        waiting = request("POST / HTTP/1.1", "Content-Length: 2", "Expect: 100-continue")
        assert statuses(await server.talk(short + request())) == [200, 200]
        assert statuses(await server.talk(long + request())) == [200]
        assert statuses(await server.talk(waiting + request())) == [200]


# Times: on streams in memory, because the clock is virtual


class Together:
    """A connection of a server in memory; if it is *tight*, the server waits until its client has taken each byte."""

    def __init__(self, handler: Handler, limits: HostLimits, *, tight: bool = False) -> None:
        self.server = HttpServer(handler, lambda: NOW_MS, limits)
        to_server, from_client = trio.testing.memory_stream_one_way_pair()
        pair = trio.testing.lockstep_stream_one_way_pair if tight else trio.testing.memory_stream_one_way_pair
        to_client, answered = pair()
        self.ours = trio.StapledStream(to_server, answered)
        self.theirs = trio.StapledStream(to_client, from_client)

    async def serve(self) -> None:
        await HttpConnection(self.theirs, "p", self.server).serve()
        await self.theirs.aclose()


@pytest.mark.parametrize(
    ("sent", "wait", "expected"),
    [
        (b"", 9.9, None),
        (b"", 10.1, []),
        (b"G", 9.9, None),
        (b"G", 10.1, [408]),
        (request()[:-1], 9.9, None),
        (request()[:-1], 10.1, [408]),
        (request("POST / HTTP/1.1", "Content-Length: 2") + b"a", 29.9, None),
        (request("POST / HTTP/1.1", "Content-Length: 2") + b"a", 30.1, [408]),
        (request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + b"1\r\n", 30.1, [408]),
        (request(), 74.9, None),
        (request(), 75.1, [200]),
    ],
)
async def test_a_time_ends_when_it_is_over(
    sent: bytes,
    wait: float,
    expected: list[int] | None,
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001
) -> None:
    together = Together(echo, HostLimits())
    answers: list[bytes] = []
    async with trio.open_nursery() as nursery:

        async def read() -> None:
            answers.append(await everything(together.ours))

        nursery.start_soon(together.serve)
        nursery.start_soon(read)
        await together.ours.send_all(sent)
        await trio.sleep(wait)
        if expected is None:
            assert answers == []
        else:
            await trio.sleep(1)  # for which the server goes on reading
            assert [statuses(answer) for answer in answers] == [expected]
        nursery.cancel_scope.cancel()


async def test_a_head_has_its_time_in_all_however_slowly_it_comes(autojump_clock: object) -> None:  # noqa: ARG001
    together = Together(echo, HostLimits())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(together.serve)
        began = trio.current_time()
        for letter in request("GET / HTTP/1.1", "A: " + "a" * 100):
            await together.ours.send_all(bytes([letter]))
            await trio.sleep(0.4)
            if trio.current_time() - began > 10.5:
                break
        assert statuses(await everything(together.ours)) == [408]


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_has_its_time_in_all_however_slowly_it_comes(
    chunked: bool,
    autojump_clock: object,  # noqa: ARG001
) -> None:
    together = Together(echo, HostLimits())
    framing, piece = ("Transfer-Encoding: chunked", b"1\r\na\r\n") if chunked else ("Content-Length: 9999", b"a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(together.serve)
        began = trio.current_time()
        await together.ours.send_all(request("POST / HTTP/1.1", framing))
        answers: list[bytes] = []

        async def read() -> None:
            answers.append(await everything(together.ours))
            nursery.cancel_scope.cancel()

        nursery.start_soon(read)
        while True:
            await together.ours.send_all(piece)
            await trio.sleep(1)
    assert statuses(answers[0]) == [408]
    assert b"send it within 30 s, and one second more for each 8192 bytes" in answers[0]
    assert trio.current_time() - began == pytest.approx(31, abs=1)  # the server reads on for a second


@pytest.mark.parametrize(("rate", "status"), [(LEAST_RATE, 200), (LEAST_RATE // 2, 408)])
async def test_a_large_body_has_as_long_as_its_bytes_take_at_the_least_rate(
    rate: int,
    status: int,
    autojump_clock: object,  # noqa: ARG001
) -> None:
    limits = HostLimits()
    together = Together(echo, limits)
    pieces = 80
    async with trio.open_nursery() as nursery:
        nursery.start_soon(together.serve)
        answers: list[bytes] = []

        async def read() -> None:
            answers.append(await everything(together.ours))
            nursery.cancel_scope.cancel()

        nursery.start_soon(read)
        await together.ours.send_all(
            request("POST / HTTP/1.1", f"Content-Length: {pieces * rate}", "Connection: close")
        )
        for _ in range(pieces):
            await trio.sleep(1)
            await together.ours.send_all(bytes([97]) * rate)
    assert statuses(answers[0]) == [status]


async def test_the_time_that_a_handler_takes_is_not_that_of_its_body(autojump_clock: object) -> None:  # noqa: ARG001
    async def slow(http_request: HttpRequest) -> HttpResponse:
        for _ in range(2):
            assert await http_request.body.chunk() == b"a"
            await trio.sleep(40)
        return HttpResponse(200)

    together = Together(slow, HostLimits())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(together.serve)
        await together.ours.send_all(request("POST / HTTP/1.1", "Content-Length: 2", "Connection: close"))
        for _ in range(2):
            await trio.sleep(20)
            await together.ours.send_all(b"a")
        assert statuses(await everything(together.ours)) == [200]


async def taken_by(stream: trio.abc.ReceiveStream, rate: int) -> bytes:
    """Take so many bytes a second, until the server closes."""
    taken = bytearray()
    while piece := await stream.receive_some(rate):
        taken += piece
        await trio.sleep(len(piece) / rate)
    return bytes(taken)


RATE: Final = LEAST_RATE


@pytest.mark.parametrize(("rate", "seconds"), [(RATE, 100), (RATE * 3 // 4, 100), (RATE // 2, 60)])
async def test_a_large_answer_has_as_long_as_its_bytes_take_at_the_least_rate(
    rate: int,
    seconds: float,
    autojump_clock: object,  # noqa: ARG001
) -> None:
    async def large(_: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), content)

    content = bytes(100 * rate)
    together = Together(large, DEFAULTS, tight=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(together.serve)
        await together.ours.send_all(request("GET / HTTP/1.1", "Connection: close"))
        taken = await taken_by(together.ours, rate)
    assert taken.endswith(content) == (seconds == 100)
    assert trio.current_time() == pytest.approx(seconds, abs=4)


@pytest.mark.parametrize(("rate", "is_whole"), [(RATE, True), (RATE // 2, False)])
async def test_answers_on_one_connection_share_their_time(
    rate: int,
    is_whole: bool,
    autojump_clock: object,  # noqa: ARG001
) -> None:
    """Each of them, alone, could be taken in time even at half of the rate."""

    async def short(_: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), bytes(RATE))

    number = 100
    together = Together(short, DEFAULTS, tight=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(together.serve)
        await together.ours.send_all(request() * (number - 1) + request("GET / HTTP/1.1", "Connection: close"))
        taken = await taken_by(together.ours, rate)
    assert (len(statuses(taken)) == number) == is_whole
    assert trio.current_time() == pytest.approx(100 if is_whole else 60, abs=4)


class Jammed(trio.abc.Stream):
    """A peer that sends one request, and takes nothing."""

    def __init__(self) -> None:
        self._sent = False
        self.closed_at = 0.0

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.sleep_forever()

    async def wait_send_all_might_not_block(self) -> None:
        raise NotImplementedError

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if self._sent:
            await trio.sleep_forever()
        self._sent = True
        await trio.lowlevel.checkpoint()
        return request()

    async def aclose(self) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_peer_that_takes_nothing_is_cut(streamed: bool, autojump_clock: object) -> None:  # noqa: ARG001
    cancelled: list[bool] = []

    async def write(send: Send) -> None:
        try:
            await send(b"a")
        except trio.Cancelled:
            cancelled.append(True)
            raise

    async def answer(_: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (), write if streamed else b"a")

    server = HttpServer(answer, lambda: NOW_MS)
    began = trio.current_time()
    await HttpConnection(Jammed(), "p", server).serve()
    assert trio.current_time() - began == pytest.approx(DEFAULTS.write_seconds)


async def test_a_connection_whose_peer_takes_nothing_can_be_closed_for_another(autojump_clock: object) -> None:  # noqa: ARG001
    limits = HostLimits(write_seconds=1e6, answer_seconds=1e6)
    connection = HttpConnection(Jammed(), "p", HttpServer(echo, lambda: NOW_MS, limits))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.serve)
        connection.slot.enter(None, connection)
        await trio.testing.wait_all_tasks_blocked()
        connection.slot.close(HttpRefusal(CLOSED_FOR_ANOTHER))
    assert trio.current_time() < 1e6 / 2


# Numbers of connections


class Held:
    """Answers each request when the test says so."""

    def __init__(self) -> None:
        self.begun = 0
        self.go_on = trio.Event()

    async def answer_known(self, http_request: HttpRequest) -> HttpResponse:
        """Answer the request of a known caller."""
        http_request.slot.take("acme", "ann", "")
        return await self.answer(http_request)

    async def answer(self, http_request: HttpRequest) -> HttpResponse:
        """Answer the request of a caller that nobody knows, unless it has no place."""
        http_request.slot.settle()
        self.begun += 1
        await self.go_on.wait()
        return HttpResponse(200)


async def _settled(http_request: HttpRequest) -> HttpResponse:
    http_request.slot.settle()
    return await echo(http_request)


async def test_one_address_has_so_many_requests_of_unknown_callers_and_one_more_is_refused() -> None:
    held = Held()
    async with served(held.answer, SMALL) as server:
        streams: list[trio.SocketStream] = []
        for number in range(3):
            streams.append(await server.connect())
            await streams[-1].send_all(request("GET / HTTP/1.1", "Connection: close"))
            while held.begun <= number:
                await trio.testing.wait_all_tasks_blocked()
        answer = await server.talk(request())
        assert statuses(answer) == [503]
        assert b"\r\nretry-after: 1\r\n" in answer
        assert b"\r\nconnection: close\r\n" in answer
        held.go_on.set()
        for stream in streams:
            assert statuses(await everything(stream)) == [200]
            await stream.aclose()
        assert statuses(await server.talk(request())) == [200]


async def test_a_connection_of_an_address_that_waits_for_a_request_is_closed_for_a_new_one() -> None:
    async with served(_settled, SMALL) as server:
        streams: list[trio.SocketStream] = []
        for _ in range(4):
            streams.append(await server.connect())
            await streams[-1].send_all(request())
            assert statuses(await streams[-1].receive_some()) == [200]
            await trio.testing.wait_all_tasks_blocked()
        assert await everything(streams[0]) == b""
        for stream in streams[1:]:
            await stream.send_all(request("GET / HTTP/1.1", "Connection: close"))
            assert statuses(await everything(stream)) == [200]
        for stream in streams:
            await stream.aclose()


async def test_a_client_that_is_one_too_many_and_asks_for_nothing_is_told_so() -> None:
    held = Held()
    async with served(held.answer_known, HostLimits(connections=1)) as server, await server.connect() as stream:
        await stream.send_all(request("GET / HTTP/1.1", "Connection: close"))
        while not held.begun:
            await trio.testing.wait_all_tasks_blocked()
        assert statuses(await server.talk(b"", ends=False)) == [503]
        held.go_on.set()
        assert statuses(await everything(stream)) == [200]


@pytest.mark.long
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_those_who_watch_a_full_server_are_answered_although_others_that_are_too_many_say_nothing(
    path: str,
) -> None:
    held = Held()

    async def answer(http_request: HttpRequest) -> HttpResponse:
        return HttpResponse(200) if http_request.path == path else await held.answer_known(http_request)

    async with served(answer, HostLimits(connections=1)) as server, await server.connect() as stream:
        await stream.send_all(request("GET / HTTP/1.1", "Connection: close"))
        while not held.begun:
            await trio.testing.wait_all_tasks_blocked()
        silent = [await server.connect() for _ in range(MAX_HEARD)]
        answers = [await server.talk(request(f"GET {path} HTTP/1.1"), ends=False) for _ in range(3)]
        assert list(map(statuses, answers)) == [[200]] * 3
        assert all(b"\r\nconnection: close\r\n" in answer for answer in answers)
        assert statuses(await server.talk(request(), ends=False)) == [503]
        held.go_on.set()
        assert statuses(await everything(stream)) == [200]
        for other in silent:
            await trio.aclose_forcefully(other)


async def test_in_a_full_server_the_connection_that_has_waited_longest_is_closed() -> None:
    limits = HostLimits(connections=3, connections_per_address=100)
    async with served(_settled, limits) as server:
        streams = [await server.connect() for _ in range(3)]
        for stream in streams:
            await stream.send_all(request())
            assert statuses(await stream.receive_some()) == [200]
            await trio.testing.wait_all_tasks_blocked()
        assert statuses(await server.talk(request())) == [200]
        assert await everything(streams[0]) == b""
        for stream in streams[1:]:
            await stream.send_all(request("GET / HTTP/1.1", "Connection: close"))
            assert statuses(await everything(stream)) == [200]
        for stream in streams:
            await stream.aclose()


async def test_a_server_in_which_all_work_refuses_more() -> None:
    held = Held()
    async with served(held.answer_known, HostLimits(connections=1)) as server, await server.connect() as stream:
        await stream.send_all(request("GET / HTTP/1.1", "Connection: close"))
        while not held.begun:
            await trio.testing.wait_all_tasks_blocked()
        assert statuses(await server.talk(request())) == [503]
        held.go_on.set()
        assert statuses(await everything(stream)) == [200]


@pytest.mark.long
async def test_two_hundred_half_open_connections_harm_nobody() -> None:
    async with served(limits=HostLimits(connections_per_address=1000)) as server:
        streams = [await server.connect() for _ in range(200)]
        for number, stream in enumerate(streams):
            await stream.send_all(request()[: number % 30])
        assert [statuses(await server.talk(request())) for _ in range(50)] == [[200]] * 50
        for stream in streams:
            await stream.aclose()
