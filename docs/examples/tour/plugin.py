"""A plugin: a frozen class whose methods decide what may happen; here, a tool may be called once a turn.

Its state is a number, which the session keeps with its records.

    the letter is sent
    blocked by OncePerTurn: `send` was called in this turn already
"""

import trio
from attrs import frozen

from agentrail import BlockTool, Continue, Plugin, SessionSpec, open_supervisor, tool
from agentrail.plugins import AfterTurn, BeforeTool, Context
from agentrail.testing import ScriptedModel, call, say


@frozen
class OncePerTurn(Plugin[int]):
    """Let one call of *tool* run in each turn."""

    tool: str

    critical = True

    def init(self, ctx: Context) -> int:
        return 0

    def before_tool(self, hook: BeforeTool, state: int, ctx: Context) -> Continue[int] | BlockTool[int]:
        if hook.name != self.tool:
            return Continue()
        return Continue(1) if state == 0 else BlockTool(f"`{self.tool}` was called in this turn already")

    def after_turn(self, hook: AfterTurn, state: int, ctx: Context) -> Continue[int]:
        return Continue(0)


@tool
async def send(to: str) -> str:
    """Send a letter (this one only says so)."""
    return "the letter is sent"


async def main() -> None:
    model = ScriptedModel([say(calls=[call("send", {"to": "Ada"}), call("send", {"to": "Bob"})]), "Sent."])
    spec = SessionSpec(model=model, tools=[send], plugins=[OncePerTurn("send")])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        await session.ask("Write to both.")
        for message in session.messages()[2:4]:
            print(message.text)


trio.run(main)
