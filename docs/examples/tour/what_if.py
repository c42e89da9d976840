"""A back-test: would a lower limit have blocked anything that happened? Nothing of it runs again.

The call that went on is ruled on again, from the records.

    then: it went on (every plugin that was asked let it pass)
    now: the call was blocked by `Limit`: more than 200
"""

import trio
from attrs import frozen

from agentrail import BlockTool, Continue, Plugin, SessionSpec, open_supervisor, tool
from agentrail.insight import backtest
from agentrail.journals import MemoryJournal
from agentrail.plugins import BeforeTool, Context
from agentrail.testing import ScriptedModel, call, say


@tool
async def pay(amount: int) -> str:
    """Pay an amount."""
    return f"{amount} paid"


@frozen
class Limit(Plugin[None]):
    """Lets nobody pay more than an amount."""

    most: int

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> Continue[None] | BlockTool[None]:
        amount = hook.args.get("amount")
        too_much = isinstance(amount, int) and amount > self.most
        return BlockTool(f"more than {self.most}") if too_much else Continue()


async def main() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        model = ScriptedModel([say(calls=[call("pay", {"amount": 300})]), "It is paid."])
        session = await supervisor.spawn(SessionSpec(model=model, tools=[pay], plugins=[Limit(500)]))
        await session.ask("Pay the bill.")
    outcome = await backtest(journal, [Limit(200)])
    for tested in outcome.sessions:
        for part in tested.parts:
            print("then:", part.then.sentence)
            print("now:", part.now.sentence.partition(" (")[0])


trio.run(main)
