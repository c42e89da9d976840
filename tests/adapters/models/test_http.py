"""The client for HTTP, against a server that plays every byte."""

from __future__ import annotations

import contextlib
import gc
import gzip
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.lowlevel
import trio.testing
from httpcore import AsyncConnectionPool

import agentrail
from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.models.http import Http, HttpAnswer, Patience, Post
from agentrail.errors import (
    ConnectionFailed,
    ModelError,
    NoFirstByte,
    NoNextByte,
    PermanentModelError,
    ServerMissing,
    StreamEndedEarly,
    StreamGarbled,
    WrongEndpoint,
)
from tests.adapters.models import anthropic_events as anthropic
from tests.adapters.models.server import (
    Mark,
    Pause,
    Play,
    Reset,
    Server,
    Stall,
    Step,
    Wait,
    chunked,
    head,
    refusing,
    serving,
    steps,
    streaming,
)
from tests.patience import PATIENCE
from tests.runtime.cutting import cut

BODY = '{"a":"ü"}'.encode()
HASTE = Patience(1, 0.1, 0.1)
THEN_HASTE = Patience(1, PATIENCE, 0.1)
"""The answer may begin late, as on a busy machine, and has to go on at once."""
TIME = Patience(5, 5, 5)
CHUNKED = head(200, "transfer-encoding: chunked")


@contextlib.asynccontextmanager
async def client(connections: int = 10) -> AsyncIterator[Http]:
    http = Http(connections)
    try:
        yield http
    finally:
        await http.close()


def post(server: Server, patience: Patience = TIME, **headers: str) -> Post:
    return Post(f"{server.url}/v1/x", headers, BODY, patience)


async def asked(http: Http, server: Server, patience: Patience = TIME) -> tuple[HttpAnswer, bytes]:
    """Make a request, and return its answer and what was heard; the answer is complete with `end`."""
    heard = bytearray()

    def hear(piece: bytes) -> bool:
        heard.extend(piece)
        return heard.endswith(b"end")

    answer = await http.post(post(server, patience), hear)
    return answer, bytes(heard)


def pool(http: Http) -> AsyncConnectionPool:
    found: object = vars(vars(http.client("http://127.0.0.1"))["_transport"])["_pool"]
    assert isinstance(found, AsyncConnectionPool)
    return found


def idle(http: Http) -> bool:
    """Whether no connection is kept for a request that is over."""
    return all(connection.is_idle() for connection in pool(http).connections)


def streams() -> list[trio.SocketStream]:
    """Return all streams of open sockets: while they are held, the garbage collector closes none by chance."""
    found = [one for one in gc.get_objects() if isinstance(one, trio.SocketStream)]
    return [one for one in found if one.socket.fileno() >= 0]


# Answers


async def test_a_request_goes_out_as_it_is_and_a_stream_is_heard_piece_by_piece() -> None:
    async with serving(streaming(b"one two end", size=4)) as server, client() as http:
        answer, heard = await asked(http, server)
        (request,) = server.asked
    assert (answer.status, heard) == (200, b"one two end")
    assert (request.method, request.target, request.body) == ("POST", "/v1/x", '{"a":"ü"}'.encode())


async def test_a_connection_is_used_again_after_a_whole_answer() -> None:
    async with serving(streaming(b"end")) as server, client() as http:
        for _ in range(3):
            await asked(http, server)
        assert (server.opened, len(server.asked)) == (1, 3)


async def test_a_connection_that_the_server_has_closed_meanwhile_is_not_used_again() -> None:
    async with serving(streaming(b"end", keep=False)) as server, client() as http:
        for _ in range(3):
            assert (await asked(http, server))[1] == b"end"
            await trio.testing.wait_all_tasks_blocked()
        assert (server.opened, len(server.asked)) == (3, 3)


async def test_no_more_requests_run_at_once_than_were_agreed() -> None:
    may_answer = trio.Event()
    plays = Play((CHUNKED, Wait(may_answer), *chunked([b"end"])))
    async with serving(plays) as server, client(connections=2) as http:
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(asked, http, server)
            while len(server.asked) < 2:  # noqa: ASYNC110 - the kernel is between them
                await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert (len(server.asked), server.opened) == (2, 2)
            may_answer.set()
        assert len(server.asked) == 5


