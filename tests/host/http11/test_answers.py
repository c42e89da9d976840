"""What a handler may return, and what becomes of it when its peer goes away or it fails."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import cast

import pytest
import trio
import trio.testing

from agentrail.host import HostLimits
from agentrail.host.http11.http_server import HttpConnection, HttpServer
from agentrail.host.operations.host_calls import StaticContent
from agentrail.host.requests.http_messages import Headers, HttpRequest, HttpResponse, Send, Upgrade
from agentrail.host.requests.refusals import BAD_HEAD, HttpRefusal
from tests.host.http11.served import NOW_MS, everything, request, served, statuses
from tests.patience import PATIENCE

CLOSE = request("GET / HTTP/1.1", "Connection: close")
Write = Callable[[Send], Awaitable[bytes | None]]


def streams(write: Write, status: int = 200) -> Callable[[HttpRequest], Awaitable[HttpResponse]]:
    async def answer(_: HttpRequest) -> HttpResponse:
        return HttpResponse(status, (), write)

    return answer


def gives(response: object) -> Callable[[HttpRequest], Awaitable[HttpResponse]]:
    async def answer(_: HttpRequest) -> HttpResponse:
        return cast("HttpResponse", response)

    return answer


async def test_a_websocket_is_no_answer_to_a_request_that_asks_for_none() -> None:
    async def converse(*_: object) -> None: ...

    async with served(gives(HttpResponse(101, (), Upgrade(converse, None)))) as answer_once:
        assert statuses(await answer_once.talk(CLOSE)) == [500]


# Streamed answers


async def test_a_stream_is_cancelled_when_its_peer_goes_away() -> None:
    begun, cancelled = trio.Event(), trio.Event()

    async def write(send: Send) -> None:
        await send(b"a")
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with served(streams(write)) as answer_once:
        async with await answer_once.connect() as stream:
            await stream.send_all(request())
            await begun.wait()
        with trio.fail_after(PATIENCE):
            await cancelled.wait()


class Noted(trio.abc.Stream):
    """A peer that sends one request, and notes each write to it."""

    def __init__(self) -> None:
        self._unread = [CLOSE]
        self.writes: list[bytes] = []

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self.writes.append(bytes(data))

    async def wait_send_all_might_not_block(self) -> None:
        raise NotImplementedError

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        if not self._unread:
            await trio.sleep_forever()
        return self._unread.pop()

    async def aclose(self) -> None:
        raise NotImplementedError


async def written_by(write: Write) -> list[bytes]:
    """Return the writes of an answer that *write* streams, the first without its head."""
    peer = Noted()
    await HttpConnection(peer, "p", HttpServer(streams(write), lambda: NOW_MS)).serve()
    head, _, first = peer.writes[0].partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    return [first, *peer.writes[1:]]


async def test_the_head_goes_out_with_the_first_piece_and_the_end_with_the_last() -> None:
    async def write(send: Send) -> bytes:
        await send(b"")
        await send(b"a")
        await send(b"b")
        return b"c"

    assert await written_by(write) == [b"1\r\na\r\n", b"1\r\nb\r\n", b"1\r\nc\r\n0\r\n\r\n"]


async def test_an_answer_of_one_piece_or_none_is_one_write() -> None:
    async def answer_once(_: Send) -> bytes:
        await trio.lowlevel.checkpoint()
        return b"a"

    async def none(_: Send) -> None:
        await trio.lowlevel.checkpoint()

    assert await written_by(answer_once) == [b"1\r\na\r\n0\r\n\r\n"]
    assert await written_by(none) == [b"0\r\n\r\n"]


async def test_a_stream_that_fails_before_its_first_piece_has_a_head_and_is_seen_to_be_cut() -> None:
    async def write(_: Send) -> None:
        await trio.lowlevel.checkpoint()
        raise ValueError

    assert await written_by(write) == [b""]


async def test_a_plain_handler_goes_on_when_its_peer_goes_away() -> None:
    begun, go_on, done = trio.Event(), trio.Event(), trio.Event()

    async def slow(_: HttpRequest) -> HttpResponse:
        begun.set()
        await go_on.wait()
        done.set()
        return HttpResponse(200)

    async with served(slow) as answer_once:
        async with await answer_once.connect() as stream:
            await stream.send_all(request())
            await begun.wait()
        go_on.set()
        with trio.fail_after(PATIENCE):
            await done.wait()


async def test_a_request_that_comes_during_a_stream_is_served_after_it() -> None:
    sent, go_on = trio.Event(), trio.Event()

    async def write(send: Send) -> None:
        await send(b"a")
        sent.set()
        await go_on.wait()

    async with served(streams(write)) as answer_once, await answer_once.connect() as stream:
        await stream.send_all(request())
        await sent.wait()
        await stream.send_all(CLOSE)
        go_on.set()
        assert statuses(await everything(stream)) == [200, 200]


async def test_a_stream_that_fails_is_seen_to_be_cut(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("secret")

    async def write(send: Send) -> None:
        await send(b"a")
        raise error

    async with served(streams(write)) as answer_once, await answer_once.connect() as stream:
        await stream.send_all(request())
        answer = await everything(stream)
    assert answer.endswith(b"\r\n\r\n1\r\na\r\n")
    (record,) = (record for record in caplog.records if record.name == "agentrail.http")
    assert "secret" not in caplog.text
    assert record.getMessage().startswith("the handler of GET / failed (request ")


async def test_a_stream_for_http_1_0_ends_with_the_connection() -> None:
    async def write(send: Send) -> None:
        await send(b"a")
        await send(b"")
        await send(b"b")

    async with served(streams(write)) as answer_once, await answer_once.connect() as stream:
        await stream.send_all(request("GET / HTTP/1.0"))
        answer = await everything(stream)
    assert answer.endswith(b"\r\n\r\nab")
    assert b"chunked" not in answer


async def test_a_body_that_is_read_within_a_stream_is_not_asked_for_in_its_midst() -> None:
    """`100 Continue` would be a part of the answer's content."""

    async def answer(http_request: HttpRequest) -> HttpResponse:
        async def write(send: Send) -> bytes:
            await send(b"a")
            return await http_request.body.read()

        return HttpResponse(200, (), write)

    expecting = request("POST / HTTP/1.1", "Expect: 100-continue", "Content-Length: 2", "Connection: close")
    async with served(answer) as answer_once, await answer_once.connect() as stream:
        await stream.send_all(expecting)
        head = await stream.receive_some()
        await stream.send_all(b"bc")
        answers = head + await everything(stream)
    assert (statuses(answers), answers.endswith(b"\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n")) == ([200], True)


