"""The tools `write_todos` and `ask_user`: they return effects, which the session carries out."""

from __future__ import annotations

from typing import Annotated, Literal

from typing_extensions import TypedDict

from agentrail.tools.bounds import Length
from agentrail.tools.function import tool
from agentrail.values.tools import AskPerson, Effect, SetTodos, Todo


class Item(TypedDict):
    """One thing to do.

    Attributes:
        text: What is to be done.
        status: How far it is.
    """

    text: Annotated[str, Length(min=1, max=500)]
    status: Literal["pending", "in_progress", "done"]


@tool(timeout=10, effect="idempotent")
async def write_todos(todos: Annotated[list[Item], Length(max=100)]) -> Effect:  # noqa: ASYNC124 - tools are async
    """Replace the list of things to do; use it to plan work of several steps, and keep it up to date.

    Args:
        todos: The whole new list, in order.
    """
    return Effect(SetTodos(tuple(Todo(item["text"], item["status"]) for item in todos)))


@tool(timeout=10, effect="idempotent")
async def ask_user(  # noqa: ASYNC124 - tools are async
    question: Annotated[str, Length(min=1, max=4000)],
    options: Annotated[list[Annotated[str, Length(min=1, max=500)]], Length(max=20)] | None = None,
) -> Effect:
    """Ask the person something that only they can decide, and wait for the answer.

    Args:
        question: The question.
        options: Answers to choose from; without any, the answer is free text.
    """
    return Effect(AskPerson(question, tuple(options or ())))