async def test_an_answer_that_is_complete_is_not_waited_for_any_longer() -> None:
    async with serving(Play((CHUNKED, *chunked([b"the end"])[:1], Stall()))) as server, client() as http:
        _, heard = await asked(http, server)
        assert heard == b"the end"
        assert pool(http).connections == []


@pytest.mark.parametrize("last", [Reset(), b"7\r\nbro"])
async def test_what_comes_behind_the_end_of_an_answer_does_no_harm(last: Step) -> None:
    async with serving(Play((CHUNKED, *chunked([b"the end"])[:1], last))) as server, client() as http:
        _, heard = await asked(http, server)
        assert heard.startswith(b"the end")


async def test_an_error_is_returned_with_its_headers_and_body() -> None:
    async with serving(refusing(429, b'{"error":1}', "Retry-After: 7")) as server, client() as http:
        answer, heard = await asked(http, server)
    assert (answer.status, answer.headers["retry-after"], answer.body, heard) == (429, "7", b'{"error":1}', b"")


async def test_of_a_huge_error_only_the_beginning_is_read() -> None:
    huge = Play((head(500, "content-length: 100000000", kind="text/plain"), b"x" * 200_000, Stall()))
    async with serving(huge) as server, client() as http:
        answer, _ = await asked(http, server)
        assert (answer.status, len(answer.body)) == (500, 64 * 1024)
        assert pool(http).connections == []


async def test_an_error_that_breaks_off_is_still_an_error() -> None:
    async with serving(Play((head(503, "content-length: 100"), b"half"))) as server, client() as http:
        answer, _ = await asked(http, server)
    assert (answer.status, answer.body) == (503, b"half")


async def test_an_error_that_does_not_go_on_is_still_an_error() -> None:
    async with serving(Play((head(503, "content-length: 100"), b"half", Stall()))) as server, client() as http:
        answer, _ = await asked(http, server, THEN_HASTE)
        assert (answer.status, answer.body) == (503, b"half")
        assert pool(http).connections == []


@pytest.mark.parametrize("kind", ["application/json", "text/html; charset=utf-8"])
async def test_a_document_is_no_stream(kind: str) -> None:
    async with serving(refusing(200, b"<html>", kind=kind)) as server, client() as http:
        answer, heard = await asked(http, server)
    assert (answer.status, answer.body, heard) == (200, b"<html>", b"")


async def test_an_error_is_read_however_it_is_encoded() -> None:
    zipped = refusing(400, gzip.compress(b'{"error":1}'), "content-encoding: gzip", kind="text/plain")
    broken = refusing(400, b"no gzip", "content-encoding: gzip")
    async with serving(zipped, broken) as server, client() as http:
        assert [(await asked(http, server))[0].body for _ in range(2)] == [b'{"error":1}', b""]


async def test_what_comes_before_an_answer_is_passed_over() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    async with serving(Play((early, early, CHUNKED, *chunked([b"end"])))) as server, client() as http:
        assert (await asked(http, server))[1] == b"end"


