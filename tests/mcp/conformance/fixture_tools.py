"""The tools that the official conformance suite expects of each server, beside `prompt`, behind the same endpoint."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import trio
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    TextResourceContents,
    Tool,
)

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    Context = ServerRequestContext[dict[str, object]]

Outcome: TypeAlias = CallToolResult | InputRequiredResult
Run: TypeAlias = "Callable[[Context, CallToolRequestParams], Awaitable[Outcome]]"
Form: TypeAlias = Mapping[str, object]

PIXEL: Final = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
SOUND: Final = base64.b64encode(b"RIFF").decode()
NAME_FORM: Final[Form] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
COLOR_FORM: Final[Form] = {"type": "object", "properties": {"color": {"type": "string"}}, "required": ["color"]}
DEFAULTS: Final[Form] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "required": [],
}
OPTIONS: Final = ["option1", "option2", "option3"]
TITLED: Final = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
ENUMS: Final[Form] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    },
    "required": [],
}


def text_result(text: str, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=is_error)


def resource(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


def returning(*content: ContentBlock) -> Run:
    async def run(context: Context, params: CallToolRequestParams) -> Outcome:
        del context, params
        await trio.lowlevel.checkpoint()
        return CallToolResult(content=list(content))

    return run


async def fail(context: Context, params: CallToolRequestParams) -> Outcome:
    del context, params
    await trio.lowlevel.checkpoint()
    return text_result("This tool intentionally returns an error for testing", is_error=True)


async def report(context: Context, params: CallToolRequestParams) -> Outcome:
    del params
    for progress in (0, 50, 100):
        await context.session.report_progress(progress, 100)
    return text_result("done")


async def need_sampling(context: Context, params: CallToolRequestParams) -> Outcome:
    del params
    await trio.lowlevel.checkpoint()
    capabilities = context.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        data: Form = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(code=MISSING_REQUIRED_CLIENT_CAPABILITY, message="it needs sampling", data=data)
    return text_result("done")


def eliciting(form: Form) -> Run:
    """Return a tool of 2025-11-25 that shows *form*, with the message that it is called with."""

    async def run(context: Context, params: CallToolRequestParams) -> Outcome:
        message = str((params.arguments or {}).get("message", "please fill it in"))
        answer = await context.session.elicit_form(message, {**form}, context.request_id)
        return text_result(f"Elicitation completed: action={answer.action}, content={answer.content}")

    return run


def asking(*steps: tuple[str, str, Form], state: bool = False) -> Run:
    """Return a tool of 2026-07-28 that asks *steps* one after another; its *state* counts them, and is sealed."""

    async def run(context: Context, params: CallToolRequestParams) -> Outcome:
        del context
        await trio.lowlevel.checkpoint()
        number = int(params.request_state or 0)
        key, message, form = steps[number]
        answer = (params.input_responses or {}).get(key)
        if isinstance(answer, ElicitResult) and (not state or params.request_state is not None):
            number += 1
            if number == len(steps):
                return text_result(f"Hello, {(answer.content or {}).get('name', 'you')}! state-ok")
            key, message, form = steps[number]
        request = ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema={**form}))
        return InputRequiredResult(input_requests={key: request}, request_state=str(number) if state else None)

    return run


PERSON: Final[Form] = {
    "type": "object",
    "properties": {"username": {"type": "string"}, "email": {"type": "string"}},
    "required": ["username", "email"],
}
TEXT: Final = TextContent(text="This is a simple text response for testing.")
IMAGE: Final = ImageContent(data=PIXEL, mime_type="image/png")

TOOLS: Final[Mapping[str, Run]] = {
    "test_simple_text": returning(TEXT),
    "test_image_content": returning(IMAGE),
    "test_audio_content": returning(AudioContent(data=SOUND, mime_type="audio/wav")),
    "test_embedded_resource": returning(
        resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ),
    "test_multiple_content_types": returning(
        TextContent(text="Multiple content types test:"),
        IMAGE,
        resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ),
    "test_error_handling": fail,
    "test_tool_with_progress": report,
    "test_logging_tool": returning(TEXT),
    "test_missing_capability": need_sampling,
    "test_elicitation": eliciting(PERSON),
    "test_elicitation_sep1034_defaults": eliciting(DEFAULTS),
    "test_elicitation_sep1330_enums": eliciting(ENUMS),
    "test_streaming_elicitation": asking(("user_name", "What is your name?", NAME_FORM)),
    "test_input_required_result_elicitation": asking(("user_name", "What is your name?", NAME_FORM)),
    "test_input_required_result_multi_round": asking(
        ("step1", "Step 1: What is your name?", NAME_FORM),
        ("step2", "Step 2: What is your favorite color?", COLOR_FORM),
        state=True,
    ),
}

PROMPTING: Final = ("test_input_required_result_request_state", "test_input_required_result_tampered_state")
"""Tools that are `prompt` under another name: what they ask, and the state of it, are ours."""


def add_fixtures(server: Server[dict[str, object]]) -> None:
    """Give *server*, which has `prompt`, the tools of the suite too."""
    own_tools, own_call = (server.get_request_handler(f"tools/{name}") for name in ("list", "call"))
    assert own_tools is not None
    assert own_call is not None
    own_list, own = own_tools.handler, own_call.handler

    async def list_tools(context: Context, params: PaginatedRequestParams) -> ListToolsResult:
        listed = cast("ListToolsResult", await own_list(context, params))
        schema = {"type": "object", "properties": {}}
        names = (*TOOLS, *PROMPTING)
        # A scenario takes the first tool, and calls it without arguments
        more = [Tool(name=name, description=f"The fixture {name}.", input_schema=schema) for name in names]
        return ListToolsResult(tools=[*more, *listed.tools])

    async def call_tool(context: Context, params: CallToolRequestParams) -> Outcome:
        if params.name in TOOLS:
            return await TOOLS[params.name](context, params)
        if params.name in PROMPTING:
            params = params.model_copy(update={"name": "prompt", "arguments": {"text": "deploy"}})
        return cast("Outcome", await own(context, params))

    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", CallToolRequestParams, call_tool)
