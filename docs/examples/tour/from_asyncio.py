"""From asyncio: the same supervisor and handles, and a tool that runs on the loop of the program.

The sessions live in a thread with Trio; cancellation and errors pass both ways, so `asyncio.timeout` stops an `ask`.

    sunny in Paris, says a library of asyncio
    TimeoutError, and the session is idle
"""

import asyncio

from agentrail import SessionSpec, aio
from agentrail.testing import ScriptedModel, call, say, stall


@aio.tool(effect="pure")
async def weather(city: str) -> str:
    """Return the weather in a city."""
    await asyncio.sleep(0)
    return f"sunny in {city}, says a library of asyncio"


async def main() -> None:
    model = ScriptedModel([say(calls=[call("weather", {"city": "Paris"})]), "Take no umbrella.", stall()])
    async with aio.open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, tools=[weather]))
        await session.ask("What is the weather in Paris?")
        print(session.messages()[2].text)
        try:
            async with asyncio.timeout(0.1):
                await session.ask("And in Rome?")
        except TimeoutError as error:
            await session.abort("it took too long")
            print(f"{type(error).__name__}, and the session is {session.status().phase}")


asyncio.run(main())