@pytest.mark.parametrize("proxy", ["socks9://127.0.0.1", "http://[::1"])
async def test_a_proxy_that_cannot_be_used_is_named_as_the_reason(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    async with serving(streaming(b"end")) as server, client() as http:
        with pytest.raises(PermanentModelError, match="the proxy that the environment names cannot be used"):
            await asked(http, server)
        monkeypatch.delenv("ALL_PROXY")
        assert (await asked(http, server))[1] == b"end"


async def test_a_redirect_is_not_followed() -> None:
    moved = refusing(302, b"", "location: /elsewhere")
    async with serving(moved) as server, client() as http:
        answer, _ = await asked(http, server)
        assert (answer.status, len(server.asked)) == (302, 1)


async def test_no_cookie_is_kept() -> None:
    play = Play((head(200, "transfer-encoding: chunked", "set-cookie: who=somebody"), *chunked([b"end"])), keep=True)
    async with serving(play) as server, client() as http:
        await asked(http, server)
        await asked(http, server)
        assert "cookie" not in server.asked[1].headers


# Failures


@pytest.mark.parametrize(
    ("play", "wanted"),
    [
        (Play((Stall(),)), NoFirstByte("nothing came for 0.1 seconds")),
        (steps(Stall()), NoFirstByte("nothing came for 0.1 seconds")),
        (steps(b"one", Stall()), NoNextByte("nothing came for 0.1 seconds")),
    ],
)
async def test_waiting_has_an_end(play: Play, wanted: ModelError) -> None:
    async with serving(play) as server, client() as http:
        with pytest.raises(type(wanted)) as raised:
            await asked(http, server, HASTE)
        assert raised.value == wanted
        assert pool(http).connections == []


async def test_each_byte_gives_the_next_one_its_time() -> None:
    slowly: tuple[Step, ...] = tuple(step for letter in b"slowly, end" for step in (bytes([letter]), Pause(0.11)))
    async with serving(steps(*slowly)) as server, client() as http:
        _, heard = await asked(http, server, Patience(20, 1, 1))
    assert heard == b"slowly, end"


@pytest.mark.parametrize(
    ("play", "wanted"),
    [
        (Play(()), ConnectionFailed),
        (Play((Reset(),)), ConnectionFailed),
        (Play((b"HTTP/1.1 200 OK\r\ncontent-",)), ConnectionFailed),
        (Play((b"\x16\x03\x01 this is not HTTP\r\n\r\n",)), ConnectionFailed),
        (Play((CHUNKED, chunked([b"one"])[0])), StreamEndedEarly),
        (Play((CHUNKED, chunked([b"one"])[0], b"no length\r\n")), StreamEndedEarly),
        (Play((head(200, "content-encoding: gzip"), b"no gzip")), StreamGarbled),
    ],
)
async def test_what_breaks_is_told_by_class(play: Play, wanted: type[ModelError]) -> None:
    async with serving(play) as server, client() as http:
        with pytest.raises(wanted):
            await asked(http, server)
        assert idle(http)


async def test_nobody_there() -> None:
    async with serving(streaming(b"end")) as server:
        pass
    async with client() as http:
        with pytest.raises(ServerMissing, match=f"nothing listens on the way to {server.url}/v1/x; start the server"):
            await asked(http, server)


async def test_a_connection_that_cannot_be_made_is_told_with_its_reason_and_where_it_was_to_lead() -> None:
    async def plain(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 400 this is no TLS\r\n\r\n")
        await stream.receive_some()

    async with trio.open_nursery() as nursery, client() as http:
        (listener,) = await nursery.start(partial(trio.serve_tcp, plain, 0, host="127.0.0.1"))
        url = f"https://127.0.0.1:{listener.socket.getsockname()[1]}/v1"
        with pytest.raises(ConnectionFailed, match=rf"SSL.*; it was in a request to {url}"):
            await http.post(Post(url, {}, BODY, TIME), bool)
        nursery.cancel_scope.cancel()


async def test_a_request_that_is_cut_in_the_handshake_leaves_no_connection_open() -> None:
    begun, gone = trio.Event(), trio.Event()

    async def silent(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        begun.set()
        with contextlib.suppress(trio.BrokenResourceError):
            await stream.receive_some()
        gone.set()

    async with trio.open_nursery() as nursery, client() as http:
        (listener,) = await nursery.start(partial(trio.serve_tcp, silent, 0, host="127.0.0.1"))
        url = f"https://127.0.0.1:{listener.socket.getsockname()[1]}/v1"
        async with trio.open_nursery() as asking:
            asking.start_soon(http.post, Post(url, {}, BODY, TIME), bool)
            await begun.wait()
            held = streams()
            asking.cancel_scope.cancel()
        with trio.fail_after(PATIENCE):
            await gone.wait()
        assert held
        assert pool(http).connections == []
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "http://[::1", "/v1"])
async def test_what_is_no_address_is_said(url: str) -> None:
    async with client() as http:
        with pytest.raises(WrongEndpoint):
            await http.post(Post(url, {}, BODY, TIME), lambda _: True)


async def test_a_fault_in_what_is_heard_ends_the_request_at_once() -> None:
    def hear(_: bytes) -> bool:
        problem = "this is no event"
        raise StreamGarbled(problem)

    async with serving(steps(b"one", Stall())) as server, client() as http:
        with pytest.raises(StreamGarbled):
            await http.post(post(server), hear)
        assert pool(http).connections == []


def test_a_post_does_not_show_its_headers() -> None:
    assert repr(Post("http://x/", {"x-api-key": "sk-1"}, BODY, TIME)) == "<Post to http://x/>"


# Cancellation


@pytest.mark.parametrize(
    "before",
    [
        pytest.param((), id="before the first byte"),
        pytest.param((b"HTTP/1.1 200 OK\r\ncontent-",), id="in a header"),
        pytest.param((CHUNKED,), id="between the head and the body"),
        pytest.param((CHUNKED, b"1"), id="in the length of a piece"),
        pytest.param((CHUNKED, b"9\r\ndata: "), id="in an event"),
        pytest.param((CHUNKED, *chunked([b"data: 1\n\n"])[:1]), id="between events"),
        pytest.param((CHUNKED, *chunked([b"the end"])[:1]), id="at the end"),
    ],
)
async def test_a_request_that_is_cancelled_leaves_nothing_behind(before: tuple[Step, ...]) -> None:
    rounds, width = 3, 10
    marks = [trio.Event() for _ in range(rounds * width)]
    plays = [Play((*before, Mark(mark), Stall())) for mark in marks]
    async with serving(*plays, streaming(b"whole end")) as server, client(width) as http:
        for number in range(rounds):
            async with trio.open_nursery() as nursery:
                for _ in range(width):
                    nursery.start_soon(asked, http, server)
                for mark in marks[number * width : (number + 1) * width]:
                    await mark.wait()
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
            assert pool(http).connections == []
        for _ in range(width):
            assert (await asked(http, server))[1] == b"whole end"


async def test_a_request_that_is_cancelled_while_it_waits_for_its_turn_leaves_nothing_behind() -> None:
    out = trio.Event()
    async with serving(Play((Mark(out), Stall())), streaming(b"whole end")) as server, client(1) as http:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asked, http, server)
            await out.wait()
            for _ in range(30):
                with trio.move_on_after(0) as scope:
                    await asked(http, server)
                assert scope.cancelled_caught
            nursery.cancel_scope.cancel()
        assert (await asked(http, server))[1] == b"whole end"
        assert len(server.asked) == 2


