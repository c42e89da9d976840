"""A host: agents over HTTP, with events that a client can read again after a lost connection.

`agentrail serve app.py` does the same from the command line, with keys, limits and a journal.

    200 `remember` answered: “noted: I like tea”.
    the last event: AgentEnd
"""

import httpx
import trio

from agentrail import SessionSpec, tool
from agentrail.host import Host, Profile


@tool
async def remember(fact: str) -> str:
    """Remember a fact."""
    return f"noted: {fact}"


async def main() -> None:
    host = Host([Profile("desk", SessionSpec(model="demo", tools=[remember]))])
    async with host.serving() as serving:
        url, _, token = serving.entry.partition("/#token=")
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as client:
            message = {"message": "remember that I like tea", "session": "first"}
            response = await client.post("/v1/chat", json=message)
            print(response.status_code, response.json()["text"])
            async with client.stream("GET", "/v1/sessions/first/events", params={"since": 0}) as stream:
                async for line in stream.aiter_lines():
                    name = line.removeprefix("event: ")
                    if name == "AgentEnd":
                        print("the last event:", name)
                        break


trio.run(main)
