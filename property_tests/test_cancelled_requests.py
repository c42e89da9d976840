"""Requests that are cancelled at any moment leave nothing behind: no connection, no slot, no answer for another one."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeAlias

import pytest
import trio
import trio.testing
from attrs import define, field, frozen
from httpcore import AsyncConnectionPool

from agentrail import SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.adapters.models.clouds.accounts import Accounts
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.models import PROVIDERS, Limit
from property_tests.volume import profile
from tests.adapters.models import anthropic_events as anthropic
from tests.adapters.models.server import (
    Asked,
    Mark,
    Play,
    Stall,
    Step,
    Wait,
    chunked,
    events,
    head,
    refusing,
    serving,
    streaming,
)

WIDTH: Final = 10
"""Most connections at once."""

ROUNDS: Final = {"ci": 2, "campaign": 50}
"""How often `WIDTH` requests are cut at each moment."""

CUSHION: Final = 0.005
"""Seconds without any activity after which a moment counts as reached."""

MODEL: Final = "anthropic:claude-sonnet-5"
CHUNKED: Final = head(200, "transfer-encoding: chunked")
BEGUN: Final = events(anthropic.opening(), *anthropic.block(0, "text", "text_delta", "text", "well, ")[:2])
SLOW_DOWN: Final = json.dumps(anthropic.error("rate_limit_error", "slow down")).encode()

Stopping: TypeAlias = Callable[[trio.Event], Play]


def stalling(*steps: Step) -> Stopping:
    """Send *steps* and then nothing more."""
    return lambda mark: Play((*steps, Mark(mark), Stall()))


def refused(mark: trio.Event) -> Play:
    """Send an error that asks to wait for a minute."""
    return Play((*refusing(429, SLOW_DOWN, "retry-after: 60").steps, Mark(mark)), keep=True)


@frozen
class Moment:
    """A moment at which requests are cancelled."""

    stopping: Stopping
    """Function that makes the part of the answer that the server sends before the moment."""
    requests: int = WIDTH
    """How many requests there are in a round."""
    arriving: int = WIDTH
    """How many of them reach the server before they are cut."""
    deaf: bool = False
    """Whether the server accepts no connection."""
    limit: Limit | None = None
    """How many requests of the provider may be out at once."""
    at_once: bool = False
    """Whether the requests are cancelled as soon as the prompts are accepted."""


MOMENTS: Final = {
    "at once": Moment(stalling(), arriving=0, at_once=True),
    "before the connection": Moment(stalling(), arriving=0, deaf=True),
    "waiting for a connection": Moment(stalling(), requests=2 * WIDTH),
    "waiting for the limiter": Moment(stalling(), requests=2 * WIDTH, limit=Limit(concurrency=WIDTH)),
    "before the first byte": Moment(stalling()),
    "in a header": Moment(stalling(b"HTTP/1.1 200 OK\r\ncontent-")),
    "between the head and the body": Moment(stalling(CHUNKED)),
    "in the length of a piece": Moment(stalling(CHUNKED, b"1")),
    "in an event": Moment(stalling(CHUNKED, *chunked([BEGUN + b'data: {"type"'])[:1])),
    "between events": Moment(stalling(CHUNKED, *chunked([BEGUN])[:1])),
    "at the end": Moment(stalling(CHUNKED, *chunked([anthropic.saying("whole")])[:1])),
    "in an error": Moment(stalling(head(500, "content-length: 100", kind="application/json"), b'{"error')),
    "in a wait before another attempt": Moment(refused),
}


@define
class Imitation:
    """Imitates a provider: answers `stop 3` only up to the moment, and `say X` with X once `WIDTH` requests wait."""

    stopping: Stopping
    marks: list[trio.Event] = field(factory=list[trio.Event])
    together: trio.Event = field(factory=trio.Event)
    asking: int = 0

    def begin(self, requests: int) -> None:
        """Begin a round."""
        self.marks = [trio.Event() for _ in range(requests)]
        self.together, self.asking = trio.Event(), 0

    def answer(self, asked: Asked) -> Play:
        """Choose by the last words of the request."""
        word, _, rest = str(json.loads(asked.body)["messages"][-1]["content"][-1]["text"]).partition(" ")
        if word == "stop":
            return self.stopping(self.marks[int(rest)])
        self.asking += 1
        if self.asking == WIDTH:
            self.together.set()
        return Play((Wait(self.together), *streaming(anthropic.saying(rest)).steps), keep=True)


@contextmanager
def deaf_port() -> Iterator[str]:
    """Return the address of a port that takes no further connection."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address: tuple[str, int] = listener.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        try:
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(address)
            yield f"http://127.0.0.1:{address[1]}"
        finally:
            for each in waiting:
                each.close()


