"""A tool that queries a database for the tenant of its session, whatever the model writes.

The tenant comes from `user_data`, which the program gives to the session and no model can change. The SQL runs on a
copy of the tenant's rows, and may only read, so nothing that it says can reach another's. A query of too many steps is
ended: its thread would go on after the time limit of the call. Where a copy is too large, give each tenant a file of
its own.

    tea
    no such table: main.item
    interrupted
    acme: tea; zoo: fish
"""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Tool, ToolContext, ToolError

ROWS = [("acme", "tea"), ("zoo", "fish")]
MOST = 50
STEPS = 10_000_000
ENDLESS = "SELECT 1 FROM items" + ", (SELECT 1 UNION ALL SELECT 2)" * 40 + " ORDER BY 1"


def query_tool(path: Path) -> Tool:
    """Return the tool for the database at *path*."""

    @tool(effect="pure", timeout=5)
    def query(sql: str, ctx: ToolContext) -> str:
        """Query the table `items`, which has the column `name`, by one SELECT of SQLite."""
        tenant = str(ctx.user_data["tenant"])
        connection = sqlite3.connect(":memory:")
        try:
            connection.execute("CREATE TABLE items (name TEXT)")
            with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as whole:
                names = whole.execute("SELECT name FROM item WHERE tenant = ?", (tenant,)).fetchall()
            whole.close()
            connection.executemany("INSERT INTO items VALUES (?)", names)
            connection.set_authorizer(_reading_only)
            connection.set_progress_handler(lambda: 1, STEPS)
            rows = connection.execute(sql).fetchmany(MOST)
        except sqlite3.Error as error:
            raise ToolError(str(error)) from error
        finally:
            connection.close()
        return "\n".join(" | ".join(map(str, row)) for row in rows) or "no rows"

    return query


def _reading_only(action: int, *_: object) -> int:
    """Allow to select and to read, and nothing else: no ATTACH, no PRAGMA."""
    return sqlite3.SQLITE_OK if action in {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ} else sqlite3.SQLITE_DENY


async def main() -> None:
    """Let the models of two tenants query."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop.db"
        with sqlite3.connect(path) as shop:
            shop.execute("CREATE TABLE item (tenant TEXT, name TEXT)")
            shop.executemany("INSERT INTO item VALUES (?, ?)", ROWS)
        shop.close()
        found: dict[str, str] = {}
        async with open_supervisor() as supervisor:
            for tenant in ("acme", "zoo"):
                asks = [
                    call("query", {"sql": sql})
                    for sql in ("SELECT name FROM items", "SELECT * FROM main.item", ENDLESS)
                ]
                model = ScriptedModel([say(calls=asks), "Done."])
                spec = SessionSpec(model=model, tools=[query_tool(path)], user_data={"tenant": tenant})
                session = await supervisor.spawn(spec)
                await session.ask("What is in the shop?")
                found[tenant], *refused = (message.text for message in session.messages()[2:5])
                if tenant == "acme":
                    print(found[tenant], *refused, sep="\n")
    print("; ".join(f"{tenant}: {rows}" for tenant, rows in found.items()))


trio.run(main)
