"""h11 reads what our parser takes in the same way, and what our connection answers as it was meant."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import h11
import pytest
import trio
import trio.testing
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from agentrail.api.limits import DEFAULTS
from agentrail.host.http11.http_server import HttpConnection, HttpServer
from agentrail.host.http11.inbound import ChunkedBody, PlainBody
from agentrail.host.http11.request_head import read_head
from agentrail.host.requests.http_messages import WITHOUT_CONTENT, Headers, HttpRequest, HttpResponse, Send
from agentrail.host.requests.refusals import HttpRefusal
from tests.host.http11.mutating import mutated
from tests.host.http11.served import NOW_MS, request
from tests.profiles import CAMPAIGN

pytestmark = pytest.mark.long

REQUESTS: Final = 1_000_000 if CAMPAIGN else 5_000


# What our parser takes


@frozen
class Understood:
    """What a reader takes for the first request."""

    method: str
    target: str
    headers: Headers
    body: bytes
    is_last: bool
    rest: bytes


def understood_by_us(sent: bytes) -> Understood | None:
    """Return the first request, if it is whole and is not refused."""
    end = sent.find(b"\r\n\r\n") + 4
    if not 4 <= end <= DEFAULTS.header_bytes:
        return None
    buffer, body = bytearray(sent[end:]), b""
    try:
        head = read_head(sent[:end])
        framing: ChunkedBody | PlainBody = ChunkedBody() if head.length is None else PlainBody(head.length)
        while not framing.ended:
            count = len(buffer)
            body += framing.take(buffer)
            if len(buffer) == count:
                return None
    except HttpRefusal:
        return None
    headers = tuple((name, value.lower() if name == "transfer-encoding" else value) for name, value in head.headers)
    return Understood(head.method, head.target, headers, body, head.is_last, bytes(buffer))


def understood_by_h11(sent: bytes) -> Understood:
    machine, body = h11.Connection(h11.SERVER, DEFAULTS.header_bytes), b""
    machine.receive_data(sent)
    head = machine.next_event()
    assert isinstance(head, h11.Request)
    while isinstance(event := machine.next_event(), h11.Data):
        body += event.data
    assert isinstance(event, h11.EndOfMessage)
    rest = machine.trailing_data[0]
    machine.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
    machine.send(h11.EndOfMessage())
    headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in head.headers)
    is_last = machine.our_state is h11.MUST_CLOSE
    return Understood(head.method.decode(), head.target.decode(), headers, body, is_last, rest)


def test_what_is_taken_is_for_h11_the_same_request() -> None:
    chance, taken = random.Random(42), 0
    for _ in range(REQUESTS):
        sent = mutated(chance)
        ours = understood_by_us(sent)
        if ours is not None:
            taken += 1
            assert understood_by_h11(sent) == ours
    assert taken > REQUESTS / 20


# What our connection answers

NAMES: Final = st.from_regex(r"x-[a-z0-9!#$%&'*+.^_`|~-]{1,8}", fullmatch=True)
VALUES: Final = st.from_regex(r"([!-~]{1,8}([ \t]{1,2}[!-~]{1,4}){0,2})?", fullmatch=True)
STATUSES: Final = st.sampled_from([200, 201, 202, 204, 299, 304, 400, 404, 426, 500, 503, 599])
FIRST_LINES: Final = st.sampled_from(["GET / HTTP/1.1", "HEAD / HTTP/1.1", "GET / HTTP/1.0", "HEAD / HTTP/1.0"])


@frozen
class Exchange:
    """A request, and what the handler answers to it: one content, or pieces of a stream, the last of them returned."""

    first_line: str
    closes: bool
    status: int
    headers: Headers
    content: bytes | tuple[bytes, ...]

    @property
    def sent(self) -> bytes:
        return request(self.first_line, *(["Connection: close"] if self.closes else []))

    @property
    def is_last(self) -> bool:
        return self.closes or self.first_line.endswith("1.0")

    def response(self) -> HttpResponse:
        if isinstance(self.content, bytes):
            return HttpResponse(self.status, self.headers, self.content)
        *pieces, last = self.content

        async def write(send: Send) -> bytes:
            for piece in pieces:
                await send(piece)
            return last

        return HttpResponse(self.status, self.headers, write)


@st.composite
def exchanges(draw: Callable[[st.SearchStrategy[object]], object]) -> Exchange:
    status = draw(STATUSES)
    bodies: st.SearchStrategy[object] = st.binary(max_size=40)
    contents = bodies | st.lists(st.binary(max_size=40), min_size=1, max_size=4).map(tuple)
    content = b"" if status in WITHOUT_CONTENT else draw(contents)
    headers = draw(st.lists(st.tuples(NAMES, VALUES), max_size=3).map(tuple))
    return Exchange(draw(FIRST_LINES), draw(st.booleans()), status, headers, content)  # type: ignore[arg-type]


async def answers(drawn: list[Exchange]) -> bytes:
    """Return what a connection sends to a peer that sends all requests at once."""
    pieces = iter(drawn)

    async def handler(_: HttpRequest) -> HttpResponse:
        return next(pieces).response()

    ours, theirs = trio.testing.memory_stream_pair()
    server = HttpServer(handler, lambda: NOW_MS)
    await theirs.send_all(b"".join(exchange.sent for exchange in drawn))
    await theirs.send_eof()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.late.run)
        await HttpConnection(ours, "127.0.0.1", server).serve()
        nursery.cancel_scope.cancel()
    await ours.aclose()
    received = b""
    while piece := await theirs.receive_some():
        received += piece
    return received


@given(st.lists(exchanges(), min_size=1, max_size=3))
def test_each_answer_is_read_by_h11_as_it_was_meant(drawn: list[Exchange]) -> None:
    received = trio.run(answers, drawn)
    for number, exchange in enumerate(drawn):
        client = h11.Connection(h11.CLIENT)
        client.send(h11.Request(method=exchange.first_line.split()[0], target="/", headers=[("host", "h")]))
        client.send(h11.EndOfMessage())
        client.receive_data(received)
        head, content = client.next_event(), b""
        assert isinstance(head, h11.Response), head
        headers = [(name.decode(), value.decode()) for name, value in head.headers]
        assert head.status_code == exchange.status
        assert headers[: len(exchange.headers)] == [*exchange.headers]
        assert (("connection", "close") in headers) == exchange.is_last
        if exchange.is_last:
            client.receive_data(b"")
        while isinstance(event := client.next_event(), h11.Data):
            content += event.data
        assert isinstance(event, h11.EndOfMessage)
        expected = exchange.content if isinstance(exchange.content, bytes) else b"".join(exchange.content)
        assert content == (b"" if exchange.first_line.startswith("HEAD") else expected)
        received = client.trailing_data[0]
        if exchange.is_last:
            assert number == len(drawn) - 1 or received == b""
            return
    assert received == b""
