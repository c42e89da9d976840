"""Streaming: follow the events of a turn until it ends, and print the answer word by word.

Deltas are told and not kept; the whole text is in `ResponseComplete`.

    asking demo
    I will remember `I like tea`.
    remember({'fact': 'I like tea'})
    asking demo
    `remember` answered: “noted”.
"""

import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.events import MessageDelta, RequestStart, ResponseComplete, ToolExecutionStart


@tool
async def remember(fact: str) -> str:
    """Remember a fact."""
    return "noted" if fact else "nothing to note"


async def main() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model="demo", tools=[remember]))
        async with session.stream("remember that I like tea") as turn:
            async for event in turn:
                match event:
                    case RequestStart(model=model):
                        print("asking", model)
                    case MessageDelta(delta=text):
                        print(text, end="", flush=True)
                    case ResponseComplete():
                        print()
                    case ToolExecutionStart(name=name, args=args):
                        print(f"{name}({dict(args)})")


trio.run(main)
