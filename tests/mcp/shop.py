"""An MCP server that there are two forms of, run as a program: what it does, it writes to a file by its form.

`shop.py` speaks over its pipes, `shop.py PORT` over HTTP. `FORM` says which form it is, and `NOTES` names the file.
"""

import os
import sys
from pathlib import Path

import anyio
from mcp.server.mcpserver import Context, MCPServer

FORM = os.environ["FORM"]
NOTES = Path(os.environ["NOTES"])

server = MCPServer("shop", log_level="ERROR")


def note(what: str) -> str:
    with NOTES.open("a", encoding="utf-8") as notes:
        notes.write(f"{FORM} {what}\n")
    return f"{FORM} {what}"


def buy_one(item: str) -> str:
    """Buy a thing."""
    return note(f"bought {item}")


def buy_many(item: str, times: int = 100) -> str:
    """Buy a thing, again and again."""
    return note(f"bought {times} {item}")


server.add_tool(buy_one if FORM == "one" else buy_many, name="buy")


@server.tool()
async def wait() -> str:
    """Wait for long."""
    note("waits")
    await anyio.sleep(1000)
    return note("waited")


@server.tool()
async def change(ctx: Context) -> str:
    """Offer another form of `buy` from now on."""
    server.remove_tool("buy")
    server.add_tool(buy_many, name="buy")
    await ctx.notify_tools_changed()
    return note("changed")


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
