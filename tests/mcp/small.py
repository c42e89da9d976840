"""A small MCP server for tests, run as a program: `small.py` speaks over its pipes, `small.py PORT` over HTTP."""

import os
import signal
import subprocess
import sys
import time

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("small", log_level="ERROR")

PICTURE = b"\x89PNG\r\n\x1a\nnot much of a picture"
SEEN: list[str] = []


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(structured_output=False)
def picture() -> Image:
    """Show a picture."""
    return Image(data=PICTURE, format="png")


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


@server.tool()
def variable(name: str) -> str:
    """Tell a variable of the environment."""
    return os.environ.get(name, "(not set)")


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Count, and say how far it is."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, "counting")
    return f"counted to {to}"


@server.tool()
async def wait(seconds: float) -> str:
    """Wait, and remember when that is cancelled."""
    SEEN.append("waiting")
    try:
        await anyio.sleep(seconds)
    except BaseException as error:
        SEEN.append(type(error).__name__)
        raise
    return "waited"


@server.tool()
def seen() -> str:
    """Tell what has become of the calls to `wait`."""
    return " ".join(SEEN)


@server.tool()
def crash() -> str:
    """End the server at once."""
    os._exit(3)


@server.tool()
async def freeze(sleep: str) -> str:
    """Ignore everything from now on, and leave programs behind that do so too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in (f"trap '' TERM; {sleep}; {sleep}", f"setsid sh -c \"trap '' TERM; {sleep}; {sleep}\""):
        subprocess.Popen(["/bin/sh", "-c", line])  # noqa: ASYNC220, S603 - that is the point
    while True:
        time.sleep(1000)  # noqa: ASYNC251 - see above


def later() -> str:
    """Come later."""
    return "here I am"


@server.tool()
async def grow(ctx: Context) -> str:
    """Have one tool more."""
    server.add_tool(later)
    await ctx.notify_tools_changed()
    return "grown"


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