@pytest.mark.long
async def test_requests_cancelled_at_any_moment_lose_no_slot_and_mix_no_answers() -> None:
    async with serving(streaming(b"whole end", size=1)) as server, client(3) as http:
        for number in range(90):
            with trio.move_on_after(number / 20_000):
                async with trio.open_nursery() as nursery:
                    for _ in range(5):
                        nursery.start_soon(asked, http, server)
        async with trio.open_nursery() as nursery:
            for _ in range(9):
                nursery.start_soon(_whole, http, server)
        assert idle(http)


async def test_a_request_that_is_cut_at_any_checkpoint_gives_all_back() -> None:
    """Also of an answer that comes packed."""
    body = bytes(200_000) + b"end"
    pieces = ("content-encoding: gzip", "transfer-encoding: chunked")
    answer = Play((head(200, *pieces), *chunked([gzip.compress(body, mtime=0)])), keep=True)
    async with serving(answer) as server, client(1) as http:
        moment = 0
        while await cut(moment, lambda: asked(http, server)):
            moment += 1
            assert pool(http).connections == [] or idle(http)
            with trio.fail_after(PATIENCE):
                assert (await asked(http, server))[1] == body
    assert moment > 6


async def test_no_connection_outlives_its_supervisor() -> None:
    answer = streaming(anthropic.saying("fine"))
    async with serving(Play(answer.steps, keep=True)) as one, serving(Play(answer.steps, keep=True)) as other:
        async with open_supervisor(secrets=lambda _: None) as supervisor:
            before = streams()
            for server in (one, other):
                spec = SessionSpec(model="anthropic:claude-sonnet-5", model_options={"base_url": server.url})
                assert (await (await supervisor.spawn(spec)).ask("go")).text == "fine"
            peers = {one.url.rpartition(":")[2], other.url.rpartition(":")[2]}
            held = [found for found in streams() if str(found.socket.getpeername()[1]) in peers]
            assert len(held) == 2
            assert not any(found in before for found in held)
        assert [found.socket.fileno() for found in held] == [-1, -1]


async def _whole(http: Http, server: Server) -> None:
    assert (await asked(http, server))[1] == b"whole end"


# The rule


def test_one_module_of_the_models_knows_httpx() -> None:
    package = Path(agentrail.__file__).parent / "adapters" / "models"
    knows = re.compile(r"^\s*(?:import|from) (?:httpx|httpcore)\b", re.MULTILINE)
    found = [path.name for path in package.rglob("*.py") if knows.search(path.read_text(encoding="utf-8"))]
    assert found == ["http.py"]
