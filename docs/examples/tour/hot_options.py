"""Other options for a plugin while its session runs: between two turns, recorded, and checked by the plugin.

The change waits for the end of the turn, so one turn has one set of options.

    before: blocked by Paths: only below docs/
    after: read src/main.py
"""

import trio
from attrs import frozen

from agentrail import BlockTool, Continue, Plugin, SessionSpec, open_supervisor, tool
from agentrail.plugins import BeforeTool, Context
from agentrail.testing import ScriptedModel, call, say


@frozen
class Paths(Plugin[None]):
    """Let calls reach files below one folder alone."""

    below: str

    critical = True

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:
        if str(hook.args.get("path")).startswith(self.below):
            return Continue()
        return BlockTool(f"only below {self.below}")


@tool(effect="pure")
async def read(path: str) -> str:
    """Read a file (this one only says so)."""
    return f"read {path}"


async def main() -> None:
    reads = say(calls=[call("read", {"path": "src/main.py"})])
    model = ScriptedModel([reads, "I may not.", reads, "I have read it."])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, tools=[read], plugins=[Paths("docs/")]))
        await session.ask("Read it.")
        print("before:", session.messages()[2].text)
        await session.update_plugin(Paths, below="src/")
        await session.ask("Again, please.")
        print("after:", session.messages()[-2].text)


trio.run(main)
