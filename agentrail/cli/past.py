"""What was said in a session before, as a person sees it who comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentrail.cli.rendering import LONG, SHORT, shown_args
from agentrail.cli.screen import ScreenText, Tone, clipped, line, one_line
from agentrail.values.content import Thinking
from agentrail.values.messages import AssistantMessage, Message, UserMessage

MOST_SHOWN: Final = 12
"""The most messages that are shown, the last ones."""


def past_of(messages: Sequence[Message]) -> tuple[ScreenText, ...]:
    """Return the last of *messages* as pieces for the screen, as they looked when they were new."""
    left_out = max(len(messages) - MOST_SHOWN, 0)
    first = (line(f"  ({left_out} earlier messages)", Tone.DIM),) if left_out else ()
    return (*first, *(piece for message in messages[left_out:] for piece in _pieces(message)))


def prompts_in(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return the texts of all user messages, the oldest first."""
    return tuple([message.text for message in messages if isinstance(message, UserMessage)])


def thoughts_in(message: AssistantMessage) -> str:
    """Return the model's thoughts in *message*, as one text."""
    return "\n\n".join(part.text for part in message.parts if isinstance(part, Thinking))


def _pieces(message: Message) -> tuple[ScreenText, ...]:
    match message:
        case UserMessage():
            return (line(f"> {clipped(one_line(message.text), LONG)}", Tone.BOLD),)
        case AssistantMessage():
            calls = tuple(line(f"  → {call.name} {shown_args(call.args)}".rstrip()) for call in message.calls)
            text = message.text.strip()
            return (*((line(text),) if text else ()), *calls, *(() if calls else (line(""),)))
        case _:
            mark, tone = ("✗", Tone.BAD) if message.is_error else ("✓", Tone.GOOD)
            return (line(f"  {mark} {message.name}: {clipped(one_line(message.text), SHORT)}", tone),)
