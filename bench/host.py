"""What the HTTP server of the host costs, beside a bare loop around h11 in the same run: CPU of the serving process.

`python -m bench.host`
"""

from __future__ import annotations

import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import trio

from agentrail.host import HostLimits
from agentrail.host.http11.http_server import HttpServer
from agentrail.host.http11.listening import Tcp
from agentrail.host.requests.http_messages import HttpRequest, HttpResponse
from agentrail.runtime.shared.clock import Clock

REPEATS: Final = 9
REQUESTS: Final = 2_000
IDLE: Final = 500
HALF_OPEN: Final = 200

HEALTH: Final = 0.6
"""Requests that the server answers in the time in which the bare loop answers one."""
IDLE_KIB: Final = 40.0
"""Memory of an idle connection."""
P99: Final = 50.0
"""Milliseconds until an answer, beside connections that have sent half a head."""

REQUEST: Final = (
    b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nUser-Agent: bench\r\nAccept: */*\r\n"
    b"Accept-Encoding: gzip\r\nConnection: keep-alive\r\n\r\n"
)


async def health(_: HttpRequest) -> HttpResponse:
    """Answer as the bare loop does."""
    return HttpResponse(200, (("content-type", "text/plain"),), b"ok")


async def serve() -> None:
    """Serve on any free port of loopback, and print it."""
    server = HttpServer(health, Clock().now_ms, HostLimits(connections=10_000, connections_per_address=10_000))
    async with trio.open_nursery() as nursery:
        (listening,) = await nursery.start(server.serve, [Tcp()])
        print(listening.port, flush=True)


class Serving:
    """A process that serves."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.port = port
        self._proc = Path("/proc") / str(process.pid)

    def cpu(self) -> float:
        """Return the seconds of CPU that the process has used."""
        return int((self._proc / "schedstat").read_text().split()[0]) / 1e9

    def kib(self) -> float:
        """Return the memory of the process."""
        return int((self._proc / "statm").read_text().split()[1]) * resource.getpagesize() / 1024

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(("127.0.0.1", self.port))

    def cost(self) -> float:
        """Return the seconds of CPU for a request."""
        with self.connect() as client:
            ask(client)
            before = self.cpu()
            for _ in range(REQUESTS):
                ask(client)
            return (self.cpu() - before) / REQUESTS


def ask(client: socket.socket) -> None:
    """Send a request, and read the answer."""
    client.sendall(REQUEST)
    received = b""
    while not received.endswith(b"\r\n\r\nok"):
        received += client.recv(65536)


@contextmanager
def serving(*arguments: str) -> Iterator[Serving]:
    """Run a server in a process of its own."""
    with subprocess.Popen([sys.executable, "-m", *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield Serving(process, int(process.stdout.readline()))
        finally:
            process.kill()


def idle_kib(server: Serving) -> float:
    """Return the memory of a connection that has asked once."""
    with ExitStack() as stack:
        for _ in range(IDLE):  # whatever is made once, or kept for the next time
            ask(stack.enter_context(server.connect()))
    with ExitStack() as stack:
        before = server.kib()
        for _ in range(2 * IDLE):
            ask(stack.enter_context(server.connect()))
        return (server.kib() - before) / IDLE


def p99(server: Serving) -> float:
    """Return the milliseconds within which 99 of 100 requests are answered, beside many half-open connections."""
    taken: list[float] = []
    with ExitStack() as stack:
        for number in range(HALF_OPEN):
            stack.enter_context(server.connect()).sendall(REQUEST[: number % 100])
        client = stack.enter_context(server.connect())
        for _ in range(REQUESTS):
            began = time.perf_counter()
            ask(client)
            taken.append((time.perf_counter() - began) * 1000)
    return statistics.quantiles(taken, n=100)[98]


def main() -> int:
    """Measure, print, and return 1 if a figure is missed."""
    with serving("bench.bare_http") as bare, serving("bench.host", "serve") as ours:
        pairs = [(bare.cost(), ours.cost()) for _ in range(REPEATS)]
        kib = idle_kib(ours)
        late = p99(ours)
    ratio = statistics.median(one / other for one, other in pairs)
    costs = [statistics.median(column) * 1e6 for column in zip(*pairs, strict=True)]
    print(
        f"health: {ratio:.2f} of the bare loop (figure {HEALTH}); {costs[0]:.0f} and {costs[1]:.0f} µs of CPU a request"
    )
    print(f"an idle connection: {kib:.1f} KiB (figure {IDLE_KIB:.0f})")
    print(f"beside {HALF_OPEN} half-open connections: 99 of 100 within {late:.1f} ms (figure {P99:.0f})")
    return int(ratio < HEALTH or kib > IDLE_KIB or late > P99)


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        trio.run(serve)
    else:
        sys.exit(main())
