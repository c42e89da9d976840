"""Servers that serve a host: its own one, or an ASGI server that nobody here wrote."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Final, TypeAlias, cast

import hypercorn.asyncio
import hypercorn.trio
import pytest
import trio
import uvicorn
from hypercorn.config import Config
from hypercorn.typing import Framework
from uvicorn.config import WSProtocolType

from agentrail import Supervisor
from agentrail.host import Host, Serving

ServeApp: TypeAlias = Callable[[object], AbstractAsyncContextManager[str]]
"""Serves an ASGI app on loopback, and yields its address."""

GRACE: Final = 0.5
"""Seconds that an ASGI server lets requests end when it ends."""

SERVER: Final = os.environ.get("AGENTRAIL_HOST_SERVER", "own")
"""Name of the server on which the tests of the host run."""


def _configured() -> Config:
    config = Config()
    config.graceful_timeout = GRACE
    config.errorlog = None
    return config


@asynccontextmanager
async def on_hypercorn_trio(app: object) -> AsyncGenerator[str]:
    """Serve an app by hypercorn in this run of Trio."""
    config, ends = _configured(), trio.Event()
    config.bind = ["127.0.0.1:0"]
    async with trio.open_nursery() as nursery:
        serving = partial(hypercorn.trio.serve, cast("Framework", app), config, shutdown_trigger=ends.wait)
        (url,) = await nursery.start(serving)
        try:
            yield url
        finally:
            ends.set()


class LoopThread:
    """A thread with an asyncio loop, in which a server runs until it is told to end."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self._error: BaseException | None = None
        self._over = threading.Event()

    def start(self, main: Callable[[], object]) -> None:
        """Run *main* in the thread."""

        def run() -> None:
            try:
                main()
            except BaseException as error:  # noqa: BLE001 - `join` raises it
                self._error = error
            finally:
                self._over.set()

        threading.Thread(target=run, name="server", daemon=True).start()

    async def join(self) -> None:
        """Wait for the end of the thread, and raise what it has raised."""
        with trio.CancelScope(shield=True), trio.fail_after(60):
            await trio.to_thread.run_sync(self._over.wait, abandon_on_cancel=True)
        self.socket.close()
        if self._error is not None:
            raise self._error


@asynccontextmanager
async def on_uvicorn(app: object, websocket: WSProtocolType = "websockets-sansio") -> AsyncGenerator[str]:
    """Serve an app by uvicorn, in the asyncio loop of another thread, with its reader of that name for WebSockets."""
    config = uvicorn.Config(app, lifespan="on", log_config=None, timeout_graceful_shutdown=1, ws=websocket)  # type: ignore[arg-type]
    server, thread = uvicorn.Server(config), LoopThread()
    thread.start(lambda: asyncio.run(server.serve([thread.socket])))
    try:
        yield thread.url
    finally:
        server.should_exit = True
        await thread.join()


@asynccontextmanager
async def on_hypercorn_asyncio(app: object) -> AsyncGenerator[str]:
    """Serve an app by hypercorn, in the asyncio loop of another thread."""
    config, thread = _configured(), LoopThread()
    config.bind = [f"fd://{thread.socket.detach()}"]
    ends = threading.Event()

    async def ended() -> None:
        while not ends.is_set():  # noqa: ASYNC110 - another thread sets it
            await asyncio.sleep(0.02)

    serving = partial(hypercorn.asyncio.serve, cast("Framework", app), config, shutdown_trigger=ended)
    thread.start(lambda: asyncio.run(serving()))
    try:
        yield thread.url
    finally:
        ends.set()
        await thread.join()


SERVERS: Final[Mapping[str, ServeApp]] = {
    "hypercorn-trio": on_hypercorn_trio,
    "hypercorn-asyncio": on_hypercorn_asyncio,
    "uvicorn": on_uvicorn,
    "uvicorn-wsproto": partial(on_uvicorn, websocket="wsproto"),
}


class Elsewhere:
    """In place of a supervisor in another run of Trio, which no test may look into: such a test is skipped."""

    def __getattr__(self, name: str) -> object:
        pytest.skip("it looks into the supervisor, which is in a thread of its own on asyncio")


@asynccontextmanager
async def served_by(host: Host, name: str = SERVER) -> AsyncGenerator[Serving]:
    """Serve *host* by the server of that name."""
    if name == "own":
        async with host.serving() as serving:
            yield serving
        return
    app = host.asgi()
    async with SERVERS[name](app) as url:
        supervisor = app.supervisor if name == "hypercorn-trio" else cast("Supervisor", Elsewhere())
        yield Serving(url, url, supervisor)
