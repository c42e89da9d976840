"""Sub-agents with a budget: what a sub-agent uses is gone for the session that started it, and for its other agents.

A sub-agent inherits the guards of its parent, and with them what is left of a budget.

    lead.c3 begins: population of Paris
    lead.c3 answers: 2.1 million
    the lead is stopped: BudgetGuard: max_tokens=1000 is used up
    used by both: over 900 tokens
"""

import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.errors import TurnAborted
from agentrail.events import SubagentEnd, SubagentStart
from agentrail.models import Usage
from agentrail.plugins import BudgetGuard
from agentrail.testing import ScriptedModel, call, say


async def main() -> None:
    clerk = SessionSpec(
        description="Looks something up.",
        model=ScriptedModel([say("2.1 million", usage=Usage(output_tokens=980))], name="clerk"),
    )
    task = call("task", {"agent": "clerk", "description": "population of Paris", "prompt": "How many live in Paris?"})
    lead = ScriptedModel([say(calls=[task]), "In Paris live 2.1 million people."], name="lead")
    spec = SessionSpec(model=lead, agents={"clerk": clerk}, plugins=[BudgetGuard(max_tokens=1000)])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec, "lead")
        async with session.subscribe(types=[SubagentStart, SubagentEnd]) as events:
            reason = "it was not stopped"
            try:
                await session.ask("Write about Paris.")
            except TurnAborted as aborted:
                reason = str(aborted).partition("(plugin): ")[2].partition(": this request")[0]
            for _ in range(2):
                match (await anext(events)).event:
                    case SubagentStart(child=child, description=about):
                        print(child, "begins:", about)
                    case SubagentEnd(child=child, text=text):
                        print(child, "answers:", text)
        print("the lead is stopped:", reason)
        print("used by both: over", session.status().usage.output_tokens // 100 * 100, "tokens")


trio.run(main)
