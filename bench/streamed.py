"""What streamed answers and listeners cost a host, beside a service of AutoGen on FastAPI and uvicorn, by turns.

`python -m bench.streamed`, after `make peers` has made the environment of the other. Each serves in a process of its
own, whose CPU is told. `AGENTRAIL_BENCH=small` takes fewer requests. Nothing here fails.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path
from typing import Final, Self

import trio
from trio_websocket import open_websocket_url

from agentrail import SessionSpec
from agentrail.host import ApiKeys, Host, HostLimits, Profile
from agentrail.host.authentication.api_keys import render_keys
from agentrail.journals import SqliteJournal
from bench.hosted import EVENTS, KEY, ROW, STREAMED
from bench.peers.__main__ import PYTHON
from bench.rig import InstantModel

SMALL: Final = os.environ.get("AGENTRAIL_BENCH") == "small"
CONNECTIONS: Final = (1, 16, 64)
REQUESTS: Final = 64 if SMALL else 640
ROUNDS: Final = 2 if SMALL else 3
LISTENING: Final = 100
SESSIONS: Final = 100 if SMALL else 2_000
IDLE: Final = 2.0 if SMALL else 30.0
"""Seconds for which a viewer of approvals looks on while nothing happens."""

ALL: Final = HostLimits(
    requests_per_second=1e9, burst=10**9, sessions=10**6, connections=4_000, connections_per_address=4_000
)


async def serve(lines: str, file: str) -> None:
    """Serve who has a key of *lines*, on any free port of loopback, and print it; *file*: of its journal, or empty."""
    profiles = [
        Profile(name, SessionSpec(model=InstantModel(chunks=chunks, delay=delay)))
        for name, chunks, delay in (("streams", STREAMED, None), ("events", EVENTS, 0))
    ]
    journal = SqliteJournal(file) if file else None
    async with Host(profiles, authenticator=ApiKeys(lines=lines), journal=journal, limits=ALL).serving() as serving:
        print(serving.url.rpartition(":")[2], flush=True)
        await trio.sleep_forever()


class Service:
    """A service in a process of its own."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.port = port
        self._tasks = Path("/proc") / str(process.pid) / "task"

    def cpu(self) -> float:
        """Return the seconds of CPU that all threads of the process have used."""
        return sum(int((task / "schedstat").read_text("ascii").split()[0]) for task in self._tasks.iterdir()) / 1e9


