"""What a whole host costs: prompts, events to those who listen, tool hooks, the start. CPU, beside a bare h11 loop.

`python -m bench.hosted`
"""

from __future__ import annotations

import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

import trio

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.host import (
    AfterToolCall,
    Allow,
    ApiKeys,
    BeforeToolCall,
    Host,
    HostLimits,
    HostPlugin,
    Profile,
    RequestContext,
)
from agentrail.host.authentication.api_keys import new_key, render_keys
from agentrail.host.plugins.host_context import reaching
from agentrail.host.plugins.plugin_runner import HostPluginRow
from bench.host import Serving, serving
from bench.rig import InstantModel, Note

REPEATS: Final = 9
PROMPTS: Final = 100
EVENTS: Final = 200
LISTENING: Final = 9
STREAMED: Final = 20
"""Chunks of a streamed answer."""
TURNS: Final = 100
SESSIONS: Final = 5
"""Sessions of `TURNS` in which each part of `hook_rounds` is measured: the shortest part takes more than 150 ms."""
WARM: Final = 300
"""Turns of each part that do not count: those of the imports, and until all records go into pages of the journal."""
SLICE: Final = 20
"""Turns of one part after which the next part is measured, as the machine is not the same at all times."""

PROMPT: Final = 6.0
"""Bare requests that a prompt costs, from its bytes to those of the answer; its turn costs what it does anywhere."""
FIRST: Final = 1.2
"""Bare requests that an event costs to the first who listens."""
FURTHER: Final = 0.35
"""Bare requests that an event costs to each further one."""
STREAM: Final = 2.0
"""Bare h11 loops that a chunk of a streamed request costs; the loop writes each chunk by itself."""
WHOLE: Final = 1.2
"""Milliseconds of CPU of a streamed request with `STREAMED` chunks, its turn among it."""
HOOKS: Final = 1.5
"""Tool rounds that the hooks before and after a call cost together."""
READY: Final = 1.0
"""Seconds of CPU until `agentrail serve` serves."""

ROW, KEY = new_key("acme", "ann", ["talk"])
HOST: Final = {"prompts": 1, "events": EVENTS, "streams": STREAMED}
"""Profiles, and how many chunks their model says."""


async def serve(keys: str) -> None:
    """Serve on any free port of loopback, and print it."""
    profiles = [Profile(name, SessionSpec(model=InstantModel(chunks=chunks))) for name, chunks in HOST.items()]
    profiles[1] = Profile("events", SessionSpec(model=InstantModel(chunks=EVENTS, delay=0)))
    limits = HostLimits(requests_per_second=1e9, burst=10**9, sessions=10**6)
    async with Host(profiles, authenticator=ApiKeys(lines=keys), limits=limits).serving() as found:
        print(found.url.rpartition(":")[2], flush=True)
        await trio.sleep_forever()


class Client:
    """A connection of a user of the host."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def post(self, target: str, body: object) -> bytes:
        """Send a request, and read the answer, which has a length."""
        content = json.dumps(body).encode()
        head = (
            f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + content)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._socket.recv(65536)
        first, _, rest = received.partition(b"\r\n\r\n")
        assert first.startswith(b"HTTP/1.1 20"), received
        length = next(
            int(line.split(b":")[1]) for line in first.lower().split(b"\r\n") if line.startswith(b"content-l")
        )
        while len(rest) < length:
            rest += self._socket.recv(65536)
        return rest

    def stream(self, session: str) -> None:
        """Prompt a session, and read its events up to the end of the answer."""
        content = json.dumps({"session": session, "message": "hi"}).encode()
        head = (
            f"POST /v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + content)
        received = b""
        while not received.endswith(b"\r\n0\r\n\r\n"):
            received += self._socket.recv(65536)
        assert received.startswith(b"HTTP/1.1 200"), received

    def listen(self, session: str) -> None:
        """Begin to listen to a session."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * 1024 * 1024)
        head = f"GET /v1/sessions/{session}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {KEY}\r\n\r\n"
        self._socket.sendall(head.encode())
        received = b""
        while not received.endswith(b":\n\n\r\n"):
            received += self._socket.recv(65536)

    def hear(self) -> int:
        """Read up to the end of a turn; return how many events came."""
        received = b""
        while b"event: AgentEnd" not in received:
            received += self._socket.recv(1024 * 1024)
        return received.count(b"\nevent: ")


def prompt_cost(server: Serving) -> float:
    """Return the seconds of CPU for a prompt, its turn and its answer."""
    with Client(server.connect()) as client:
        session = json.loads(client.post("/v1/sessions", {"agent": "prompts"}))["session"]
        client.post("/v1/chat", {"session": session, "message": "hi"})
        before = server.cpu()
        for _ in range(PROMPTS):
            client.post("/v1/chat", {"session": session, "message": "hi"})
        return (server.cpu() - before) / PROMPTS


def stream_cost(server: Serving, *, hosted: bool) -> float:
    """Return the seconds of CPU for a streamed request: a prompt, its turn, and all its events."""
    with Client(server.connect()) as client:
        session = ""
        if hosted:
            session = json.loads(client.post("/v1/sessions", {"agent": "streams"}))["session"]
        for _ in range(PROMPTS):
            client.stream(session)
        before = server.cpu()
        for _ in range(PROMPTS):
            client.stream(session)
        return (server.cpu() - before) / PROMPTS


