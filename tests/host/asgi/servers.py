"""Servers that serve a host: its own one, or an ASGI server that nobody here wrote."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Final, TypeAlias, cast

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from hypercorn.typing import Framework

from agentrail.host.host_server import Host, Serving

ServeHost: TypeAlias = Callable[[Host], AbstractAsyncContextManager[Serving]]

GRACE: Final = 0.5
"""Seconds that an ASGI server lets requests end when it ends."""

SERVER: Final = os.environ.get("AGENTRAIL_HOST_SERVER", "own")
"""Name of the server on which the tests of the host run."""


@asynccontextmanager
async def hypercorn_trio(app: object) -> AsyncGenerator[str]:
    """Serve an app by hypercorn in this run of Trio; yield its address."""
    config, ends = Config(), trio.Event()
    config.bind = ["127.0.0.1:0"]
    config.graceful_timeout = GRACE
    config.errorlog = None
    async with trio.open_nursery() as nursery:
        serving = partial(serve, cast("Framework", app), config, shutdown_trigger=ends.wait)
        (url,) = await nursery.start(serving)
        try:
            yield url
        finally:
            ends.set()


@asynccontextmanager
async def on_hypercorn_trio(host: Host) -> AsyncGenerator[Serving]:
    app = host.asgi()
    async with hypercorn_trio(app) as url:
        yield Serving(url, url, app.supervisor)


SERVERS: Final[Mapping[str, ServeHost]] = {
    "own": lambda host: host.serving(),
    "hypercorn-trio": on_hypercorn_trio,
}


def served_by(host: Host) -> AbstractAsyncContextManager[Serving]:
    """Serve *host* by the server that the environment names."""
    return SERVERS[SERVER](host)