async def test_head_has_the_headers_alone_and_begins_no_stream() -> None:
    begun: list[bool] = []

    async def write(_: Send) -> None:
        begun.append(True)

    head = request("HEAD / HTTP/1.1")
    async with served(streams(write)) as answer_once:
        answers = await answer_once.talk(head + head)
        assert (statuses(answers), answers.endswith(b"\r\n\r\n"), begun) == ([200, 200], True, [])
        assert [seen.method for seen in answer_once.seen] == ["GET", "GET"]
    async with served(gives(HttpResponse(200, (), b"hello"))) as answer_once:
        answers = await answer_once.talk(head + head)
    assert (statuses(answers), answers.count(b"content-length: 5\r\n"), b"hello" in answers) == ([200, 200], 2, False)


async def test_a_drained_server_cancels_what_does_not_end() -> None:
    begun = trio.Event()

    async def write(send: Send) -> None:
        await send(b"a")
        begun.set()
        await trio.sleep_forever()

    async with served(streams(write)) as answer_once, await answer_once.connect() as stream:
        await stream.send_all(request())
        await begun.wait()
        await answer_once.server.drain(0)
        assert (await everything(stream)).endswith(b"1\r\na\r\n")
        assert len(answer_once.server) == 0
        with pytest.raises(OSError, match="connect"):
            await answer_once.connect()


