"""When a tool fails, run another one in its place: the model sees one result, and never that the first is down.

A plugin cannot call anything itself. It asks the session to run the other tool (`Ask(RunTool(…))`), is called again
with the answer, and replaces the result. The other tool passes the guards as any call does.

    20 degrees, from the almanac
"""

from __future__ import annotations

import trio
from attrs import frozen

from agentrail import Ask, Continue, Plugin, ReplaceToolResult, SessionSpec, open_supervisor, tool
from agentrail.plugins import AfterTool, Answered, Context, RunTool
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Err, ToolError, ok


@frozen
class Fallback(Plugin[None]):
    """If *tool* fails, use *instead* with the same arguments."""

    tool: str
    instead: str

    @property
    def tools_named(self) -> tuple[str, ...]:
        return (self.tool, self.instead)

    def after_tool(
        self, hook: AfterTool, state: None, ctx: Context
    ) -> Continue[None] | Ask[None] | ReplaceToolResult[None]:
        if hook.name != self.tool or not isinstance(hook.result, Err):
            return Continue()
        if hook.answer is None:
            return Ask(RunTool(self.instead, hook.args), deadline=30)
        if isinstance(hook.answer, Answered):
            return ReplaceToolResult(ok(str(hook.answer.value)))
        return Continue()


@tool(effect="pure")
async def weather(city: str) -> str:
    """Say how the weather is."""
    raise ToolError("the station does not answer")


@tool(effect="pure")
async def almanac(city: str) -> str:
    """Say how the weather is on most days."""
    return "20 degrees, from the almanac"


async def main() -> None:
    """Let a model ask for the weather."""
    model = ScriptedModel([say(calls=[call("weather", {"city": "Paris"})]), "It is warm."])
    spec = SessionSpec(model=model, tools=[weather, almanac], plugins=[Fallback("weather", "almanac")])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        await session.ask("How is the weather in Paris?")
        print(session.messages()[2].text)


trio.run(main)
