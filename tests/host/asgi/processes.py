"""ASGI servers in processes of their own, which can be killed."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import trio

COMMANDS: Final = {
    "hypercorn-trio": ("hypercorn", "-k", "trio", "--workers", "0", "--graceful-timeout", "1", "--bind", "fd://{}"),
    "hypercorn-asyncio": ("hypercorn", "--workers", "0", "--graceful-timeout", "1", "--bind", "fd://{}"),
    "uvicorn": ("uvicorn", "--timeout-graceful-shutdown", "1", "--lifespan", "on", "--fd", "{}"),
}
"""Commands that serve at a descriptor, in one process: by default hypercorn serves in a child, which a kill spares."""


@asynccontextmanager
async def process(
    server: str, folder: Path, bound: socket.socket, app: str = "app:app", **more: str
) -> AsyncGenerator[trio.Process]:
    """Run a server at a socket that is there before it and after it; *more* is added to its environment."""
    number = bound.fileno()
    command = [sys.executable, "-m", *(word.format(number) for word in COMMANDS[server]), app]
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, command, cwd=folder, env=os.environ | more, pass_fds=[number], check=False)
        yield await nursery.start(run)
        nursery.cancel_scope.cancel()