async def test_a_stream_can_say_goodbye_when_the_server_is_drained() -> None:
    begun, drained = trio.Event(), trio.Event()

    async with trio.open_nursery() as nursery:

        async def write(send: Send) -> None:
            begun.set()
            await drained.wait()
            await send(b"bye")

        async with served(streams(write)) as answer_once, await answer_once.connect() as stream:
            await stream.send_all(request())
            await begun.wait()
            nursery.start_soon(answer_once.server.drain, 20)
            await trio.testing.wait_all_tasks_blocked()
            drained.set()
            assert (await everything(stream)).endswith(b"3\r\nbye\r\n0\r\n\r\n")


async def test_a_long_answer_is_sent_whole() -> None:
    content = bytes(range(256)) * 20_000
    async with served(gives(HttpResponse(200, (), content))) as answer_once, await answer_once.connect() as stream:
        await stream.send_all(CLOSE)
        assert (await everything(stream)).endswith(b"\r\n\r\n" + content)


# What a handler must not return


class Odd:
    """Neither bytes nor a function."""


@pytest.mark.parametrize(
    "response",
    [
        None,
        "text",
        HttpResponse(99),
        HttpResponse(100),
        HttpResponse(1000),
        HttpResponse(cast("int", "200")),
        HttpResponse(200, (), cast("bytes", "text")),
        HttpResponse(200, (), cast("bytes", Odd())),
        HttpResponse(204, (), b"a"),
        HttpResponse(304, (), b"a"),
        HttpResponse(200, cast("Headers", None)),
        HttpResponse(200, cast("Headers", ("a",))),
        HttpResponse(200, (("a b", "c"),)),
        HttpResponse(200, (("a", "b\r\nc: d"),)),
        HttpResponse(200, (("a", "b\n"),)),
        HttpResponse(200, (("a", "\xe4"),)),
        HttpResponse(200, (("a", cast("str", 1)),)),
        *(HttpResponse(200, ((name, "5"),)) for name in ("Content-Length", "connection", "DATE", "Transfer-Encoding")),
    ],
    ids=range(21),
)
async def test_an_answer_that_cannot_be_sent_is_a_500(response: object, caplog: pytest.LogCaptureFixture) -> None:
    async with served(gives(response)) as answer_once:
        assert statuses(await answer_once.talk(request() + request())) == [500, 500]
    assert "the handler of GET / failed" in caplog.text


@pytest.mark.parametrize("status", [204, 304])
async def test_an_answer_without_content_has_no_length(status: int) -> None:
    async with served(gives(HttpResponse(status))) as answer_once:
        answers = await answer_once.talk(request() + request())
    assert (statuses(answers), b"content-length" in answers) == ([status, status], False)


class HostileError(Exception):
    """An exception that breaks whoever looks at it."""

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


