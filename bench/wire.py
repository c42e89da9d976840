"""What a chunk costs from its bytes to the event at the subscriber, in every format.

Once the bytes are given to the client for HTTP, and once they come over a socket from another process, each chunk
alone, as from a provider: `python -m bench.wire` is that server, and prints its port.
"""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader

import httpx
import trio
import trio.testing

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.models.clouds.accounts import Accounts
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.models import PROVIDERS, Model
from bench.rig import listen
from tests.adapters.models import anthropic_events as anthropic
from tests.adapters.models import gemini_events as gemini
from tests.adapters.models import openai_chat_events as chat
from tests.adapters.models import openai_events as openai
from tests.adapters.models.server import chunked, head

PACE = 0.0005
"""Seconds between two chunks, so that each is read alone."""

FEW, MANY = 20, 220

WANTED = re.compile(rb"([\w-]+) says (\d+)")

SAYING: Mapping[str, Callable[..., bytes]] = {
    "anthropic": anthropic.saying,
    "openai": openai.saying,
    "openai-chat": chat.saying,
    "gemini": gemini.saying,
}


def events_of(provider: str, chunks: int) -> Sequence[bytes]:
    """Return the events of an answer of so many chunks."""
    whole = SAYING[provider](*(f"word{number} " for number in range(chunks)))
    return [event + b"\n\n" for event in whole.split(b"\n\n") if event]


def serve() -> None:
    """Answer one connection after the other; the last words of a request say how long its answer is."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection, connection.makefile("rb") as stream:
                while body := _request(stream):
                    provider, chunks = WANTED.findall(body)[-1]
                    begun = head(200, "transfer-encoding: chunked")
                    for step in (begun, *chunked(events_of(provider.decode(), int(chunks)))):
                        connection.sendall(step)
                        time.sleep(PACE)


def _request(stream: BufferedReader) -> bytes:
    """Return the body of the next request; nothing if there is none."""
    length = 0
    for line in iter(stream.readline, b""):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
        if not line.strip():
            return stream.read(length)
    return b""


@contextmanager
def served() -> Generator[str, None, None]:
    """Run the server, and give its address."""
    command = (sys.executable, "-m", "bench.wire")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.terminate()


class Given(httpx.AsyncBaseTransport):
    """Answers every request with the same pieces; the loop turns between them, as it does when they come one by one."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer."""
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=GivenBody(self._pieces))


class GivenBody(httpx.AsyncByteStream):
    """The body of the answer."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = iter(pieces)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        try:
            return next(self._pieces)
        except StopIteration:
            raise StopAsyncIteration from None


async def cpu_of_given_chunk(provider: str, turns: int) -> float:
    """Return the microseconds of CPU of one chunk more, from the bytes that the client for HTTP is given."""
    few, many = [await _given(provider, chunks, turns) for chunks in (FEW, MANY)]
    return (many - few) / (MANY - FEW)


async def _given(provider: str, chunks: int, turns: int) -> float:
    http = Http(transport=Given(events_of(provider, chunks)))

    def model(name: str) -> RemoteModel:
        return RemoteModel(f"{provider}:{name}", PROVIDERS[provider], http, keyless, Accounts())

    spent = await _cpu_per_turn("http://127.0.0.1", f"given:{provider}", chunks, turns, {"given": model})
    await http.close()
    return spent


def keyless(_: str) -> None:
    """There is no secret of any name."""


async def cpu_of_sent_chunk(url: str, provider: str, turns: int) -> float:
    """Return the microseconds of CPU of one chunk more, from the socket that it comes over."""
    few, many = [await _cpu_per_turn(url, f"{provider}:x", chunks, turns) for chunks in (FEW, MANY)]
    return (many - few) / (MANY - FEW)


async def _cpu_per_turn(
    url: str, model: str, chunks: int, turns: int, models: Mapping[str, Callable[[str], Model]] | None = None
) -> float:
    wanted = f"{model.partition(':')[0]} says"
    async with open_supervisor(models=models) as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.spawn(SessionSpec(model=model, model_options={"base_url": url}))
        nursery.start_soon(listen, session)
        await trio.testing.wait_all_tasks_blocked()
        await session.ask(f"{wanted} {FEW}")
        began = time.process_time()
        for _ in range(turns):
            await session.ask(f"{wanted} {chunks}")
        spent = time.process_time() - began
        nursery.cancel_scope.cancel()
    return spent / turns * 1e6


if __name__ == "__main__":
    serve()
