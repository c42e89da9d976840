"""Tool, plugin and sandbox together: files in memory, a rule about them, and a tool of your own that uses them.

The tools that come with agentrail and those of your own reach files by the session's sandbox alone. So the same agent
works on a disk, in a container and, as here, in memory.

    3 words
    blocked by NoSecrets: `.env` stays closed
    blocked by NoSecrets: `grep` may open any file; name one by its path
    ['notes.txt']
"""

from __future__ import annotations

import trio
from attrs import frozen

from agentrail import BlockTool, Continue, Plugin, SessionSpec, open_supervisor, tool
from agentrail.plugins import BeforeTool, Context, Priority
from agentrail.sandboxes import MemorySandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext, ToolError, standard_tools


@frozen
class NoSecrets(Plugin[None]):
    """Keep files whose names begin with a dot from all tools: only calls that open one file by its path may run."""

    opening: frozenset[str] = frozenset({"read_file", "write_file", "edit_file", "count_words"})

    priority = Priority.SECURITY
    critical = True

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:
        if hook.name not in self.opening:
            return BlockTool(f"`{hook.name}` may open any file; name one by its path")
        path = str(hook.args.get("path", ""))
        if any(part.startswith(".") for part in path.split("/")):
            return BlockTool(f"`{path}` stays closed")
        return Continue()


@tool(effect="pure", requires={"files"})
async def count_words(path: str, ctx: ToolContext) -> str:
    """Count the words of a file."""
    if ctx.sandbox is None:
        raise ToolError("this session has no files")
    content = await ctx.sandbox.read(path)
    return f"{len(content.data.split())} words"


async def main() -> None:
    """Let a model count, and try what it may not."""
    sandbox = MemorySandbox({"notes.txt": b"Tea at four.\n", ".env": b"KEY=1\n"})
    asks = [
        call("count_words", {"path": "notes.txt"}),
        call("read_file", {"path": ".env"}),
        call("grep", {"pattern": "KEY"}),
    ]
    model = ScriptedModel([say(calls=asks), "Three words."])
    tools = [*standard_tools(), count_words]
    spec = SessionSpec(model=model, tools=tools, plugins=[NoSecrets()], sandbox=sandbox)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        await session.ask("How long are my notes?")
        for message in session.messages()[2:5]:
            print(message.text)
    print([entry.path for entry in (await sandbox.glob("*.txt")).entries])


trio.run(main)
