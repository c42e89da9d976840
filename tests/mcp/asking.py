"""An MCP server of 2026-07-28 that asks a person: `asking.py` speaks over its pipes, `asking.py PORT` over HTTP."""

import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.request_state import RequestStateSecurity
from mcp.types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)

server = MCPServer("asking", log_level="ERROR", request_state_security=RequestStateSecurity(keys=[b"k" * 32]))

NAME: dict[str, object] = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 2}, "nights": {"type": "integer", "minimum": 1}},
    "required": ["name"],
}
SURE: dict[str, object] = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}


def required(message: str, schema: dict[str, object], state: str) -> InputRequiredResult:
    params = ElicitRequestFormParams(message=message, requested_schema=schema)
    return InputRequiredResult(input_requests={"one": ElicitRequest(params=params)}, request_state=state)


def text(words: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=words)])


def answer_in(ctx: Context) -> ElicitResult | None:
    answer = (ctx.input_responses or {}).get("one")
    assert answer is None or isinstance(answer, ElicitResult)
    return answer


@server.tool(structured_output=False)
async def book(room: str, ctx: Context) -> CallToolResult | InputRequiredResult:
    """Book a room."""
    said = answer_in(ctx)
    if said is None:
        return required("Who comes?", NAME, "first")
    if said.action != "accept":
        return text(f"not booked: {said.action}")
    if ctx.request_state == "first":
        return required("Really?", SURE, f"second {said.content}")
    return text(f"{room}: {ctx.request_state} {said.action} {said.content}")


@server.tool(structured_output=False)
async def pay(url: str, ctx: Context) -> CallToolResult | InputRequiredResult:
    """Have a page opened."""
    said = answer_in(ctx)
    if said is not None:
        return text(said.action)
    params = ElicitRequestURLParams(message="Pay first.", url=url)
    return InputRequiredResult(input_requests={"one": ElicitRequest(params=params)}, request_state="pay")


@server.tool(structured_output=False)
async def think() -> CallToolResult | InputRequiredResult:
    """Ask for the model of the client."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="what is the key?"))
    params = CreateMessageRequestParams(messages=[message], max_tokens=10)
    return InputRequiredResult(input_requests={"one": CreateMessageRequest(params=params)}, request_state="think")


@server.tool(structured_output=False)
async def later(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Put the call off twice."""
    times = int(ctx.request_state or 0)
    return text("now") if times == 2 else InputRequiredResult(request_state=str(times + 1))


@server.tool(structured_output=False)
async def never() -> CallToolResult | InputRequiredResult:
    """Put the call off for ever."""
    return InputRequiredResult(request_state="again")


if __name__ == "__main__":
    if sys.argv[1:]:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