@contextmanager
def service(*command: str) -> Iterator[Service]:
    """Run the *command* of a service that prints its port."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield Service(process, int(process.stdout.readline()))
        finally:
            process.kill()


class Connection:
    """A connection of a client that sends one request after the other."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream

    @classmethod
    async def to(cls, port: int) -> Self:
        """Connect."""
        return cls(await trio.open_tcp_stream("127.0.0.1", port))

    async def send(self, method: str, target: str, body: object = None) -> None:
        """Send a request."""
        content = b"" if body is None else json.dumps(body).encode()
        head = (
            f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        await self._stream.send_all(head.encode() + content)

    async def until(self, end: bytes) -> None:
        """Read up to *end*."""
        tail = b""
        while end not in tail:
            piece = await self._stream.receive_some(1024 * 1024)
            assert piece, tail
            tail = tail[-len(end) :] + piece

    async def stream(self, session: str, times: int) -> None:
        """Prompt a session so many times, and read each answer to its end."""
        for _ in range(times):
            await self.send("POST", "/v1/stream", {"agent": "streams", "session": session, "message": "hi"})
            await self.until(b"\r\n0\r\n\r\n")


async def streamed(on: Service, connections: int, stem: str) -> float:
    """Return the seconds of CPU of a streamed request, with so many *connections*, each of a session of its own."""
    clients = [(await Connection.to(on.port), f"{stem}-{number}") for number in range(connections)]
    await _at_once(clients, max(1, 64 // connections))
    before = on.cpu()
    await _at_once(clients, REQUESTS // connections)
    return (on.cpu() - before) / (REQUESTS // connections * connections)


async def _at_once(clients: list[tuple[Connection, str]], times: int) -> None:
    async with trio.open_nursery() as nursery:
        for client, session in clients:
            nursery.start_soon(client.stream, session, times)


async def told(on: Service, stem: str) -> float:
    """Return the seconds of CPU that an event costs to each of `LISTENING` listeners."""
    session, speaker = f"{stem}-told", await Connection.to(on.port)
    await speaker.send("POST", "/v1/chat", {"agent": "events", "session": session, "message": "hi"})
    await speaker.until(b"}")
    before = on.cpu()
    await _tell(speaker, session, [])
    alone = on.cpu() - before
    listeners = [await Connection.to(on.port) for _ in range(LISTENING)]
    for each in listeners:
        await each.send("GET", f"/v1/sessions/{session}/events")
        await each.until(b":\n\n")
    before = on.cpu()
    await _tell(speaker, session, listeners)
    return (on.cpu() - before - alone) / EVENTS / LISTENING


async def _tell(speaker: Connection, session: str, listeners: list[Connection]) -> None:
    async with trio.open_nursery() as nursery:
        for each in listeners:
            nursery.start_soon(each.until, b"event: AgentEnd")
        await speaker.send("POST", "/v1/chat", {"agent": "events", "session": session, "message": "hi"})
        await speaker.until(b"}")


async def viewed(on: Service) -> float:
    """Return which part of a core an idle viewer of approvals takes, beside many sessions."""
    async with AsyncExitStack() as stack:
        speaker = await Connection.to(on.port)
        for number in range(SESSIONS):
            await speaker.send("POST", "/v1/sessions", {"agent": "streams", "session": f"idle-{number}"})
            await speaker.until(b"}")
        nobody = await _idle(on)
        headers = [(b"authorization", f"Bearer {KEY}".encode())]
        url = f"ws://127.0.0.1:{on.port}/v1/ws"
        viewer = await stack.enter_async_context(
            open_websocket_url(url, subprotocols=["agentrail.v1"], extra_headers=headers)
        )
        await viewer.send_message(json.dumps({"id": "1", "listen": "approvals"}))
        await viewer.get_message()
        return await _idle(on) - nobody


async def _idle(on: Service) -> float:
    before, began = on.cpu(), time.perf_counter()
    await trio.sleep(IDLE)
    return (on.cpu() - before) / (time.perf_counter() - began)


def main() -> int:
    """Measure by turns, and print the median of each, the least and the most."""
    taken: dict[str, list[float]] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        ours = (sys.executable, "-m", "bench.streamed", render_keys([ROW]))
        theirs = (str(PYTHON), str(Path(__file__).parent / "peers" / "of_fastapi.py"), str(STREAMED), str(EVENTS))
        services = {
            "agentrail": stack.enter_context(service(*ours, "")),
            "agentrail on SQLite": stack.enter_context(service(*ours, f"{folder}/kept.db")),
            "AutoGen on FastAPI and uvicorn": stack.enter_context(service(*theirs)),
        }
        for number in range(ROUNDS):
            for connections in CONNECTIONS:
                for name, on in services.items():
                    what = f"a streamed request of {STREAMED} chunks, {connections} at once, µs: {name}"
                    cost = trio.run(streamed, on, connections, f"{number}-{connections}")
                    taken.setdefault(what, []).append(cost * 1e6)
            for name, on in services.items():
                what = f"an event to each of {LISTENING} listeners, µs: {name}"
                taken.setdefault(what, []).append(trio.run(told, on, str(number)) * 1e6)
            print(f"round {number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
        what = f"an idle viewer of approvals beside {SESSIONS:,} sessions, % of a core: agentrail"
        taken[what] = [trio.run(viewed, services["agentrail"]) * 100]
    for what, figures in taken.items():
        print(f"{what:88}{statistics.median(figures):>10.2f}{min(figures):>10.2f}{max(figures):>10.2f}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:]:
        trio.run(serve, sys.argv[1], sys.argv[2])
    else:
        sys.exit(main())
