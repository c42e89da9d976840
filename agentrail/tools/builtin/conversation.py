"""The tools `write_todos`, `ask_user`, `compact_conversation` and `read_history`: their effects are the session's."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from typing_extensions import TypedDict

from agentrail.core.compaction import lines_of
from agentrail.errors import ToolError
from agentrail.ports.tool import MESSAGES_PER_RECORD, PastMessage, ToolContext
from agentrail.tools.bounds import Length, Range
from agentrail.tools.function import tool
from agentrail.values.messages import Message
from agentrail.values.tools import AskPerson, CompactNow, Effect, SetTodos, Todo


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


MAX_SHOWN: Final = 20_000
"""The most characters of messages that one call shows."""

MAX_OF_A_MESSAGE: Final = 4_000
"""The most characters that are shown of one text of a message."""

MAX_MESSAGES: Final = 50
"""The most messages that one call shows."""


NUMBER: Final = re.compile(r"\[?\s*([0-9]{0,12})(?:\.([0-9]{1,6}))?\s*\]?")
"""The number of a message, as it is shown: the number of its record, and its place there, if that is not the first."""


@tool(timeout=10, effect="idempotent")
async def compact_conversation(  # noqa: ASYNC124 - tools are async
    reason: Annotated[str, Length(max=500)] = "asked by the model",
) -> Effect:
    """Make room in your context: older messages are replaced by a summary before you go on.

    Args:
        reason: Why, for those who watch.
    """
    return Effect(CompactNow(reason or "asked by the model"))


@tool(timeout=60, effect="pure", max_result_chars=30_000)
async def read_history(  # noqa: D417 - the model does not see `ctx`
    ctx: ToolContext,
    first: Annotated[str, Length(max=30)] = "",
    search: Annotated[str, Length(max=500)] = "",
    count: Annotated[int, Range(ge=1, le=MAX_MESSAGES)] = MAX_MESSAGES,
) -> str:
    """Read messages of this conversation as they were said, also those that have left your context.

    Args:
        first: Number of the first message to show, as it is shown in brackets: 12 or 12.3; without it, the oldest one.
        search: Show only messages with this text, whatever its case; without it, all.
        count: How many messages to show, 50 at most.
    """
    if ctx.past is None:
        problem = "there is no conversation to read: this call is of no session"
        raise ToolError(problem)
    word = search.casefold()

    def has_word(message: Message) -> bool:
        return word in "\n".join(lines_of(message)).casefold()

    messages = await ctx.past.messages(_number(first) - 1, count + 1, has_word if word else None)
    return _show_messages(messages, count, search)


def _number(text: str) -> int:
    """Return the number of a message from its shown form, such as `12.3`; 1 for an empty text."""
    match = NUMBER.fullmatch(text)
    if match is None:
        problem = f"first={text!r} is no number of a message; give one as it is shown in brackets, such as 12 or 12.3"
        raise ToolError(problem)
    return int(match[1] or 0) * MESSAGES_PER_RECORD + int(match[2] or 0) or 1


def _number_text(number: int) -> str:
    record, index = divmod(number, MESSAGES_PER_RECORD)
    return f"{record}.{index}" if index else str(record)


def _show_messages(messages: tuple[PastMessage, ...], count: int, search: str) -> str:
    """Return the messages as text; if there are more, with advice on how to read on."""
    if not messages:
        return f"no message has {search!r} from there on" if search else "there are no messages from there on"
    lines: list[str] = []
    room = MAX_SHOWN
    for number, message in messages[:count]:
        shown_lines = [f"[{_number_text(number)}] {line}" for line in lines_of(message, MAX_OF_A_MESSAGE)]
        room -= sum(map(len, shown_lines))
        if room < 0 and lines:
            return "\n".join([*lines, f"[there is more: go on with first={_number_text(number)}]"])
        lines += [line[:MAX_SHOWN] for line in shown_lines]
    if len(messages) > count:
        lines.append(f"[there is more: go on with first={_number_text(messages[count].number)}]")
    return "\n".join(lines)
