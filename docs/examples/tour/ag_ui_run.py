"""A run of AG-UI: what a front end such as CopilotKit gets from a host, and how it answers what waits for a person.

The first run ends with an interrupt; the answer to it is sent in `resume` of the next run, which goes on.

    I will remember `I like tea`.
    RUN_FINISHED interrupt `remember` wants to run with {"fact": "I like tea"}
    `remember` answered: “noted: I like tea”.
    RUN_FINISHED success
"""

import json
from uuid import uuid4

import httpx
import trio

from agentrail import SessionSpec, tool
from agentrail.host import Host, Profile
from agentrail.plugins import HumanApproval


@tool
async def remember(fact: str) -> str:
    """Remember a fact."""
    return f"noted: {fact}"


async def run(client: httpx.AsyncClient, number: int, **more: object) -> str:
    """Send a run, print what the model says and how the run ends; return the id of the call that waits, if one does."""
    body = {"threadId": "trip", "runId": f"run-{number}", "messages": [], "tools": [], "context": [], **more}
    response = await client.post("/v1/ag-ui", json={**body, "state": {}, "forwardedProps": {}})
    lines = response.text.splitlines()
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    print("".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"))
    outcome = events[-1]["outcome"]
    print(events[-1]["type"], outcome["type"], *[one["message"] for one in outcome.get("interrupts", ())])
    return "".join(one["id"] for one in outcome.get("interrupts", ()))


async def main() -> None:
    spec = SessionSpec(model="demo", tools=[remember], plugins=[HumanApproval(tools=["remember"])])
    async with Host([Profile("desk", spec)]).serving() as serving:
        url, _, token = serving.entry.partition("/#token=")
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as client:
            message = {"id": str(uuid4()), "role": "user", "content": "remember that I like tea"}
            waits = await run(client, 1, messages=[message])
            answer = {"interruptId": waits, "status": "resolved", "payload": {"approved": True}}
            await run(client, 2, resume=[answer])


trio.run(main)
