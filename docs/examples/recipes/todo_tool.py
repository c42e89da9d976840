"""A tool that changes the session's list of things to do: its result is an effect, which the session carries out.

Programs see the list as events, plugins in `ctx.todos`, and the model in its system prompt.

    buy tea (pending)
    buy tea (pending), boil water (pending)
"""

from __future__ import annotations

import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.events import AgentAbort, AgentEnd, TodoChange
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Effect, SetTodos, Todo, ToolContext


@tool(effect="idempotent")
async def add_todo(title: str, ctx: ToolContext) -> Effect:
    """Add a thing to do."""
    return Effect(SetTodos((*ctx.todos, Todo(title))))


async def main() -> None:
    """Let a model add two things, and listen to the list."""
    adds = [say(calls=[call("add_todo", {"title": title})]) for title in ("buy tea", "boil water")]
    spec = SessionSpec(model=ScriptedModel([*adds, "Noted."]), tools=[add_todo])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        async with session.subscribe(types=[TodoChange, AgentEnd]) as events:
            await session.prompt("How do I make tea?")
            async for envelope in events:
                match envelope.event:
                    case TodoChange(todos=todos):
                        print(", ".join(f"{todo.text} ({todo.status})" for todo in todos))
                    case AgentEnd() | AgentAbort():
                        break


trio.run(main)
