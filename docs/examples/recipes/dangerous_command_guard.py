"""A guard of your own: what a command may not do is decided before it runs, and the model is told why.

`SecurityGuard` has rules for this that read command lines as a shell does; write one of your own for what only your
house knows: here, the name of a database.

    blocked by NoProduction: `shop_live` is in use by customers; ask somebody of the team
    2 rows
"""

from __future__ import annotations

import trio
from attrs import frozen

from agentrail import BlockTool, Continue, Plugin, SessionSpec, open_supervisor, tool
from agentrail.plugins import BeforeTool, Context, Priority
from agentrail.testing import ScriptedModel, call, say


@frozen
class NoProduction(Plugin[None]):
    """Block calls of `query` on databases that customers use."""

    live: frozenset[str] = frozenset({"shop_live"})

    priority = Priority.SECURITY
    critical = True

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:
        database = hook.args.get("database")
        if hook.name == "query" and database in self.live:
            return BlockTool(f"`{database}` is in use by customers; ask somebody of the team")
        return Continue()


@tool(effect="pure")
async def query(database: str, sql: str) -> str:
    """Query a database."""
    return "2 rows"


async def main() -> None:
    """Let a model try the live database, and then the copy."""
    tries = [say(calls=[call("query", {"database": name, "sql": "…"})]) for name in ("shop_live", "shop_copy")]
    spec = SessionSpec(model=ScriptedModel([*tries, "Two rows."]), tools=[query], plugins=[NoProduction()])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        await session.ask("How many orders are there?")
        print(session.messages()[2].text)
        print(session.messages()[4].text)


trio.run(main)
