"""MCP: the tools of a server are tools of the session. It needs the extra `mcp`.

The server is a process of its own; if it dies, its tools leave the session, and it is started again.

    the tools: ['sums__add']
    the result: 5
"""

import sys
from pathlib import Path

import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.mcp import McpServer
from agentrail.testing import ScriptedModel, call, say

SERVER = '''
from mcp.server.mcpserver import MCPServer

server = MCPServer("sums")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


server.run()
'''


async def main() -> None:
    sums = McpServer([sys.executable, "server.py"], name="sums")
    model = ScriptedModel([say(calls=[call("sums__add", {"a": 2, "b": 3})]), "It is 5."])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, tools=[sums]))
        await session.ask("What is 2 + 3?")
        print("the tools:", [spec.name for spec in model.requests[0].tools])
        print("the result:", session.messages()[2].text)


Path("server.py").write_text(SERVER, encoding="utf-8")
trio.run(main)
