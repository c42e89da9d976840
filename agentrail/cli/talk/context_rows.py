"""`context_rows`: what the context of a session has in it, for a person: how much of the window each kind takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from agentrail.api.views import ContextView
from agentrail.cli.output.screen import clipped, columns, one_line
from agentrail.cli.talk.file_names import without_files
from agentrail.cli.talk.rendering import rounded
from agentrail.values.content import Text
from agentrail.values.messages import Message, UserMessage, size_of
from agentrail.values.stream import tokens

NAMES: Final[Mapping[str, str]] = {
    "system": "system prompt",
    "skills": "skills",
    "memory": "memory files",
    "tools": "tools",
    "history": "conversation",
    "dynamic": "added by plugins",
}
"""What the layers of a context are called here."""

BAR: Final = 20
"""Columns of the bar of a window that is full."""

MOST_NAMED: Final = 5
"""The most memory files that are named, the largest ones."""

NAME_WIDTH: Final = 40
"""The most columns of the name of a memory file."""


def context_rows(context: ContextView, model: str, messages: Iterable[Message], memory: Mapping[str, int]) -> list[str]:
    """Return the rows about a *context*: its kinds with their tokens, and what is free.

    *messages* are those of the conversation, of which files that prompts name are told by themselves, and *memory* has
    the tokens of each memory file.
    """
    file_tokens = sum(map(_file_tokens, messages))
    amounts = dict[str, int]()
    for layer in context.layers:
        name = NAMES.get(layer.name, layer.name)
        if layer.name == "history" and file_tokens:
            in_files = min(file_tokens, layer.tokens)
            amounts["files"] = in_files
            amounts[name] = layer.tokens - in_files
        else:
            amounts[name] = layer.tokens
    rows = [_row(name, amount, context.window) for name, amount in amounts.items()]
    after = next((number for number, name in enumerate(amounts, 1) if name == NAMES["memory"]), len(rows))
    rows[after:after] = _memory_rows(memory)
    assumed = ", which is assumed" if context.is_assumed else ""
    return [
        f"  about {rounded(context.tokens)} tokens, of the {rounded(context.window)} of {one_line(model)}{assumed}",
        *rows,
        _row("free", max(context.window - context.tokens, 0), context.window),
        f"  above {rounded(context.compact_at)} the conversation is made shorter; /compact does it now",
    ]


def _row(name: str, amount: int, window: int) -> str:
    share = amount / max(window, 1)
    bar = "█" * round(BAR * min(share, 1)) or ("▏" if amount else "")
    percent = "< 1" if 0 < share < 0.01 else f"{100 * share:.0f}"  # noqa: PLR2004 - a percent
    return f"    {name:<18}{rounded(amount):>8}  {percent:>3} %  {bar}".rstrip()


def _memory_rows(memory: Mapping[str, int]) -> Sequence[str]:
    """Return the rows of the largest memory files."""
    largest = sorted(memory.items(), key=lambda file: -file[1])[:MOST_NAMED]
    rows: list[str] = []
    for path, amount in largest:
        name = clipped(one_line(path), NAME_WIDTH)
        rows.append(f"      {name}{' ' * (NAME_WIDTH - columns(name))} {rounded(amount):>8}")
    return [*rows, *([f"      … {len(memory) - len(rows)} more"] if len(memory) > len(rows) else [])]


def _file_tokens(message: Message) -> int:
    """Return about how many tokens the files of a prompt take: their texts, pictures and other parts."""
    if not isinstance(message, UserMessage):
        return 0
    text = "".join(part.text for part in message.parts if isinstance(part, Text))
    others = message.but(parts=tuple([part for part in message.parts if not isinstance(part, Text)]))
    return tokens(len(text) - len(without_files(text)) + size_of(others))
