"""What a peer gets from a live server."""

from __future__ import annotations

import json
import re

import trio

from agentrail.host.requests.http_messages import HttpRequest, HttpResponse, Send
from tests.host.http11.served import TODAY, everything, request, served, statuses


async def test_an_answer_has_a_date_and_its_length() -> None:
    async def hello(_: HttpRequest) -> HttpResponse:
        return HttpResponse(200, (("content-type", "text/plain"),), b"hello")

    async with served(hello) as server:
        answer = await server.talk(request())
    (request_id,) = re.findall(rb"x-request-id: ([0-9a-f]{32})\r\n", answer)
    assert answer == (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n"
        b"date: " + TODAY.encode() + b"\r\nx-request-id: " + request_id + b"\r\ncontent-length: 5\r\n\r\nhello"
    )


async def test_pipelined_requests_are_served_one_after_the_other() -> None:
    async with served() as server:
        sent = b"".join(request(f"POST /{n} HTTP/1.1", "Content-Length: 2") + b"ab" for n in range(5))
        answers = await server.talk(sent)
    assert statuses(answers) == [200] * 5
    assert [seen.path for seen in server.seen] == ["/0", "/1", "/2", "/3", "/4"]


async def test_an_exception_of_a_handler_is_a_500_without_its_words_and_the_server_goes_on() -> None:
    async def fails(http_request: HttpRequest) -> HttpResponse:
        if http_request.path == "/fails":
            raise ValueError("secret")
        return HttpResponse(200)

    async with served(fails) as server:
        answers = await server.talk(request("GET /fails HTTP/1.1") + request())
    assert statuses(answers) == [500, 200]
    assert b"secret" not in answers


async def test_a_streamed_answer_comes_in_chunks() -> None:
    async def streams(_: HttpRequest) -> HttpResponse:
        async def write(send: Send) -> None:
            await send(b"one")
            await send(b"two")

        return HttpResponse(200, (), write)

    async with served(streams) as server, await server.connect() as stream:
        await stream.send_all(request("GET / HTTP/1.1", "Connection: close"))
        answer = await everything(stream)
    assert answer.partition(b"\r\n\r\n")[2] == b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"


async def test_a_drained_server_closes_what_waits_and_ends_what_works() -> None:
    begun, go_on = trio.Event(), trio.Event()

    async def slow(_: HttpRequest) -> HttpResponse:
        begun.set()
        await go_on.wait()
        return HttpResponse(200, (), b"done")

    answers: list[bytes] = []
    async with (
        served(slow) as server,
        await server.connect() as idle,
        await server.connect() as busy,
        trio.open_nursery() as n,
    ):

        async def ask() -> None:
            await busy.send_all(request())
            answers.append(await everything(busy))

        n.start_soon(ask)
        await begun.wait()
        n.start_soon(server.server.drain, 20)
        assert await everything(idle) == b""
        go_on.set()
    assert statuses(answers[0]) == [200]
    assert b"connection: close" in answers[0]


async def test_a_body_is_read_once_however_it_is_sent() -> None:
    async with served() as reply:
        sent = request("POST / HTTP/1.1", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        sent += request("POST / HTTP/1.1", "Content-Length: 5") + b"abcde"
        answers = await reply.talk(sent)
    bodies = [json.loads(reply.split(b"\r\n\r\n")[1])["body"] for reply in answers.split(b"HTTP/1.1 ")[1:]]
    assert bodies == ["abcde", "abcde"]
