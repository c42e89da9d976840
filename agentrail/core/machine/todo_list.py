"""Tells the model its to-do list again, when a compaction has removed it from the messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentrail.core.machine.draft import StepDraft
from agentrail.values.json import freeze
from agentrail.values.messages import AssistantMessage, Message
from agentrail.values.tools import Todo

TODOS: Final = "todos"
"""The argument of `write_todos` that has the list."""

HEAD: Final = "Your to-do list is still there, as you wrote it last:"


def tell_todos(draft: StepDraft, messages: Sequence[Message]) -> None:
    """Tell the model its to-do list with the next request, unless the *messages* kept by a compaction show it."""
    state = draft.state
    if not state.todos:
        return
    notice = as_text(state.todos)
    others = tuple([other for other in state.notices if not other.startswith(HEAD)])  # from an earlier compaction
    state.notices = others if _is_shown(state.todos, notice, messages) else (*others, notice)


def as_text(todos: Sequence[Todo]) -> str:
    """Return the notice with *todos*, one line each."""
    return "\n".join([HEAD, *[f"- [{todo.status}] {' '.join(todo.text.split())}" for todo in todos]])


def _is_shown(todos: Sequence[Todo], notice: str, messages: Sequence[Message]) -> bool:
    """Whether the latest list in *messages*, in a call or a notice, is *todos*."""
    todos_json = freeze([{"text": todo.text, "status": todo.status} for todo in todos])
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            for call in reversed(message.calls):
                if TODOS in call.args:
                    return call.args[TODOS] == todos_json
        elif HEAD in message.text:
            return notice in message.text
    return False
