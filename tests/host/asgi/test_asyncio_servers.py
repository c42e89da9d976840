"""What is particular to servers on asyncio: the host runs in a thread of its own, and events cross."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import pytest
from fastapi import FastAPI

from agentrail.bridge.trio_thread import NAME
from agentrail.errors import UsageError
from agentrail.host import AsgiApp, HostLimits
from agentrail.host.asgi.asgi_messages import AsgiMessage
from agentrail.testing import stall
from tests.bridge.loops import Run, on_each_loop
from tests.coded import coded
from tests.host.asgi.calling import scope_of
from tests.host.asgi.servers import on_uvicorn
from tests.host.asgi.test_asgi_app import host_of
from tests.host.asgi.test_on_servers import client_of
from tests.host.hosted import frames, scripted

HI = json.dumps({"message": "hi", "session": "trip"}).encode()
DISCONNECT: AsgiMessage = {"type": "http.disconnect"}


class Client:
    """A request on asyncio, as a server passes it on."""

    def __init__(self, *events: AsgiMessage) -> None:
        self.events = list(events)
        self.sent_before = 0
        """How many events had been sent when the host received one."""
        self.sent: list[AsgiMessage] = []
        self.may_send = asyncio.Event()
        self.may_send.set()
        self.gone = asyncio.Event()
        self.moved = asyncio.Event()
        """Set when the host receives, or sends."""

    async def until(self, words: str) -> None:
        """Wait until the host has sent some words."""
        while words not in self.text:
            self.moved.clear()
            await self.moved.wait()

    async def receive(self) -> AsgiMessage:
        self.sent_before = len(self.sent)
        self.moved.set()
        if self.events:
            return self.events.pop(0)
        await self.gone.wait()
        return DISCONNECT

    async def send(self, event: AsgiMessage) -> None:
        self.moved.set()
        await self.may_send.wait()
        self.sent.append(event)
        self.moved.set()

    @property
    def text(self) -> str:
        return b"".join([cast("bytes", event.get("body", b"")) for event in self.sent]).decode()

    @property
    def is_whole(self) -> bool:
        return self.sent[-1].get("more_body") is False


def body(content: bytes) -> AsgiMessage:
    return {"type": "http.request", "body": content, "more_body": False}


async def ask(app: AsgiApp, method: str, path: str, content: bytes = b"") -> Client:
    client = Client(body(content))
    await app(scope_of(method, path), client.receive, client.send)
    return client


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == NAME]


@on_each_loop
def test_requests_are_answered_from_the_thread(run: Run) -> None:
    async def main() -> None:
        async with host_of().asgi() as app:
            answers = await asyncio.gather(*[ask(app, "GET", "/healthz") for _ in range(20)])
            assert {client.text for client in answers} == {'{"status":"ok"}'}
            stream = await ask(app, "POST", "/v1/stream", HI)
            assert frames(stream.text)[-1]["event"] == "reply"
            assert stream.is_whole
        assert threads() == []
        with pytest.raises(UsageError, check=coded("app-not-opened")):
            await ask(app, "GET", "/healthz")

    run(main)


@on_each_loop
def test_a_client_that_goes_away_stops_no_turn(run: Run) -> None:
    async def main() -> None:
        async with host_of(scripted(stall())).asgi() as app:
            client = Client(body(HI))
            stream = asyncio.create_task(app(scope_of("POST", "/v1/stream"), client.receive, client.send))
            await client.until("AgentStart")
            client.gone.set()
            await stream
            assert not client.is_whole
            document = json.loads((await ask(app, "GET", "/v1/sessions/trip")).text)
            assert document["at_work"]
        assert threads() == []

    run(main)


@on_each_loop
def test_a_server_that_cancels_a_request_waits_for_its_end(run: Run) -> None:
    async def main() -> None:
        async with host_of(scripted(stall())).asgi() as app:
            client = Client(body(HI))
            stream = asyncio.create_task(app(scope_of("POST", "/v1/chat"), client.receive, client.send))
            await client.moved.wait()
            stream.cancel()
            with pytest.raises(asyncio.CancelledError):
                await stream
            assert repr(app) == "<AsgiApp with 0 requests>"

    run(main)


def test_a_slow_reader_gets_all_of_its_stream() -> None:
    async def main() -> None:
        words = " ".join(map(str, range(500)))
        async with host_of(scripted(words)).asgi() as app:
            client = Client(body(HI))
            client.may_send.clear()
            stream = asyncio.create_task(app(scope_of("POST", "/v1/stream"), client.receive, client.send))
            await client.moved.wait()
            while not (await ask(app, "GET", "/v1/sessions/trip/messages")).text.count(words):
                pass  # the turn does not wait for who reads of it
            client.may_send.set()
            await stream
            assert client.is_whole
            assert len(client.sent) < 100  # events that waited were sent together
            assert json.loads(frames(client.text)[-1]["data"])["text"] == words

    asyncio.run(main())


def test_a_reader_that_stops_is_cut() -> None:
    limits = HostLimits(write_seconds=0.05, drain_seconds=0.5)

    async def main() -> None:
        async with host_of(limits=limits).asgi() as app:
            client = Client(body(HI))
            client.may_send.clear()
            await app(scope_of("POST", "/v1/stream"), client.receive, client.send)
            assert client.sent == []

    asyncio.run(main())


def test_the_server_is_asked_for_no_body_before_a_refusal_is_sent() -> None:
    """Otherwise it would tell a client to send the body."""

    async def main() -> None:
        async with host_of().asgi() as app:
            client = Client()
            await app(scope_of("POST", "/v1/chat", user=None), client.receive, client.send)
            assert (client.sent[0]["status"], client.sent_before) == (401, 2)

    asyncio.run(main())


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_cancelled_at_any_moment_nothing_is_left(seed: int) -> None:
    draw = random.Random(seed)

    async def main() -> None:
        async with host_of(scripted(*["one two three"] * 200)).asgi() as app:

            async def client_task(number: int) -> None:
                content = json.dumps({"message": "hi", "session": f"s{number % 5}"}).encode()
                client = Client(body(content))
                task = asyncio.create_task(app(scope_of("POST", "/v1/stream"), client.receive, client.send))
                await asyncio.sleep(draw.random() * 0.02)
                fate = draw.randrange(3)
                if fate == 1:
                    task.cancel()
                elif fate == 2:
                    client.gone.set()
                await asyncio.wait([task])
                assert task.cancelled() or task.exception() is None

            await asyncio.gather(*[client_task(number) for number in range(40)])
            assert repr(app) == "<AsgiApp with 0 requests>"
            assert (await ask(app, "GET", "/healthz")).is_whole
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main(), debug=seed == 0)
    assert threads() == []


async def test_in_fastapi_it_lies_beside_other_routes() -> None:
    agents = host_of().asgi()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        async with agents:
            yield

    service = FastAPI(lifespan=lifespan)

    @service.get("/")
    async def page() -> str:
        await asyncio.sleep(0)
        return "beside"

    service.mount("/agents", agents)
    async with on_uvicorn(service) as url, client_of(url) as client:
        answer = await client.post("/agents/v1/stream", content=HI, headers={"content-type": "application/json"})
        assert frames(answer.text)[-1]["event"] == "reply"
        assert (await client.get("/")).json() == "beside"
        assert (await client.get("/agents/nothing")).json()["type"] == "urn:agentrail:problem:unknown-route"
        assert (await client.get("/nothing")).json() == {"detail": "Not Found"}