@pytest.mark.parametrize(
    "error",
    [
        ValueError("secret"),
        HostileError(),
        SystemExit(1),
        ExceptionGroup("secret", [ValueError("secret"), KeyError("secret")]),
        trio.ClosedResourceError("secret"),
        trio.TooSlowError("secret"),
        RecursionError("secret"),
        UnicodeEncodeError("utf-8", "secret", 0, 1, "secret"),
        GeneratorExit("secret"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_whatever_a_handler_raises_is_a_500_without_its_words(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(_: HttpRequest) -> HttpResponse:
        raise error

    async with served(fails) as answer_once:
        answers = await answer_once.talk(request() + request())
    assert statuses(answers) == [500, 500]
    assert b"secret" not in answers
    assert "secret" not in caplog.text


async def test_a_refusal_of_a_handler_is_told() -> None:
    group = ExceptionGroup("of a nursery", [HttpRefusal(BAD_HEAD)])

    async def refuses(_: HttpRequest) -> HttpResponse:
        raise group

    async with served(refuses) as answer_once:
        assert statuses(await answer_once.talk(request() + request())) == [400, 400]


# Content that stays the same


@pytest.mark.parametrize(
    ("tags", "status"),
    [
        (None, 200),
        ("{tag}", 304),
        ("W/{tag}", 304),
        ('"a", {tag}', 304),
        ('"a",W/{tag} , "b"', 304),
        ("*", 304),
        ('"a"', 200),
        ("{tag}x", 200),
        ("", 200),
        ('W/"a", "b"', 200),
    ],
)
async def test_content_is_sent_unless_the_client_has_it(tags: str | None, status: int) -> None:
    page = StaticContent(b"<p>", "text/html; charset=utf-8")

    async def answer(http_request: HttpRequest) -> HttpResponse:
        return page.answer(http_request)

    sent = () if tags is None else (f"If-None-Match: {tags.format(tag=page.etag)}",)
    async with served(answer) as answer_once:
        answers = await answer_once.talk(request("GET / HTTP/1.1", *sent))
    assert statuses(answers) == [status]
    assert f"etag: {page.etag}\r\n".encode() in answers
    assert answers.endswith(b"<p>") == (status == 200)


# The access log


async def test_each_request_is_one_line_without_values(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agentrail.access")
    async with served(limits=HostLimits()) as answer_once:
        await answer_once.talk(
            request("GET /v1/ab?since=1&token=secret&secret&a%20b=secret&=secret HTTP/1.1", "X: secret")
            + request("HEAD / HTTP/1.1")
            + request("GET /" + "a" * 300 + " HTTP/1.1")
            + b"GET secret\r\n\r\n"
        )
    lines = [record.getMessage().rpartition(" bytes ")[0] for record in caplog.records]
    assert lines == [
        "127.0.0.1 GET /v1/ab?since=…&token=…&…&…&… 200 108",
        "127.0.0.1 HEAD / 200 0",
        f"127.0.0.1 GET /{'a' * 199}… 200 355",
        "127.0.0.1 - - 400 564",
    ]


async def test_a_peer_that_has_gone_is_told_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agentrail.access")

    async def write(send: Send) -> None:
        while True:
            await send(b"a")
            await trio.lowlevel.checkpoint()

    async with served(streams(write)) as answer_once:
        async with await answer_once.connect() as stream:
            await stream.send_all(request())
            await stream.receive_some()
        while not caplog.records:
            await trio.testing.wait_all_tasks_blocked()
    assert caplog.records[0].getMessage().startswith("127.0.0.1 GET / 200 ")


# Tasks that outlive their answer


async def test_what_was_given_to_one_answer_is_of_no_use_for_the_next() -> None:
    sends: list[Send] = []

    async def write(send: Send) -> None:
        for answer_once in sends:
            with pytest.raises(trio.ClosedResourceError):
                await answer_once(b"stale")
        sends.append(send)
        await send(b"a")

    async with served(streams(write)) as answer_once, await answer_once.connect() as stream:
        await stream.send_all(request() + CLOSE)
        answers = await everything(stream)
    assert (statuses(answers), b"stale" in answers, len(sends)) == ([200, 200], False, 2)


async def test_a_body_cannot_be_read_after_its_answer() -> None:
    http_requests: list[HttpRequest] = []

    async def keeps(http_request: HttpRequest) -> HttpResponse:
        for answer_once in http_requests:
            with pytest.raises(HttpRefusal, match="not as its head says"):
                await answer_once.body.read()
        http_requests.append(http_request)
        return HttpResponse(200)

    async with served(keeps) as answer_once:
        await answer_once.talk(request("POST / HTTP/1.1", "Content-Length: 5") + b"he")
        await answer_once.talk(request())
    assert len(http_requests) == 2