def event_cost(server: Serving, listening: int) -> float:
    """Return the seconds of CPU of a turn with many events to which so many listen."""
    with ExitStack() as stack:
        client = stack.enter_context(Client(server.connect()))
        session = json.loads(client.post("/v1/sessions", {"agent": "events"}))["session"]
        clients = [stack.enter_context(Client(server.connect())) for _ in range(listening)]
        for each in clients:
            each.listen(session)
        before = server.cpu()
        client.post("/v1/chat", {"session": session, "message": "hi"})
        for each in clients:
            assert each.hear() > EVENTS
        return server.cpu() - before


class Hooks(HostPlugin):
    """Rules on tool calls, and lets all pass."""

    async def before_tool_call(self, event: BeforeToolCall) -> Allow:
        """Let it run."""
        await trio.lowlevel.checkpoint()
        return Allow()

    async def after_tool_call(self, event: AfterToolCall) -> None:
        """Leave the result."""
        await trio.lowlevel.checkpoint()


PARTS: Final[Sequence[tuple[int, Sequence[HostPlugin]]]] = ((0, ()), (1, ()), (1, (Hooks(),)))
"""Rounds of one call in a turn, and plugins of the host: a plain turn, one with a round, and one with hooks."""


def _spec(calls: int, plugins: Sequence[HostPlugin]) -> SessionSpec:
    """Return the specification of a session with so many rounds of one call, with these plugins of the host."""
    context = RequestContext("chat", "acme", "ann", "s1", "desk", "r1")
    spec = SessionSpec(model=InstantModel(calls, chunks=1), tools=[Note()])
    return reaching(spec, HostPluginRow(plugins), (), lambda _: context, lambda _: ())


async def _cpu(session: SessionHandle, turns: int) -> float:
    """Return the seconds of CPU of so many turns."""
    before = time.process_time()
    for _ in range(turns):
        await session.ask("hi")
    return time.process_time() - before


def turn_cost() -> float:
    """Return the seconds of CPU of a plain turn."""
    return trio.run(_turns)


async def _turns() -> float:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(_spec(0, ()))
        await session.ask("hi")
        return await _cpu(session, TURNS) / TURNS


def hook_rounds() -> float:
    """Return how many tool rounds the hooks before and after a call cost together."""
    plain, one, hooked = trio.run(_in_turn)
    return (hooked - one) / (one - plain)


async def _in_turn() -> list[float]:
    """Return the seconds of CPU of each of `PARTS`, measured in turn in new sessions, after some that do not count."""
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(open_supervisor()) for _ in PARTS]
        pairs = list(zip(opened, PARTS, strict=True))
        for supervisor, part in pairs:
            await _cpu(await supervisor.spawn(_spec(*part)), WARM)
        cpu = [0.0] * len(PARTS)
        for _ in range(SESSIONS):
            sessions = [await supervisor.spawn(_spec(*part)) for supervisor, part in pairs]
            for _ in range(TURNS // SLICE):
                for index, session in enumerate(sessions):
                    cpu[index] += await _cpu(session, SLICE)
        return cpu


def ready() -> float:
    """Return the seconds of CPU until `agentrail serve` says that it serves."""
    command = [sys.executable, "-m", "agentrail", "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout
            process.stdout.readline()
            return int(Path(f"/proc/{process.pid}/schedstat").read_text("ascii").split()[0]) / 1e9
        finally:
            process.kill()


class Measured(NamedTuple):
    """What one repetition gives."""

    prompt: float
    first: float
    further: float
    stream: float
    whole: float
    hooks: float
    ready: float


def measured(bare: Serving, ours: Serving) -> Measured:
    """Measure all once, in bare requests."""
    request, turn = bare.cost(), turn_cost()
    streamed, whole = stream_cost(bare, hosted=False), stream_cost(ours, hosted=True)
    none, one, many = (event_cost(ours, listening) for listening in (0, 1, LISTENING))
    return Measured(
        (prompt_cost(ours) - turn) / request,
        (one - none) / EVENTS / request,
        (many - one) / (LISTENING - 1) / EVENTS / request,
        whole / streamed,
        whole * 1e3,
        hook_rounds(),
        ready(),
    )


def main() -> int:
    """Measure, print, and return 1 if a figure is missed."""
    with (
        serving("bench.bare_http", str(STREAMED)) as bare,
        serving("bench.hosted", render_keys([ROW])) as ours,
    ):
        found = [measured(bare, ours) for _ in range(REPEATS)]
    missed = False
    for (name, what), figure in zip(SAID.items(), (PROMPT, FIRST, FURTHER, STREAM, WHOLE, HOOKS, READY), strict=True):
        value = statistics.median(getattr(each, name) for each in found)
        missed |= value > figure
        print(f"{what}: {value:.2f} (figure {figure:g}){'  MISSED' if value > figure else ''}")
    return int(missed)


SAID: Final = {
    "prompt": "a prompt and the answer to it, beside its turn, in bare requests",
    "first": "an event to the first who listens, in bare requests",
    "further": "an event to each further one, in bare requests",
    "stream": f"a streamed request with {STREAMED} chunks, in those of the bare loop",
    "whole": "the same, in milliseconds of CPU",
    "hooks": "tool hooks before and after a call, in tool rounds",
    "ready": "`agentrail serve` is ready, in seconds of CPU",
}

if __name__ == "__main__":
    if sys.argv[1:]:
        trio.run(serve, sys.argv[1])
    else:
        sys.exit(main())
