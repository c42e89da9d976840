"""The tools for sub-agents: `task`, `task_list`, `task_result` and `task_cancel`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, cast

from agentrail.ports.agents import Agents, Task
from agentrail.ports.tool import Tool, ToolContext
from agentrail.tools.bounds import Length
from agentrail.tools.builtin.workspace import refuse, shown, told
from agentrail.tools.function import tool
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.tools import Err, NotStarted, Ok, Probed, ToolResult, ToolSpec, ok

WAIT: Final = 300.0
"""The most seconds that `task_result` waits for an answer."""

MAX_SHOWN: Final = 200
"""The most characters of a task's description: a call with more is refused, and a list of tasks shows no more."""


class TaskTool:
    """The tool `task`: starts a sub-agent. Its description lists the sub-agents of the session."""

    def __init__(self, agents: Mapping[str, str], timeout: float) -> None:
        described, takes = _described(agents), _parameters(tuple(agents))
        self.spec = ToolSpec("task", described, takes, timeout=timeout, requires=frozenset({"agents"}))

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:
        """Run the sub-agent and return its answer, or start it in the background."""
        agents = agents_of(ctx)
        agent, description, prompt = (cast("str", args[name]) for name in ("agent", "description", "prompt"))
        if not args.get("background"):
            return await agents.run(ctx.call_id, agent, description, prompt)
        started = await agents.start(ctx.call_id, agent, description, prompt)
        if isinstance(started, Err):
            return started
        said = f"the task `{started.child}` runs in the background; `task_result` waits for its answer"
        return ok(said, freeze_object({"task": started.child}))

    async def probe(self, key: str) -> Probed:  # noqa: ARG002, ASYNC124 - the key is not needed, and tools are async
        """Return `NotStarted`, so that an interrupted call runs again.

        That is safe: if the first run had started a sub-agent, the second one finds it and waits for its answer.
        """
        return NotStarted()


def _described(agents: Mapping[str, str]) -> str:
    kinds = "\n".join(f"- {name}: {description}" for name, description in agents.items())
    return (
        "Have a sub-agent do a task, and get its answer. It knows nothing but what you tell it, so tell it everything "
        f"that it needs; calls side by side run side by side.\n\nThe agents:\n{kinds}"
    )


def _parameters(agents: tuple[str, ...]) -> JsonObject:
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
    return f"{task.child} ({task.agent}): {status}: {shown(task.description, MAX_SHOWN)}"


@tool(timeout=WAIT, effect="pure")
async def task_result(task: Annotated[str, Length(min=1, max=200)], ctx: ToolContext) -> Ok | Err:  # noqa: D417 - the model does not see `ctx`
    """Wait for a task in the background to end, and return its answer.

    Args:
        task: The id of the task.
    """
    with told():
        return await agents_of(ctx).result(task)


@tool(timeout=30, effect="idempotent")
async def task_cancel(task: Annotated[str, Length(min=1, max=200)], ctx: ToolContext) -> str:  # noqa: D417 - `ctx` is not shown
    """Stop a task, with everything that it has started.

    Args:
        task: The id of the task.
    """
    with told():
        await agents_of(ctx).cancel(task)
    return f"the task `{task}` has ended"


def task_tools(agents: Mapping[str, str], timeout: float) -> tuple[Tool, ...]:
    """Return the tools for sub-agents; *agents* maps their names to descriptions. None if there are no agents."""
    return (TaskTool(agents, timeout), task_list, task_result, task_cancel) if agents else ()
