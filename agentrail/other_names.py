"""What people write who know another library, and what it is called here: hints in errors are made from this one table.

The libraries are the OpenAI Agents SDK, Pydantic AI, and LangGraph with LangChain. `docs/coming-from` compares more.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_AGENT: Final = (
    'an agent is a `SessionSpec`, such as `SessionSpec(model="demo", tools=[…])`; '
    "`open_supervisor()` runs it: `session = await supervisor.spawn(spec)`, then `await session.ask(text)`"
)
_SESSION: Final = (
    "`session = await supervisor.spawn(spec)` gives a `SessionHandle`; each keeps its conversation by itself"
)
_TOOL: Final = "write `@tool`, from `agentrail`"
_CONTEXT: Final = "a tool takes `ctx: ToolContext[Deps]`, from `agentrail.tools`, and has its `ctx.deps`"
_TEST_MODEL: Final = 'write `ScriptedModel([…])`, from `agentrail.testing`, or `model="demo"`'
_RETRY: Final = "raise `ToolError(text)`, from `agentrail.errors`: the model gets the text and may call again"
_JOURNAL: Final = "sessions are kept by `open_supervisor(journal=SqliteJournal(path))`, from `agentrail.journals`"
_PLUGIN: Final = "write a plugin, with `before_prompt`, `before_tool` or `before_finish`; see `agentrail.plugins`"
_GRAPH: Final = "there is no graph: the model chooses each step, and plugins bound it (`coming-from/langgraph`)"
_MCP: Final = 'write `McpServer(["npx", "…"])` or `McpServer(url="https://…")`, from `agentrail.mcp`'
_ASK: Final = "use `session.ask(text)`"
_STREAM: Final = "write `async with session.stream(text) as turn:`, then `async for event in turn:`"
_FIXED: Final = "it is the same for all sessions; leave it out (`guide/limits` says how much it is)"
_MORE_CALLS: Final = (
    "it is the same for all sessions; leave it out: the model makes further calls in its next response "
    "(`max_parallel_tools` says how many run at once)"
)
_LONGEST_WAIT: Final = (
    "it is the same for all sessions; leave it out, and write `retry_base=…` or `max_retries=…` to wait less "
    "(`max_turn_seconds=…` bounds a whole turn)"
)
_GONE: Final = {
    **dict.fromkeys(("max_argument_chars", "max_argument_items", "tool_grace", "compact_timeout"), _FIXED),
    **dict.fromkeys(("retry_cap", "retry_after_cap"), _LONGEST_WAIT),
    "max_calls_per_response": _MORE_CALLS,
    "base": "write it in `system`, before the text of this agent; a sub-agent has a `system` of its own",
    "identity": "write it in `system`, after what the agent is for",
}
"""Options of sessions that are gone: most are constants now."""

_TEXT: Final = "the answer is `reply.text`; with `ask(…, returns=…)`, the object is what `ask` returns"
_TIME: Final = (
    "bound the wait by `with trio.fail_after(seconds):` or `async with asyncio.timeout(seconds):`, after which the "
    "turn goes on until `abort`, and the turn by `BudgetGuard(max_seconds=…)`"
)
_RETURNS: Final = "write `returns=…`"
_ROUNDS: Final = "write `SessionSpec(max_rounds=…)`: a turn here is all that follows a prompt"
_HISTORY: Final = "a session keeps its conversation by itself; `session.messages()` returns it"
_QUEUE: Final = "`session.queued()` returns the prompts that wait"
_ABORT: Final = "`await session.abort()` stops the turn, `await session.stop()` ends the session"
_SYSTEM: Final = "did you mean `system`?"
_USD: Final = "did you mean `max_usd`?"

_RESULT_TEXT: Final = "read the events to their end, then `turn.reply.text`"
_EVENT_CLASS: Final = "an event is told by its class: `match event:`, then `case MessageDelta(delta=text):`"
_NAME: Final = "did you mean `name`?"
_TOOL_NAME: Final = "did you mean `tool`?"
_ARGS: Final = "did you mean `args`?"
_CALL_ID: Final = "did you mean `call_id`?"
_APPROVAL_ID: Final = "did you mean `approval_id`? `approve` and `reject` take the event too"
_HOLD: Final = 'a plugin holds its calls: `plugins=[HumanApproval(tools=("…",))]`, from `agentrail.plugins`'
_SUBAGENT: Final = "write `SessionSpec(agents={…})`: the session calls the others by the tool `task`"

_DELTA: Final = "write `MessageDelta`, from `agentrail.events`: its text is `delta`"
_END: Final = "a turn ends with `AgentEnd` or `AgentAbort`, from `agentrail.events`; `session.stream` ends with it"
_WAIT: Final = "`await session.reply()` waits for the end of the open turn, and `session.ask(text)` for that of its own"
_LATER: Final = (
    "use `session.stream(text)`, or `session.prompt(text, command=id)` and later `session.ask(text, command=id)` for "
    "its reply"
)
_LOOP: Final = "write `async for event in turn:`, without a method"
_TOOL_START: Final = "write `ToolExecutionStart`, from `agentrail.events`"
_BUILT_IN: Final = "write `tools=standard_tools()`, from `agentrail.tools`"
_PROVIDER: Final = 'a model is given by its name: `SessionSpec(model="openai:…")`, `SessionSpec(model="anthropic:…")`'

_ASK_ARGUMENTS: Final = {
    **dict.fromkeys(("output_type", "response_format", "response_model", "result_type", "schema"), _RETURNS),
    **dict.fromkeys(("timeout", "max_seconds", "time_limit"), _TIME),
    **dict.fromkeys(("max_turns", "recursion_limit", "max_rounds"), _ROUNDS),
    **dict.fromkeys(("message_history", "history", "messages", "session", "thread_id"), _HISTORY),
    **dict.fromkeys(("context", "deps"), "give `SessionSpec(deps=…)`, which the tools of the session get"),
    **dict.fromkeys(("files", "images", "attachments"), "give them in the text: a list of `Text`, `Image` and `File`"),
    "model": "the model is one of the session: `SessionSpec(model=…)`, or `await session.switch_model(…)`",
    **dict.fromkeys(("prompt", "message", "input", "user_prompt", "query", "content"), "did you mean `text`?"),
    "stream": _STREAM,
}
_APPROVE_ARGUMENTS: Final = {
    **dict.fromkeys(("override_args", "edited_args", "arguments", "override_arguments"), _ARGS),
    **dict.fromkeys(("id", "call", "call_id", "tool_call_id"), "did you mean `approval_id`?"),
    "always_approve": "did you mean `always`?",
}
_REASON: Final = "did you mean `reason`?"
_CALL_FIELDS: Final = {
    **dict.fromkeys(("tool", "tool_name"), _NAME),
    **dict.fromkeys(("id", "tool_call_id"), _CALL_ID),
}
_ASKS: Final = ("run", "arun", "run_sync", "chat", "invoke", "ainvoke", "send_message", "query", "complete", "generate")
_STREAMS: Final = (
    "astream",
    "astream_events",
    "run_stream",
    "run_streamed",
    "run_stream_events",
    "stream_events",
    "events",
    "iter",
)

OTHER_NAMES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "agentrail": {
            **dict.fromkeys(("Agent", "AgentSpec", "AgentExecutor", "create_agent", "create_react_agent"), _AGENT),
            **dict.fromkeys(("AgentSession", "Session", "Thread", "Conversation", "AgentRun"), _SESSION),
            **dict.fromkeys(("function_tool", "FunctionTool", "Tool", "StructuredTool", "BaseTool"), _TOOL),
            **dict.fromkeys(("RunContext", "RunContextWrapper", "ToolRuntime", "InjectedState"), _CONTEXT),
            **dict.fromkeys(("TestModel", "FunctionModel", "FakeListChatModel", "GenericFakeChatModel"), _TEST_MODEL),
            **dict.fromkeys(("ModelRetry", "ToolException", "ToolRetryError"), _RETRY),
            **dict.fromkeys(
                ("SQLiteSession", "MemorySaver", "InMemorySaver", "SqliteSaver", "PostgresSaver"), _JOURNAL
            ),
            **dict.fromkeys(("StateGraph", "START", "END", "MessagesState", "Graph"), _GRAPH),
            **dict.fromkeys(("MCPServer", "MCPServerStdio", "MCPServerStreamableHttp", "MultiServerMCPClient"), _MCP),
            **dict.fromkeys(
                ("input_guardrail", "output_guardrail", "GuardrailFunctionOutput", "AgentMiddleware"), _PLUGIN
            ),
            **dict.fromkeys(
                ("ModelSettings", "init_chat_model", "ChatOpenAI"), 'write `model="openai:…", model_options={…}`'
            ),
            **dict.fromkeys(
                ("UsageLimits", "UsageLimitExceeded"), "write `plugins=[BudgetGuard(…)]`, from `agentrail.plugins`"
            ),
            "HumanInTheLoopMiddleware": "write `plugins=[HumanApproval(…)]`, from `agentrail.plugins`",
            "Runner": "`open_supervisor()` runs sessions; `agentrail.sync.run_sync(text, spec)` asks one question",
            **dict.fromkeys(("TextDelta", "TextDeltaEvent", "PartDeltaEvent", "TokenDelta"), _DELTA),
            **dict.fromkeys(("TurnEnd", "TurnEnded", "RunEnd", "FinalResultEvent"), _END),
            **dict.fromkeys(("ToolCallStart", "ToolStart", "FunctionToolCallEvent"), _TOOL_START),
            **dict.fromkeys(("AgentTool", "SubAgent", "Subagent", "subagent", "sub_agent"), _SUBAGENT),
            **dict.fromkeys(("read_file", "write_file", "edit_file", "grep", "shell"), _BUILT_IN),
            **dict.fromkeys(("OpenAIChatModel", "OpenAIModel", "AnthropicModel", "ChatAnthropic"), _PROVIDER),
            **dict.fromkeys(("FakeModel", "MockModel", "EchoModel"), _TEST_MODEL),
            "RunConfig": _AGENT,
            "AskedPrompt": _LATER,
            "Cue": "use `ScriptStep`, from `agentrail.testing`",
            "Stage": "use `SetUp`, from `agentrail.testing`",
            "Staged": "use `ModelSetup`, from `agentrail.testing`",
            "handoff": "write `SessionSpec(handoffs=[…])`",
            "interrupt": "a tool asks a person by `Effect(AskPerson(…))`, from `agentrail.tools`",
        },
        "SessionSpec": {
            **_GONE,
            **dict.fromkeys(
                ("instructions", "prompt", "system_message", "system_prompt", "system_instructions"), _SYSTEM
            ),
            **dict.fromkeys(("output_type", "result_type", "response_model"), "did you mean `returns`?"),
            **dict.fromkeys(("max_iterations", "max_steps", "recursion_limit"), "did you mean `max_rounds`?"),
            **dict.fromkeys(("deps_type", "context", "context_schema", "dependencies"), "did you mean `deps`?"),
            **dict.fromkeys(
                ("guardrails", "input_guardrails", "output_guardrails", "middleware", "hooks"),
                "did you mean `plugins`?",
            ),
            **dict.fromkeys(("model_settings", "settings"), "did you mean `model_options`?"),
            **dict.fromkeys(("mcp_servers", "toolsets", "functions"), "give them in `tools`"),
            **dict.fromkeys(("checkpointer", "journal", "memory_store", "session"), _JOURNAL),
            **dict.fromkeys(("sub_agents", "subagents"), "did you mean `agents`?"),
            **dict.fromkeys(("session_id", "id", "thread_id"), 'the id is given to `supervisor.spawn(spec, "…")`'),
            "llm": "did you mean `model`?",
        },
        "Options": _GONE,
        "BudgetGuard": {
            **dict.fromkeys(
                ("max_dollars", "dollars", "usd", "max_price", "max_spend", "max_cost", "max_cost_usd", "budget"), _USD
            ),
            **dict.fromkeys(("request_limit", "max_requests"), "did you mean `max_rounds`?"),
            **dict.fromkeys(("total_tokens_limit", "token_limit"), "did you mean `max_tokens`?"),
            **dict.fromkeys(("timeout", "max_time"), "did you mean `max_seconds`?"),
            "tool_calls_limit": "did you mean `max_calls`?",
        },
        "McpServer": {
            **dict.fromkeys(("args", "params", "cmd"), 'give one list: `McpServer(["npx", "…"])`'),
            "cwd": "did you mean `working_dir`?",
        },
        "ask": _ASK_ARGUMENTS,
        "prompt": _ASK_ARGUMENTS,
        "stream": _ASK_ARGUMENTS,
        "approve": _APPROVE_ARGUMENTS,
        "reject": {
            **_APPROVE_ARGUMENTS,
            **dict.fromkeys(("rejection_message", "message", "text", "feedback"), _REASON),
        },
        "spawn": {
            **dict.fromkeys(("name", "session_id", "thread_id"), "did you mean `id`?"),
            **dict.fromkeys(
                ("model", "tools", "plugins", "system", "instructions"),
                "it is a field of the specification: `SessionSpec(model=…, tools=[…])`",
            ),
        },
        "tool": {
            **dict.fromkeys(("needs_approval", "requires_approval", "approval", "require_confirmation"), _HOLD),
            "name_override": "did you mean `name`?",
            **dict.fromkeys(
                ("description", "description_override"), "the description is the first paragraph of the docstring"
            ),
            "max_retries": "did you mean `retries`? To have the model call again, raise `ToolError(text)`",
        },
        "as_tool": {
            "SessionSpec": "a sub-agent is given by its name: `SessionSpec(agents={…})`",
            "str": "tools for files, commands and web pages are `standard_tools()`, from `agentrail.tools`",
        },
        "TurnStream": {
            **dict.fromkeys((*_STREAMS, "stream_text", "stream_output", "stream_response"), _LOOP),
            **dict.fromkeys(
                ("text", "output", "final_output", "result", "get_output", "answer", "content"), _RESULT_TEXT
            ),
            **dict.fromkeys(
                ("messages", "usage", "held", "stop_reason", "all_messages"),
                "read the events to their end: `turn.reply` has it",
            ),
            **dict.fromkeys(("cancel", "abort", "close", "aclose"), _ABORT),
        },
        "Event": {
            **dict.fromkeys(("type", "kind", "event_type"), _EVENT_CLASS),
            **dict.fromkeys(("data", "item", "payload"), _EVENT_CLASS),
            "event": "the events of `stream` are in no envelope; write `match event:`",
        },
        "ApprovalRequired": {
            **dict.fromkeys(("id", "ref"), _APPROVAL_ID),
            **dict.fromkeys(("name", "tool_name"), _TOOL_NAME),
            **dict.fromkeys(("arguments", "input", "tool_input"), _ARGS),
        },
        "AskUser": {
            **dict.fromkeys(("id", "approval_id"), "did you mean `ref`?"),
            **dict.fromkeys(("text", "prompt"), "did you mean `question`?"),
        },
        "MessageDelta": dict.fromkeys(("text", "content"), "did you mean `delta`?"),
        "ThinkingDelta": dict.fromkeys(("text", "content", "thinking"), "did you mean `delta`?"),
        "ResponseComplete": dict.fromkeys(("text", "content"), "write `event.message.text`"),
        "ToolExecutionStart": {**_CALL_FIELDS, **dict.fromkeys(("arguments", "input", "tool_input"), _ARGS)},
        "ToolExecutionEnd": {
            **_CALL_FIELDS,
            **dict.fromkeys(("output", "result"), "did you mean `content`?"),
        },
        "AgentEnd": dict.fromkeys(("text", "output", "final_output", "result", "content"), _RESULT_TEXT),
        "SessionHandle": {
            **dict.fromkeys(_ASKS, _ASK),
            **dict.fromkeys(_STREAMS, _STREAM),
            **dict.fromkeys(("history", "all_messages", "new_messages", "get_state", "get_items", "memory"), _HISTORY),
            **dict.fromkeys(("queue", "pending", "prompts"), _QUEUE),
            **dict.fromkeys(("cancel", "interrupt", "close", "aclose", "kill", "end"), _ABORT),
            **dict.fromkeys(("output", "final_output"), "`reply = await session.ask(text)`, then `reply.text`"),
            "state": "`session.status()` says what it does, `session.inspect()` returns its whole state",
            **dict.fromkeys(("wait", "join", "wait_idle", "wait_until_idle", "collect_reply"), _WAIT),
            "on": "`async with session.subscribe() as events:` gives its events",
            "send": "each command has a method of its own: `abort`, `label`, `switch_model` and the others",
            "prompt_nowait": "use `session.prompt(text)`, which waits while 64 prompts are on their way",
            "ask_nowait": _LATER,
            "wake": "`session.resume()` wakes a session that sleeps, as any command does",
            "usage": "`session.status().usage`",
        },
        "Reply": {
            **dict.fromkeys(
                ("output", "final_output", "data", "content", "result", "response", "message", "structured_output"),
                _TEXT,
            ),
            **dict.fromkeys(
                ("all_messages", "new_messages", "to_input_list", "new_items", "history"), "`reply.messages` has them"
            ),
            **dict.fromkeys(("interruptions", "pending", "approvals"), "what waits for a person is in `reply.held`"),
            **dict.fromkeys(("finish_reason", "reason", "why"), "`reply.stop_reason` says it"),
            "cost": "`reply.usage.cost_usd`, in US dollars",
            "tool_calls": "the calls are in the assistant messages of `reply.messages`",
        },
        "Supervisor": {
            **dict.fromkeys(
                ("run", "create", "start", "new", "create_session", "agent"),
                "use `supervisor.spawn(spec)`, which starts a session",
            ),
            **dict.fromkeys(("get", "get_session"), "write `supervisor.session(id)`"),
        },
    }
)
"""What to write here, by what it is asked of (a module, a class, a function) and by the name that people try first."""


def hint_for(owner: str, name: str) -> str:
    """Return what to write here instead of *name*, which *owner* does not have; empty if the table does not say it."""
    return OTHER_NAMES.get(owner, {}).get(name, "")
