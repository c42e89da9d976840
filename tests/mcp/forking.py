"""The program that servers by HTTP are forked from: it imports the package `mcp` once, and not once for each of them.

Its arguments name the servers that there are. Each line of its input is a JSON object with the `words` of a command,
a server and its arguments, and the `env` that it gets; it answers with the process id. Nothing waits for a server.
"""

import json
import os
import runpy
import signal
import sys
from collections.abc import Sequence
from importlib import import_module

NEEDED = (
    "anyio._backends._asyncio",
    "mcp.server.mcpserver",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
)
"""What a server imports when it is begun, and when it is called."""


def run(words: Sequence[str], env: dict[str, str]) -> None:
    """Be the server."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[:] = words
    runpy.run_path(words[0], run_name="__main__")


def main() -> None:
    """Fork what is asked for, until nobody can ask."""
    for name in NEEDED:
        import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            try:
                run(asked["words"], asked["env"])
            finally:
                os._exit(1)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
