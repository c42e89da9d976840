"""Compaction without a model: drop the oldest whole rounds, and put a notice in their place."""

from __future__ import annotations

from collections.abc import Sequence

from agentrail.values.content import Text
from agentrail.values.messages import Message, Origin, ToolMessage, UserMessage, size_of


def rounds(messages: Sequence[Message]) -> list[list[Message]]:
    """Split *messages* into groups: tool results stay with the message before them, any other begins a group."""
    found: list[list[Message]] = []
    for message in messages:
        if isinstance(message, ToolMessage) and found:
            found[-1].append(message)
        else:
            found.append([message])
    return found


def drop_oldest_rounds(messages: Sequence[Message], keep: int) -> tuple[tuple[Message, ...], int, str]:
    """Drop the oldest rounds until about *keep* characters are left; return messages, number dropped, and a note.

    The last user message with text and everything after it always stay: the model is working on them.
    """
    groups = rounds(messages)
    sizes = [sum(size_of(message) for message in group) for group in groups]
    total = sum(sizes)
    last_prompt = max(
        (place for place, group in enumerate(groups) if _is_prompt(group[0])),
        default=len(groups) - 1,
    )
    first = 0
    while first < last_prompt and total > keep:
        total -= sizes[first]
        first += 1
    first = _after_results_of_nobody(groups, first)
    gone = sum(len(group) for group in groups[:first])
    if not gone:
        return tuple(messages), 0, "nothing could be dropped: the newest prompt and what followed it must stay"
    note = f"{gone} older messages were dropped to make room"
    notice = UserMessage((Text(f"[{note}]"),), Origin.NOTICE)
    return (notice, *(message for group in groups[first:] for message in group)), gone, note


def _is_prompt(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin is Origin.PROMPT


def _after_results_of_nobody(groups: list[list[Message]], first: int) -> int:
    """Return the place of the first group from *first* on that does not begin with a result whose call is dropped."""
    while first < len(groups) and isinstance(groups[first][0], ToolMessage):
        first += 1
    return first
