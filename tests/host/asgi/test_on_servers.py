"""The host on ASGI servers that nobody here wrote, with real sockets and clients that nobody here wrote."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest
import trio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from agentrail import connect
from agentrail.events import AgentEnd
from agentrail.host import ApiKeys, Host, HostLimits, Profile
from tests.host.asgi.servers import SERVERS, served_by
from tests.host.hosted import CERTIFICATES, KEYS, LIMITS, LINES, Desk, frames, scripted
from tests.host.http11.served import everything, request
from tests.host.rfc6455.raw_peer import KEY
from tests.host.websocket.talking import talking
from tests.patience import PATIENCE

ON_EACH = pytest.mark.parametrize("server", list(SERVERS))

AUTHORIZED = {"authorization": f"Bearer {KEYS['ann']}"}


def host_of(*script: str, limits: HostLimits = LIMITS) -> Host:
    return Host([Profile("desk", scripted(*script))], authenticator=ApiKeys(lines=LINES), limits=limits)


@asynccontextmanager
async def client_of(url: str) -> AsyncGenerator[httpx.AsyncClient]:
    async with httpx.AsyncClient(
        base_url=url, headers=AUTHORIZED, verify=CERTIFICATES, trust_env=False, timeout=PATIENCE
    ) as client:
        yield client


@ON_EACH
async def test_sessions_are_served_over_http_and_websocket(server: str) -> None:
    async with served_by(host_of("one", "two", "three"), server) as serving, client_of(serving.url) as client:
        body = {"message": "hi", "session": "trip"}
        async with client.stream("POST", "/v1/stream", json=body) as response:
            assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream")
            text = "".join([piece async for piece in response.aiter_text()])
        assert json.loads(frames(text)[-1]["data"])["text"] == "one"
        async with connect(serving.url, KEYS["ann"]) as remote:
            session = remote.session("trip")
            assert session.id == "ann.trip"
            assert (await session.ask("and?")).text == "two"
            async with session.subscribe(since=0) as events:
                while not isinstance((await anext(events)).event, AgentEnd):
                    pass
        assert [item["session"] for item in (await client.get("/v1/sessions")).json()["items"]] == ["ann.trip"]


@ON_EACH
async def test_a_client_that_sends_all_of_its_body_first_gets_an_early_answer(server: str) -> None:
    async with served_by(host_of(), server) as serving, client_of(serving.url) as client:
        with trio.fail_after(60):
            answer = await client.post("/v1/chat", content=b"x" * 3_000_000, headers={"authorization": "Bearer wrong"})
        assert answer.status_code == 401


@ON_EACH
async def test_a_websocket_is_refused_as_a_request_is(server: str) -> None:
    handshake = ["Connection: upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {KEY}"]
    async with served_by(host_of(), server) as serving, client_of(serving.url) as client:
        for path, key, status in (("ws", "wrong", 401), ("nothing", KEYS["ann"], 404), ("sessions", KEYS["ann"], 200)):
            lines = [*handshake, f"Authorization: Bearer {key}"]
            async with await trio.open_tcp_stream("127.0.0.1", int(serving.url.rpartition(":")[2])) as stream:
                await stream.send_all(request(f"GET /v1/{path} HTTP/1.1", *lines, host="127.0.0.1"))
                head, _, content = (await everything(stream)).partition(b"\r\n\r\n")
            assert int(head.split()[1]) == status
            assert json.loads(content).get("status", 200) == status
        assert (await client.get("/v1/ws")).status_code == 426


@ON_EACH
async def test_a_message_that_is_too_long_closes_the_websocket(server: str) -> None:
    limits = HostLimits(body_bytes=100, header_bytes=2000, drain_seconds=0.5)
    async with served_by(host_of("one", limits=limits), server) as serving, talking(Desk(serving, {})) as talker:
        assert talker.socket.subprotocol == "agentrail.v1"
        assert (await talker.ask("list_sessions"))["status"] == 200
        await talker.say(id="x" * 2200)
        assert await talker.closed() == (1009, "the message is too long")


@ON_EACH
async def test_an_app_around_it_opens_it_in_its_lifespan(server: str) -> None:
    agents = host_of("one").asgi()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with agents:
            yield

    async def page(_: Request) -> PlainTextResponse:
        return PlainTextResponse("beside")

    outer = Starlette(routes=[Route("/", page), Mount("/agents", agents)], lifespan=lifespan)
    async with SERVERS[server](outer) as url, client_of(url) as client:
        answer = await client.post("/agents/v1/chat", json={"message": "hi", "session": "trip"})
        assert (answer.status_code, answer.json()["text"]) == (200, "one")
        assert (await client.get("/")).text == "beside"
        async with connect(f"{url}/agents", KEYS["ann"]) as remote:
            assert len(await remote.session("trip").messages()) == 2


@ON_EACH
async def test_a_single_route_is_a_route_of_the_app_around_it(server: str) -> None:
    host = host_of("one", "two")
    talk, show = host.asgi(routes=("stream",)), host.asgi(routes=("show_session",))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with talk, show:
            yield

    routes = [Route("/talk", talk, methods=["POST"]), Route("/chats/{id}", show)]
    outer = Starlette(routes=routes, lifespan=lifespan)
    async with SERVERS[server](outer) as url, client_of(url) as client:
        answer = await client.post("/talk", json={"message": "hi", "session": "trip"})
        assert frames(answer.text)[-1]["event"] == "reply"
        assert (await client.get("/chats/trip")).json()["type"].endswith("unknown-session")  # another supervisor
