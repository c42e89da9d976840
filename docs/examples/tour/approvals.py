"""Approvals: calls of one tool wait for a person, who lets one run with another path and rejects the other one.

Calls of the same response that need nobody run meanwhile.

    read plan.md
    waiting: delete {"path": "old.txt"}
    waiting: delete {"path": "plan.md"}
    result: deleted backup/old.txt
    result: rejected by the user: we need it
"""

import json

import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.events import AgentEnd
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say


@tool
async def delete(path: str) -> str:
    """Delete a file (this one only says so)."""
    return f"deleted {path}"


@tool(effect="pure")
async def read(path: str) -> str:
    """Read a file (this one only says so)."""
    print("read", path)
    return "the plan"


async def main() -> None:
    calls = [call("delete", {"path": path}) for path in ("old.txt", "plan.md")]
    model = ScriptedModel([say(calls=[*calls, call("read", {"path": "plan.md"})]), "Done."])
    spec = SessionSpec(model=model, tools=[delete, read], plugins=[HumanApproval(tools=["delete"], timeout=None)])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        reply = await session.ask("Tidy up.")
        for held in reply.held:
            print("waiting:", held.tool, json.dumps(dict(held.args)))
        async with session.subscribe(types=[AgentEnd]) as events:
            await session.reject(reply.held[1], "we need it")
            await session.approve(reply.held[0], {"path": "backup/old.txt"})
            await anext(events)
        for message in session.messages()[2:4]:
            print("result:", message.text)


trio.run(main)
