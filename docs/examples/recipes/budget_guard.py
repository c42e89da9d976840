"""A budget of your own, with a state: so many calls of tools that cost money, for the whole session.

The state is what the plugin remembers. The session keeps it, writes it with each step, and gives it back after a
restart. For tokens, money, rounds and time take `BudgetGuard`.

    searched
    searched
    blocked by Searches: all 2 searches of this session are used up; answer with what you have
"""

from __future__ import annotations

import trio
from attrs import frozen

from agentrail import BlockTool, Continue, Plugin, SessionSpec, open_supervisor, tool
from agentrail.plugins import BeforeTool, Context
from agentrail.testing import ScriptedModel, call, say


@frozen
class Searches(Plugin[int]):
    """Allow so many calls of `search`."""

    most: int = 2

    critical = True

    def init(self, ctx: Context) -> int:
        return 0

    def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int] | BlockTool[int]:
        if hook.name != "search":
            return Continue()
        if state >= self.most:
            return BlockTool(f"all {self.most} searches of this session are used up; answer with what you have")
        return Continue(state + 1)


@tool(effect="pure")
async def search(words: str) -> str:
    """Search the web."""
    return "searched"


async def main() -> None:
    """Let a model search three times."""
    tries = [say(calls=[call("search", {"words": words})]) for words in ("tea", "green tea", "black tea")]
    spec = SessionSpec(model=ScriptedModel([*tries, "Enough."]), tools=[search], plugins=[Searches()])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        await session.ask("What is tea?")
        for message in session.messages()[2:7:2]:
            print(message.text)


trio.run(main)
