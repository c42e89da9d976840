"""One agent calls another by A2A.

What that one may not do by itself, a person is asked here.

    asked here: ['approve', 'reject']
    the answer: deployed to production
"""

import os

import trio

from agentrail import Secret, SessionSpec, open_supervisor, tool
from agentrail.a2a import A2aAgent, A2aFace
from agentrail.host import Host, Profile
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say


@tool
async def deploy(to: str) -> str:
    """Deploy the service."""
    return f"deployed to {to}"


async def main() -> None:
    there = ScriptedModel(
        [say(calls=[call("deploy", {"to": "production"})]), lambda request: request.messages[-1].text]
    )
    spec = SessionSpec(model=there, tools=[deploy], plugins=[HumanApproval(tools=["deploy"])])
    async with Host([Profile("desk", spec)], faces=[A2aFace()]).serving() as serving, open_supervisor() as supervisor:
        url, _, os.environ["DESK_KEY"] = serving.entry.partition("/#token=")
        desk = A2aAgent(f"{url}/v1/a2a/desk", name="desk", about="Deploys.", auth=Secret("DESK_KEY"))
        here = ScriptedModel(
            [say(calls=[call("desk", {"message": "Deploy it."})]), lambda request: request.messages[-1].text]
        )
        session = await supervisor.spawn(SessionSpec(model=here, tools=[desk]))
        (question,) = (await session.ask("Have it deployed.")).held
        print("asked here:", list(question.options))
        await session.respond(question.id, "approve")
        print("the answer:", (await session.reply()).text.splitlines()[2])


trio.run(main)
