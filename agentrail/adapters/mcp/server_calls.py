"""Requests that tool calls make of an MCP server: sent again while it puts them off, until it answers or asks a person.

Reading a resource or a prompt is such a request too, and what it has becomes the parts of a result.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Protocol, TypeAlias, cast

import attrs
import trio
from mcp import Client, MCPError
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import (
    URL_ELICITATION_REQUIRED,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    ElicitationRequiredErrorData,
    EmbeddedResource,
    GetPromptRequest,
    GetPromptRequestParams,
    GetPromptResult,
    InputRequiredResult,
    InputResponses,
    ReadResourceRequest,
    ReadResourceRequestParams,
    ReadResourceResult,
)
from pydantic import Discriminator, Tag, TypeAdapter, ValidationError

from agentrail.adapters.mcp.asked_back import ACCEPT, AskedBack
from agentrail.adapters.mcp.listings import list_resources
from agentrail.errors import ToolError
from agentrail.values.json import JsonObject
from agentrail.values.tools import EffectClass

FIRST_PAUSE: Final = 0.05
"""Seconds until a request that the server has put off is sent again; doubled each time."""

MAX_PAUSE: Final = 1.0
"""The most seconds between two such requests."""

MAX_ROUNDS: Final = 20
"""How often one request is sent while the server puts it off without a question."""


Method: TypeAlias = Literal["tools/call", "resources/read", "resources/list", "prompts/get"]


@attrs.frozen
class ServerCall:
    """One request to a server, of a tool call of the session."""

    name: str
    """Name of the tool or prompt at the server; for `resources/read`, the URI of the resource."""
    args: JsonObject
    """Arguments of the call."""
    effect: EffectClass
    """What happens if the call is repeated."""
    call_id: str
    """Id of the call in the session."""
    turn: int
    """Number of the session's turn."""
    on_progress: ProgressFnT
    """Function that gets reports of progress."""
    questions: AskedBack | None = None
    """What a person has answered to the server's questions; `None` if it has asked none."""
    method: Method = "tools/call"
    """Method of the protocol."""


class ServerCalls(Protocol):
    """Function that sends a call to the connected server (`Connection.call`)."""

    async def __call__(self, call: ServerCall) -> CallToolResult | AskedBack:
        """Return the server's answer, or what it asks a person; raise `ToolError` to tell the model of a failure."""
        ...


Answer: TypeAlias = CallToolResult | ReadResourceResult | GetPromptResult | InputRequiredResult


def _kind_of(answer: object) -> str:
    fields = cast("dict[str, object]", answer) if isinstance(answer, dict) else {}
    if fields.get("resultType") == "input_required":
        return "asks"
    if "messages" in fields:
        return "messages"
    return "contents" if "contents" in fields else "result"


ANSWER: Final[TypeAdapter[Answer]] = TypeAdapter(
    Annotated[
        Annotated[CallToolResult, Tag("result")]
        | Annotated[ReadResourceResult, Tag("contents")]
        | Annotated[GetPromptResult, Tag("messages")]
        | Annotated[InputRequiredResult, Tag("asks")],
        Discriminator(_kind_of),
    ]
)
"""Reads what a server answers: a result, the contents of a resource, a prompt, or that it wants something first."""


async def send(client: Client, server: str, call: ServerCall) -> CallToolResult | AskedBack:
    """Send *call* to the *server*, again while it puts it off; return its result, or the questions to a person."""
    if call.method == "resources/list":
        return await list_resources(client)
    questions, pause = call.questions, FIRST_PAUSE
    if questions is not None and questions.how == "pages":
        if any(result.action != ACCEPT for result in questions.responses.values()):
            problem = f"the MCP server `{server}` wants a page opened first, and the person declined"
            raise ToolError(problem)
        questions = None
    elif questions is not None and questions.how == "sign_in":
        questions = None
    for _ in range(MAX_ROUNDS):
        try:
            answer = await client.session.send_request(
                _request(call, questions), ANSWER, progress_callback=call.on_progress
            )
        except MCPError as error:
            if error.code != URL_ELICITATION_REQUIRED:
                raise
            return _pages_first(error)
        if not isinstance(answer, InputRequiredResult):
            return _result(answer)
        questions = AskedBack.by(answer)
        if questions.requests:
            return questions
        await trio.sleep(pause)
        pause = min(pause * 2, MAX_PAUSE)
    problem = f"the MCP server `{server}` put the call off {MAX_ROUNDS} times, so it was given up"
    raise ToolError(problem)


def _request(call: ServerCall, questions: AskedBack | None) -> CallToolRequest | ReadResourceRequest | GetPromptRequest:
    """Return the request of *call*, with the answers to *questions* and the state that came with them."""
    responses: InputResponses | None = None
    if questions is not None and questions.responses:
        responses = {**questions.responses}
    state = None if questions is None else questions.request_state
    if call.method == "resources/read":
        return ReadResourceRequest(
            params=ReadResourceRequestParams(uri=call.name, input_responses=responses, request_state=state)
        )
    if call.method == "prompts/get":
        texts = {name: str(value) for name, value in call.args.items()}
        return GetPromptRequest(
            params=GetPromptRequestParams(
                name=call.name, arguments=texts, input_responses=responses, request_state=state
            )
        )
    params = CallToolRequestParams(
        name=call.name, arguments=dict(call.args), input_responses=responses, request_state=state
    )
    return CallToolRequest(params=params)


def _result(answer: CallToolResult | ReadResourceResult | GetPromptResult) -> CallToolResult:
    if isinstance(answer, CallToolResult):
        return answer
    if isinstance(answer, GetPromptResult):
        return CallToolResult(content=[message.content for message in answer.messages])
    return CallToolResult(content=[EmbeddedResource(type="resource", resource=part) for part in answer.contents])


def _pages_first(error: MCPError) -> AskedBack:
    """Return the pages that a person has to open before the call can be made, which *error* of a server lists."""
    try:
        pages = ElicitationRequiredErrorData.model_validate(error.data).elicitations
    except ValidationError:
        raise error from None
    return AskedBack(requests={str(number): page for number, page in enumerate(pages)}, how="pages")
