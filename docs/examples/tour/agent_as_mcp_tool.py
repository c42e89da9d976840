"""An agent as a tool of MCP clients, who are asked about what it may not do by itself. It needs the extra `mcp`.

`agentrail mcp serve app.py` does the same for a client that starts it.

    the tools: ['prompt']
    the client is asked: May deploy run with {"to": "production"}?
    the agent: deployed to production
"""

import httpx2
import trio
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitRequestParams, ElicitResult

from agentrail import SessionSpec, tool
from agentrail.host import Host, Profile
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say


@tool
async def deploy(to: str) -> str:
    """Deploy the service."""
    return f"deployed to {to}"


async def decide(context: object, params: ElicitRequestParams) -> ElicitResult:
    print("the client is asked:", params.message.splitlines()[0])
    return ElicitResult(action="accept", content={"decision": "approve"})


async def main() -> None:
    model = ScriptedModel(
        [say(calls=[call("deploy", {"to": "production"})]), lambda request: request.messages[-1].text]
    )
    spec = SessionSpec(model=model, tools=[deploy], plugins=[HumanApproval(tools=["deploy"])])
    async with Host([Profile("desk", spec)], mcp=True).serving() as serving:
        url, _, token = serving.entry.partition("/#token=")
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, trust_env=False) as http:
            transport = streamable_http_client(f"{url}/v1/mcp", http_client=http)
            async with Client(transport, elicitation_callback=decide) as client:
                print("the tools:", [offered.name for offered in (await client.list_tools()).tools])
                result = await client.call_tool("prompt", {"text": "Deploy it."})
                print("the agent:", (result.structured_content or {}).get("text"))


trio.run(main)
