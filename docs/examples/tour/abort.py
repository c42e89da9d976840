"""An abort: the turn ends at once, also if a tool ignores its cancellation; the session goes on.

The tool that does not end is reported, and its late result reaches nobody.

    abort returned, and the tool still runs: stubborn
    reported: ToolAbandoned
    the next prompt is answered: Hello.
"""

import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.events import ToolAbandoned, ToolExecutionUpdate
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext


@tool
async def stubborn(ctx: ToolContext) -> str:
    """Work for a second, whatever happens."""
    with trio.CancelScope(shield=True):
        ctx.report("I will not stop")
        await trio.sleep(1)
    return "done"


async def main() -> None:
    model = ScriptedModel([say(calls=[call("stubborn")]), "Hello."])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, tools=[stubborn]))
        async with session.subscribe(types=[ToolExecutionUpdate, ToolAbandoned]) as events:
            await session.prompt("Work.")
            await anext(events)
            await session.abort("never mind")
            print("abort returned, and the tool still runs:", session.status().quarantined[0].name)
            print("reported:", type((await anext(events)).event).__name__)
        print("the next prompt is answered:", (await session.ask("Hi")).text)


trio.run(main)
