"""Who decided: the records of a session tell which plugin or person let a call run, held it or blocked it.

No plugin runs again for it, and no model is asked. `agentrail sessions why` tells the same in the terminal.

    deploy was blocked by Guard: production is closed
    `Guard` blocked the call: production is closed
    `HumanApproval` was not asked: `Guard` had decided
"""

import trio

from agentrail import BlockTool, Continue, Plugin, Priority, SessionSpec, open_supervisor, tool
from agentrail.insight import why
from agentrail.journals import MemoryJournal
from agentrail.plugins import BeforeTool, Context, HumanApproval
from agentrail.testing import ScriptedModel, call, say


class Guard(Plugin[None]):
    """Let nobody touch production."""

    priority = Priority.SECURITY
    critical = True

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:
        return BlockTool("production is closed") if hook.args.get("target") == "production" else Continue()


@tool
async def deploy(target: str) -> str:
    """Deploy there (this one only says so)."""
    return f"deployed to {target}"


async def main() -> None:
    model = ScriptedModel([say(calls=[call("deploy", {"target": "production"})]), "It was not allowed."])
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        spec = SessionSpec(model=model, tools=[deploy], plugins=[Guard(), HumanApproval(tools=["deploy"])])
        session = await supervisor.spawn(spec, "desk")
        await session.ask("Deploy it.")
        account = why(await journal.read("desk"), "c3")
    print(account.sentence)
    for entry in account.entries:
        for step in entry.explanation.steps if entry.explanation is not None else ():
            print(step.sentence)


trio.run(main)
