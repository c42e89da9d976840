"""A tool that changes the session's list of things to do: its result is an effect, which the session carries out.

Programs see the list as events, plugins and tools in `ctx.todos`. The model is told only that it was changed: show it
the list with a section of a plugin. `parallel=False` keeps two calls of one response apart: else both would add to the
list as it was before, and the second would undo the first.

    buy tea (pending)
    buy tea (pending), boil water (pending)
"""

from __future__ import annotations

import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.events import TodoChange
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import Effect, SetTodos, Todo, ToolContext


@tool(effect="idempotent", parallel=False)
async def add_todo(title: str, ctx: ToolContext) -> Effect:
    """Add a thing to do."""
    return Effect(SetTodos((*ctx.todos, Todo(title))))


async def main() -> None:
    """Let a model add two things, and listen to the list."""
    adds = say(calls=[call("add_todo", {"title": title}) for title in ("buy tea", "boil water")])
    spec = SessionSpec(model=ScriptedModel([adds, "Noted."]), tools=[add_todo])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        async with session.stream("How do I make tea?") as turn:
            async for event in turn:
                match event:
                    case TodoChange(todos=todos):
                        print(", ".join(f"{todo.text} ({todo.status})" for todo in todos))


trio.run(main)
