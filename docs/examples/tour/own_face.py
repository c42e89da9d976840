"""A face of your own: a host that speaks a protocol of lines.

A client says something, follows the events, decides, and goes on after the last one:
    after 0 comes: may deploy run?
    after that comes: deployed to production
"""

import httpx
import trio

from agentrail import SessionSpec, tool
from agentrail.events import AgentEnd, ApprovalRequired
from agentrail.host import Face, FaceRequest, FaceResponse, FaceSend, Host, Profile
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say


@tool
async def deploy(to: str) -> str:
    """Deploy the service."""
    return f"deployed to {to}"


class Lines(Face):
    path = "/v1/lines"

    async def answer(self, request: FaceRequest) -> FaceResponse:
        verb, session, words = request.body.decode().split(" ", 2)

        async def follow(send: FaceSend) -> None:
            async with request.calls.events(session, words, (ApprovalRequired, AgentEnd)) as events:
                match (envelope := await anext(events)).event:
                    case ApprovalRequired(approval_id=approval, tool=name):
                        await send(f"{envelope.cursor} {approval} may {name} run?".encode())
                    case AgentEnd() as end:
                        await send(f"{envelope.cursor} - {end.messages[-1].text}".encode())

        if verb == "follow":
            return FaceResponse(follow, "text/plain")
        fields = {"open_session": "session", "prompt": "message", "approve": "approval"}
        await request.calls.call(verb, session=session, body={fields[verb]: words})
        return FaceResponse(b"done")


async def main() -> None:
    model = ScriptedModel([say(calls=[call("deploy", {"to": "production"})]), lambda asked: asked.messages[-1].text])
    spec = SessionSpec(model=model, tools=[deploy], plugins=[HumanApproval(tools=["deploy"])])
    async with Host([Profile("desk", spec)], faces=[Lines()]).serving() as serving, httpx.AsyncClient() as http:
        http.headers["authorization"] = f"Bearer {serving.entry.partition('/#token=')[2]}"
        url = f"{serving.url}/v1/lines"
        await http.post(url, content="open_session trip trip")
        await http.post(url, content="prompt trip Deploy it.")
        cursor, approval, question = (await http.post(url, content="follow trip 0")).text.split(" ", 2)
        print("after 0 comes:", question)
        await http.post(url, content=f"approve trip {approval}")
        print("after that comes:", (await http.post(url, content=f"follow trip {cursor}")).text[7:])


trio.run(main)
