"""`agentrail serve --server uvicorn`: the host as an app of that server, for whoever has settled on it."""

from __future__ import annotations

import signal
import socket
from functools import partial
from typing import Final

import trio

from agentrail.adapters.extras import need_extra
from agentrail.cli.host.serve_options import ServeOptions
from agentrail.host.host_server import Host
from agentrail.host.http11.listening import Certificate, inherited, listen_tcp, url_of
from agentrail.host.served_file import NothingToServeError

need_extra("uvicorn", "uvicorn", "serve a host by uvicorn")

from uvicorn import Config, Server  # noqa: E402 - it need not be there
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol  # noqa: E402

NEEDS_KEYS: Final = "--server uvicorn needs keys, as an app does not know who reaches its server: give --keys PATH"

STREAMS_END: Final = 5
"""Seconds after SIGTERM for which it waits for open answers; event streams stay open, and their clients come back."""


class AnnouncedServer(Server):
    """A server that says when it listens."""

    def __init__(self, config: Config, line: str) -> None:
        super().__init__(config)
        self._line = line

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the host, and listen at *sockets*."""
        await super().startup(sockets)
        print(self._line, flush=True)


class EndingWebSocket(WSProtocol):
    """A WebSocket that may be ended while its peer ends it.

    uvicorn would send a second close frame, fail at it, and be gone before the sessions are parked.
    """

    def shutdown(self) -> None:
        """Tell the peer that the server ends, unless the connection is closing already."""
        if not self.transport.is_closing():
            super().shutdown()


def serve_by_uvicorn(host: Host, description: str, options: ServeOptions) -> int:
    """Serve *host* until a signal ends it; return the exit code. Raise `CannotListen` or `NothingToServeError`."""
    if host.needs_token:
        raise NothingToServeError(NEEDS_KEYS)
    certificate = None if options.tls is None else Certificate(*options.tls)
    named, sockets = _sockets(options)
    config = Config(
        host.asgi(hosts=[options.tcp.host, *options.names], origins=options.origins, proxies=options.proxies),
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws=EndingWebSocket,
        ws_max_size=host.limits.body_bytes + host.limits.header_bytes,
        timeout_graceful_shutdown=STREAMS_END,
        ssl_context_factory=None if certificate is None else lambda _config, _default: certificate.context,
    )
    url = url_of(sockets[0].getsockname(), named, has_tls=certificate is not None)
    server = AnnouncedServer(config, f"agentrail serves {description} by uvicorn at {url}\nCtrl-C ends it.")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ended)
    server.run(sockets)
    return 0


def _ended(number: int, frame: object) -> None:
    """No-op: uvicorn raises the signal that has ended it once more when all is over."""


def _sockets(options: ServeOptions) -> tuple[str, list[socket.socket]]:
    """Listen at the address of *options*, or at the socket that this process has inherited; return the host too."""
    if options.socket is not None:
        listener = inherited(options.socket)
        return listener.host, [listener.socket]
    listeners = trio.run(partial(listen_tcp, options.tcp))
    return options.tcp.host, [socket.socket(fileno=listener.socket.detach()) for listener in listeners]
