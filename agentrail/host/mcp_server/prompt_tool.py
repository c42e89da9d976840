"""`prompt_server`: an MCP server with one tool, `prompt`, which says something to an agent and returns its answer.

A turn that waits for a person is asked about in the client: by `InputRequiredResult` from the protocol of 2026-07-28
on, by an elicitation before. The state of such a request is sealed, so that a client cannot change it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import trio
from mcp import MCPError
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types import (
    INVALID_PARAMS,
    CallToolResult,
    ElicitRequest,
    ElicitResult,
    InputRequiredResult,
    ListToolsResult,
    TextContent,
    Tool,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from agentrail.errors import AgentrailError
from agentrail.host.mcp_server.call_failed import CallFailedError
from agentrail.host.mcp_server.held_forms import HeldForm, decision, form_of, form_params, form_text
from agentrail.host.mcp_server.mcp_calls import McpCalls
from agentrail.values.events.tools import ToolExecutionStart
from agentrail.values.json import EMPTY, JsonObject
from agentrail.version import __version__

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams, ElicitRequestFormParams, PaginatedRequestParams

    Context = ServerRequestContext[dict[str, object]]

NAME: Final = "agentrail"
PROMPT: Final = "prompt"
STATE_SECONDS: Final = 3600.0
"""For how long an answer to a question is taken."""

ABORT_WITHIN: Final = 5.0
"""The most seconds for the abort of a turn whose call was cancelled."""

TOOL: Final = Tool(
    name=PROMPT,
    description="Say something to the agent, and get its answer. To go on with a conversation, give its session.",
    input_schema={
        "type": "object",
        "properties": {
            "text": {"type": "string", "minLength": 1, "description": "What to say."},
            "session": {"type": "string", "description": "`session` of an earlier answer; a new one if not given."},
        },
        "required": ["text"],
        "additionalProperties": False,
    },
)


class AskedTurn(NamedTuple):
    """The turn of a prompt."""

    session: str
    ref: str


def prompt_server(
    calls_of: Callable[[Context], McpCalls],
    keys: Sequence[bytes],
    principal: Callable[[Context], str | None],
    may_abort: Callable[[], bool],
) -> Server[dict[str, object]]:
    """Return the server. *calls_of* makes the calls of a request, *principal* says whose it is.

    *keys* seal the state of requests, the first one new ones; *may_abort* says whether a cancelled call ends its turn:
    not if all are cancelled, as the host ends.
    """
    tool = PromptTool(calls_of, may_abort)
    server: Server[dict[str, object]] = Server(
        NAME, version=__version__, on_list_tools=tool.list_tools, on_call_tool=tool.call_tool
    )
    security = RequestStateSecurity(keys=list(keys), ttl=STATE_SECONDS, bind_principal=principal)
    server.middleware.append(RequestStateBoundary(security, default_audience=NAME))
    return server


class PromptTool:
    """Carries out the requests about the tool `prompt`."""

    def __init__(self, calls_of: Callable[[Context], McpCalls], may_abort: Callable[[], bool]) -> None:
        self._calls_of = calls_of
        self._may_abort = may_abort

    async def list_tools(self, _context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        """Return the one tool that there is."""
        await trio.lowlevel.checkpoint()
        return ListToolsResult(tools=[TOOL])

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        """Prompt a session and return the answer of its turn, or what the client has to ask the person first."""
        if params.name != PROMPT:
            raise MCPError(code=INVALID_PARAMS, message=f"there is no tool {params.name!r}; there is `{PROMPT}`")
        try:
            return await self._call_result(context, self._calls_of(context), params)
        except CallFailedError as failure:
            return CallToolResult(content=[TextContent(text=str(failure))], is_error=True)

    async def _call_result(
        self, context: Context, calls: McpCalls, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Do what a request says, and tell the client meanwhile which tools start."""
        results: list[CallToolResult | InputRequiredResult | CallFailedError | MCPError] = []
        async with trio.open_nursery() as nursery:  # noqa: TID251 - the other task ends with the result
            try:
                results.append(await self._result(context, calls, params, nursery))
            except (CallFailedError, MCPError) as failure:  # not as a group of errors
                results.append(failure)
            nursery.cancel_scope.cancel()
        (result,) = results
        if isinstance(result, CallFailedError | MCPError):
            raise result
        return result

    async def _result(
        self, context: Context, calls: McpCalls, params: CallToolRequestParams, nursery: trio.Nursery
    ) -> CallToolResult | InputRequiredResult:
        if params.request_state is not None:
            turn, forms = _read_state(params.request_state)
            await nursery.start(_tell_progress, context, calls, turn.session)
            responses = params.input_responses or {}
            return await self._answered(context, calls, turn, {form: responses.get(form.id) for form in forms})
        text, session = _words(params.arguments or {})
        if not session:
            session = str((await calls.call("open_session", body={}))["session"])
        await nursery.start(_tell_progress, context, calls, session)
        # A prompt that was accepted has a turn: whoever cancels the call has to know which, to have it aborted
        # tests/host/mcp_server/test_prompt_tool.py
        accepted = EMPTY
        with trio.CancelScope(shield=True):
            accepted = await calls.call("prompt", session=session, body={"message": text})
        return await self._answered(context, calls, AskedTurn(session, str(accepted["ref"])))

    async def _answered(
        self, context: Context, calls: McpCalls, turn: AskedTurn, answers: Mapping[HeldForm, object] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Carry out *answers*, wait for the end of a turn, and have the client ask about what it waits for."""
        while True:
            refused = {} if answers is None else await _decide(calls, turn, answers)
            if refused is None:
                return _waiting(turn, [form.id for form in answers or ()])
            reply = await self._reply(calls, turn)
            held_calls = cast("Sequence[JsonObject]", reply["held"])
            if not held_calls:
                return _answer(turn, reply)
            ids = [str(held_call["id"]) for held_call in held_calls]
            for still_held in refused.keys() & set(ids):  # else it was decided elsewhere meanwhile
                raise refused[still_held]
            texts = {
                str(held_call["id"]): text for held_call in held_calls if (text := form_text(held_call)) is not None
            }
            capabilities = context.session.client_capabilities
            if not texts or capabilities is None or capabilities.elicitation is None:
                return _waiting(turn, ids)
            askable = [held_call for held_call in held_calls if held_call["id"] in texts]
            forms = [form_of(call) for call in askable]
            params = {str(call["id"]): form_params(call, texts[str(call["id"])]) for call in askable}
            if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
                requests = {name: ElicitRequest(params=form) for name, form in params.items()}
                state = json.dumps([*turn, forms])
                return InputRequiredResult(input_requests={**requests}, request_state=state)
            answers = {form: await _elicited(context, params[form.id]) for form in forms}

    async def _reply(self, calls: McpCalls, turn: AskedTurn) -> JsonObject:
        """Wait until a turn ends or waits for a person; abort it if the call of the client is cancelled."""
        try:
            return await calls.call("reply", session=turn.session, ref=turn.ref)
        except CallFailedError:
            raise
        # Cancelled, else the turn would go on for nobody; of two tasks in the call, both are, which is a group:
        # tests/host/mcp_server/test_prompt_tool.py::test_a_cancelled_call_aborts_its_turn
        except BaseException:
            if self._may_abort():
                # Else nothing is aborted, as this task is cancelled: tests/host/mcp_server/test_prompt_tool.py
                with trio.CancelScope(shield=True), trio.move_on_after(ABORT_WITHIN), suppress(CallFailedError):
                    body: JsonObject = {"reason": "cancelled by the MCP client", "turn": turn.ref}
                    await calls.call("abort", session=turn.session, body=body)
            raise


def _words(arguments: dict[str, object]) -> tuple[str, str]:
    """Return text and session in the *arguments*; raise `MCPError` if they do not fit."""
    text, session = arguments.get("text"), arguments.get("session", "")
    unknown = sorted(arguments.keys() - {"text", "session"})
    if not isinstance(text, str) or not text or not isinstance(session, str) or unknown:
        problem = f"`{PROMPT}` takes a `text` that is not empty, and a `session`, which is a text too"
        raise MCPError(code=INVALID_PARAMS, message=problem)
    return text, session


async def _tell_progress(
    context: Context, calls: McpCalls, session: str, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    """Tell the client of each tool that starts; it has said whether it wants to hear that."""
    count = 0
    async with AsyncExitStack() as entered:
        try:
            starts = await entered.enter_async_context(await calls.starts(session))
        except AgentrailError:  # it runs at another host, which tells nothing, or there is none
            task_status.started()
            return
        task_status.started()
        with suppress(AgentrailError):  # the session has ended
            async for envelope in starts:
                if isinstance(envelope.event, ToolExecutionStart):
                    count += 1
                    await context.session.report_progress(count, message=f"runs {envelope.event.name}")


async def _elicited(context: Context, form: ElicitRequestFormParams) -> ElicitResult:
    """Have the client show a form, over the connection of the request, and return the answer."""
    return await context.session.elicit_form(form.message, form.requested_schema, context.request_id)


async def _decide(
    calls: McpCalls, turn: AskedTurn, answers: Mapping[HeldForm, object]
) -> dict[str, CallFailedError] | None:
    """Have the host carry out what *answers* decide, and return what it has refused.

    `None` if all were given and decide nothing; where one lacks, the client is to be asked again.
    """
    refused: dict[str, CallFailedError] = {}
    decided = {
        form: decision(form, answer.action, answer.content)
        for form, answer in answers.items()
        if isinstance(answer, ElicitResult)
    }
    for form, call in decided.items():
        if call is not None:
            try:
                await calls.call(call[0], session=turn.session, body=call[1])
            except CallFailedError as failure:
                refused[form.id] = failure
    return refused if any(decided.values()) or len(decided) < len(answers) else None


def _read_state(state: str) -> tuple[AskedTurn, list[HeldForm]]:
    """Return what the state of a request says, which this server has sealed."""
    session, ref, forms = cast("tuple[str, str, list[list[str]]]", json.loads(state))
    return AskedTurn(session, ref), [HeldForm(*form) for form in forms]


def _answer(turn: AskedTurn, reply: JsonObject) -> CallToolResult:
    """Return the result for a turn that is over."""
    text = str(reply["text"])
    content = {"session": turn.session, "text": text, "stop_reason": reply["stop_reason"]}
    return CallToolResult(content=[TextContent(text=text or "(nothing was said)")], structured_content=content)


def _waiting(turn: AskedTurn, ids: Sequence[str]) -> CallToolResult:
    """Return the result for a turn that waits for what this client does not decide."""
    text = f"The turn waits for a decision or a result: {', '.join(ids)}. It goes on when somebody else has given it."
    content = {"session": turn.session, "text": "", "stop_reason": "held", "held": list(ids)}
    return CallToolResult(content=[TextContent(text=text)], structured_content=content)
