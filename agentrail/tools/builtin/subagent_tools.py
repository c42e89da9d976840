"""The tools for sub-agents, and for messages between them.

A parent has `task`, `task_list`, `task_result`, `task_wait`, `task_send` and `task_cancel`; agents that are to talk
have `message_send` and `message_wait`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, cast

from agentrail.ports.tool import Agents, Peers, Task, Tool, ToolContext
from agentrail.tools.bounds import Length, Range
from agentrail.tools.builtin.workspace import MAX_TEXT, cut_text, refuse, report_errors
from agentrail.tools.function import tool
from agentrail.values.argument_checks import checked
from agentrail.values.content import quoted
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.tools import Err, NotStarted, Ok, Probed, ToolResult, ToolSpec, ok, result_text

MAX_MESSAGE: Final = 20_000
"""The most characters of a message; a longer one is refused."""

MAX_WAIT: Final = 600
"""The most seconds that a call waits for messages or tasks."""

GRACE: Final = 60.0
"""Seconds between the end of the longest wait and the time limit of its tool, in which the call can answer."""


def peers_of(ctx: ToolContext) -> Peers:
    """Return the port for the messages of the call's session; raise `ToolError` if it has none."""
    return refuse("nobody has a message for this call") if ctx.peers is None else ctx.peers


@tool(timeout=30, effect="idempotent")
async def message_send(  # noqa: D417 - the model does not see `ctx`
    to: Annotated[str, Length(min=1, max=200)],
    message: Annotated[str, Length(min=1, max=MAX_MESSAGE)],
    ctx: ToolContext,
) -> str:
    """Send a message to an agent that works beside you; it reads it before its next step, and its work goes on.

    Args:
        to: The id of the agent.
        message: The message, with all that the agent must know.
    """
    with report_errors():
        await peers_of(ctx).send(ctx.call_id, to, message)
    return f"sent to `{to}`"


@tool(timeout=MAX_WAIT + GRACE, effect="pure")
async def message_wait(ctx: ToolContext, seconds: Annotated[int, Range(ge=1, le=MAX_WAIT)] = 60) -> str:  # noqa: D417 - `ctx` is not shown
    """Wait until a message for you has come, if you can do nothing without it.

    Args:
        seconds: How long to wait at most.
    """
    came = await peers_of(ctx).arrived(ctx.call_id, seconds)
    return "a message has come; it follows" if came else f"no message has come within {seconds} s"


def message_tools() -> tuple[Tool, ...]:
    """Return `message_send` and `message_wait`, for the `tools` of agents that are to exchange messages.

    An agent can only write to those of which the session that started it has given the address.
    """
    return (message_send, message_wait)


WAIT: Final = 300.0
"""The most seconds that `task_result` waits for an answer."""

MAX_PEERS: Final = 16
"""With how many tasks a new one may exchange messages."""

MAX_TASKS: Final = 32
"""For how many tasks one call of `task_wait` waits."""

MAX_SHOWN: Final = 200
"""The most characters of a task's description: a call with more is refused, and a list of tasks shows no more."""


class TaskTool:
    """The tool `task`: starts a sub-agent. Its description lists the sub-agents of the session."""

    def __init__(self, agents: Mapping[str, str], timeout: float, *, talk: bool = False) -> None:
        described, takes = _describe_agents(agents), _parameters(tuple(agents), talk=talk)
        self.spec = ToolSpec("task", described, takes, timeout=timeout, requires=frozenset({"agents"}))

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        """Run the sub-agent and return its answer, or start it in the background."""
        agents = agents_of(ctx)
        agent, description, prompt = (cast("str", args[name]) for name in ("agent", "description", "prompt"))
        peers = tuple(dict.fromkeys(cast("Sequence[str]", args.get("peers") or ())))
        if not args.get("background"):
            return await agents.run(ctx.call_id, agent, description, prompt, peers)
        started = await agents.start(ctx.call_id, agent, description, prompt, peers)
        if isinstance(started, Err):
            return started
        message = f"the task `{started.child}` runs in the background; `task_result` waits for its answer"
        return ok(message, freeze_object({"task": started.child}))

    async def probe(self, key: str) -> Probed:  # noqa: ARG002, ASYNC124 - the key is not needed, and tools are async
        """Return `NotStarted`, so that an interrupted call runs again.

        That is safe: if the first run had started a sub-agent, the second one finds it and waits for its answer.
        """
        return NotStarted()


def _describe_agents(agents: Mapping[str, str]) -> str:
    kinds = "\n".join(f"- {name}: {description}" for name, description in agents.items())
    return (
        "Have a sub-agent do a task, and get its answer. It knows nothing but what you tell it, so tell it everything "
        f"that it needs; calls side by side run side by side.\n\nThe agents:\n{kinds}"
    )


