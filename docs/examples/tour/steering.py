"""Steering: say something while a tool runs. The tool is cancelled, and the model reads the text at once.

A tool that must not be stopped half-way declares `immune=True`; then the text waits for it.

    the model wants to count to 3600
    count is stopped: the user said something new
    the model wants to count to 1
    `count` answered: “counted to 1”.
"""

import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.events import ToolExecutionStart, ToolSkippedForSteering


@tool(effect="pure")
async def count(to: int) -> str:
    """Count, one number a second."""
    await trio.sleep(to)
    return f"counted to {to}"


async def main() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model="demo", tools=[count]))
        async with session.stream("count to 3600") as turn:
            async for event in turn:
                match event:
                    case ToolExecutionStart(args=args):
                        print("the model wants to count to", args["to"])
                        if args["to"] != 1:
                            await session.steer("count to 1")
                    case ToolSkippedForSteering(name=name):
                        print(name, "is stopped: the user said something new")
        print(session.messages()[-1].text)


trio.run(main)
