"""A question: a tool asks the person something, and the turn rests until the answer has come.

A question has no time limit of its own, and it is still there after a restart.

    Tea or coffee? ('tea', 'coffee')
    the model reads: tea, please
"""

import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.events import AskUser
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import AskPerson, Effect


@tool
async def ask_user(question: str, options: list[str]) -> Effect:
    """Ask the person something."""
    return Effect(AskPerson(question, tuple(options)))


async def main() -> None:
    question = call("ask_user", {"question": "Tea or coffee?", "options": ["tea", "coffee"]})
    spec = SessionSpec(model=ScriptedModel([say(calls=[question]), "Coming."]), tools=[ask_user])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        async with session.stream("I am thirsty.", until="end") as turn:
            async for event in turn:
                match event:
                    case AskUser(ref=ref, question=asked, options=options):
                        print(asked, options)
                        await session.respond(ref, "tea, please")
                    case _:
                        pass
        print("the model reads:", session.messages()[2].text)


trio.run(main)