def _parameters(agents: tuple[str, ...], *, talk: bool) -> JsonObject:
    properties: dict[str, object] = {
        "agent": {"type": "string", "enum": list(agents), "description": "Which agent."},
        "description": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_SHOWN,
            "description": "The task in a few words, for whoever watches.",
        },
        "prompt": {"type": "string", "minLength": 1, "description": "The task, with all that the agent must know."},
        "background": {"type": "boolean", "description": "Do not wait for the answer; `task_result` gets it later."},
    }
    if talk:
        properties["peers"] = {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 200},
            "maxItems": MAX_PEERS,
            "description": "Ids of running tasks with which it may exchange messages.",
        }
    return freeze_object(
        {
            "type": "object",
            "properties": properties,
            "required": ["agent", "description", "prompt"],
            "additionalProperties": False,
        }
    )


def agents_of(ctx: ToolContext) -> Agents:
    """Return the port for the sub-agents of the call's session; raise `ToolError` if it has none."""
    return refuse("this session has no sub-agents") if ctx.agents is None else ctx.agents


@tool(timeout=10, effect="pure")
async def task_list(ctx: ToolContext) -> str:  # noqa: ASYNC124 - tools are async
    """List the tasks of sub-agents: those that run, and the last ones in the background that have ended."""
    return "\n".join(map(_line, agents_of(ctx).tasks())) or "there are none"


def _line(task: Task) -> str:
    status = "waits for a person" if task.status == "waiting" else task.status
    return f"{task.child} ({task.agent}): {status}: {cut_text(task.description, MAX_SHOWN)}"


@tool(timeout=WAIT, effect="pure")
async def task_result(task: Annotated[str, Length(min=1, max=200)], ctx: ToolContext) -> Ok | Err:  # noqa: D417 - the model does not see `ctx`
    """Wait for a task in the background to end, and return its answer.

    Args:
        task: The id of the task.
    """
    with report_errors():
        return await agents_of(ctx).result(task)


@tool(timeout=MAX_WAIT + GRACE, effect="pure")
async def task_wait(  # noqa: D417 - the model does not see `ctx`
    tasks: Annotated[list[Annotated[str, Length(min=1, max=200)]], Length(min=1, max=MAX_TASKS)],
    ctx: ToolContext,
    until: Literal["all", "any"] = "all",
    seconds: Annotated[int, Range(ge=1, le=MAX_WAIT)] = 300,
) -> Ok:
    """Wait for several tasks in the background, and get the answers of those that have ended by then.

    Args:
        tasks: The ids of the tasks.
        until: Wait for all of them, or for any one.
        seconds: How long to wait at most.
    """
    agents = agents_of(ctx)
    children = tuple(dict.fromkeys(tasks))
    with report_errors():
        answers = await agents.wait(ctx.call_id, children, seconds, every=until == "all")
    running = {task.child: task for task in agents.tasks()}
    most = MAX_TEXT // len(children)
    lines = [
        _answer(child, answers[child], most) if child in answers else _line(running[child])
        for child in children
        if child in answers or child in running
    ]
    ended = freeze_object({"ended": list(answers)})
    return ok("\n".join(lines), ended)


def _answer(child: str, answer: Ok | Err, most: int) -> str:
    """Return the answer of a task, cut to *most* characters and marked, so that it cannot pass for that of another."""
    how = "failed" if isinstance(answer, Err) else "done"
    return f"{child}: {how}:\n{cut_text(quoted(result_text(answer)), most)}"


@tool(timeout=30, effect="idempotent")
async def task_send(  # noqa: D417 - `ctx` is not shown
    task: Annotated[str, Length(min=1, max=200)],
    message: Annotated[str, Length(min=1, max=MAX_MESSAGE)],
    ctx: ToolContext,
) -> str:
    """Send a message to a running task, which reads it before its next step; its work goes on.

    Args:
        task: The id of the task.
        message: The message, with all that the agent must know.
    """
    with report_errors():
        await agents_of(ctx).tell(f"{ctx.session_id}/{ctx.call_id}", task, message)
    return f"sent to `{task}`"


@tool(timeout=30, effect="idempotent")
async def task_cancel(task: Annotated[str, Length(min=1, max=200)], ctx: ToolContext) -> str:  # noqa: D417 - `ctx` is not shown
    """Stop a task, with everything that it has started.

    Args:
        task: The id of the task.
    """
    with report_errors():
        await agents_of(ctx).cancel(task)
    return f"the task `{task}` has ended"


@checked
def task_tools(agents: Mapping[str, str], timeout: float, *, talk: bool = False) -> tuple[Tool, ...]:
    """Return the tools for sub-agents; *agents* maps names to descriptions. Return no tools if there are no agents.

    *talk* is whether some of them can exchange messages.
    """
    if not agents:
        return ()
    return (TaskTool(agents, timeout, talk=talk), task_list, task_result, task_wait, task_send, task_cancel)