def keyless(_: str) -> None:
    """Return `None`: there is no secret of any name."""


@asynccontextmanager
async def pooled(limit: Limit | None) -> AsyncIterator[tuple[Supervisor, Http]]:
    """Open a supervisor whose model `pooled` has `WIDTH` connections."""
    http = Http(WIDTH)

    def model(_: str) -> RemoteModel:
        return RemoteModel(MODEL, PROVIDERS["anthropic"], http, keyless, Accounts())

    limits = {} if limit is None else {"pooled": limit}
    async with open_supervisor(models={"pooled": model}, limits=limits, seed=1) as supervisor:
        yield supervisor, http
    await http.close()


async def spawned(supervisor: Supervisor, url: str, count: int) -> list[SessionHandle]:
    spec = SessionSpec(model="pooled:x", model_options={"base_url": url})
    return [await supervisor.spawn(spec) for _ in range(count)]


def connections(http: Http, url: str) -> tuple[int, bool]:
    """Return the number of connections to the server at *url*, and whether all of them are idle."""
    pool: object = vars(vars(http.client(url))["_transport"])["_pool"]
    assert isinstance(pool, AsyncConnectionPool)
    return len(pool.connections), all(connection.is_idle() for connection in pool.connections)


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS)
async def test_a_request_that_is_cut_leaves_nothing_behind(moment: Moment) -> None:
    imitation = Imitation(moment.stopping)
    with trio.fail_after(600), deaf_port() as deaf:
        async with serving(imitation.answer) as server, pooled(moment.limit) as (supervisor, http):
            await http.prepare(server.url)  # whoever is cut at once has made no client
            cut = await spawned(supervisor, deaf if moment.deaf else server.url, moment.requests)
            asking = await spawned(supervisor, server.url, WIDTH)
            for number in range(ROUNDS[profile()]):
                imitation.begin(moment.requests)
                await cut_at(moment, cut, imitation)
                assert connections(http, server.url)[1]
                await ask_together(asking, number)
                assert connections(http, server.url) == (WIDTH, True)


async def cut_at(moment: Moment, sessions: list[SessionHandle], imitation: Imitation) -> None:
    """Prompt *sessions*, abort them when the *moment* has come, and check that they are idle."""
    for number, session in enumerate(sessions):
        await session.prompt(f"stop {number}")
    if not moment.at_once:
        for _ in range(3):  # what arrives may still have to be read
            await trio.testing.wait_all_tasks_blocked(CUSHION)
        assert sum(mark.is_set() for mark in imitation.marks) == moment.arriving
    async with trio.open_nursery() as nursery:
        for session in sessions:
            nursery.start_soon(session.abort)
    await trio.testing.wait_all_tasks_blocked(CUSHION)
    assert [session.status().phase for session in sessions] == ["idle"] * len(sessions)


async def ask_together(sessions: list[SessionHandle], number: int) -> None:
    """Ask all *sessions* at once, and check that each gets its own answer."""
    replies = dict[int, str]()

    async def ask(index: int, session: SessionHandle) -> None:
        replies[index] = (await session.ask(f"say {number}-{index}")).text

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            for index, session in enumerate(sessions):
                nursery.start_soon(ask, index, session)
    assert replies == {index: f"{number}-{index}" for index in range(len(sessions))}
