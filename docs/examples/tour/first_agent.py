"""A first agent: a supervisor, a session with one tool, a prompt and the answer.

The model `demo` needs no key; it understands a few phrases, such as `remember that …`.

    `remember` answered: “noted: I like tea”.
    end after 2 requests
"""

import trio

from agentrail import SessionSpec, open_supervisor, tool


@tool
async def remember(fact: str) -> str:
    """Remember a fact."""
    return f"noted: {fact}"


async def main() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model="demo", tools=[remember]))
        reply = await session.ask("remember that I like tea")
        print(reply.text)
        answers = [message for message in reply.messages if type(message).__name__ == "AssistantMessage"]
        print(reply.stop_reason, "after", len(answers), "requests")


trio.run(main)
