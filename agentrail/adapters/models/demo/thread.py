"""The thread of a conversation: the newest instruction, and what was done about it since."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentrail.adapters.models.demo.tool_kinds import kind_of
from agentrail.adapters.models.demo.understanding import DemoStep, steps_of
from agentrail.values.content import Text, ToolCall
from agentrail.values.messages import AssistantMessage, Message, Origin, ToolMessage, UserMessage
from agentrail.values.value import Value, value

_NUMBERED = re.compile(r"demo-(\d+)")


@value
class Thread(Value):
    """Where a conversation stands."""

    steps: tuple[DemoStep, ...] = ()
    """What is still to be done of the newest instruction."""
    results: tuple[ToolMessage, ...] = ()
    """The results that the model has not spoken about, or was cut off when it did."""
    begun: bool = False
    """Whether the instruction was answered, at least in part."""
    next_id: str = "demo-1"
    """The id of the next call: no call of the conversation has it."""


def thread_of(messages: Sequence[Message]) -> Thread:
    """Return where *messages* stand.

    Prompts and steering are instructions, the newest counts. What the session says for its plugins is none.
    """
    instruction, since = _since_instruction(messages)
    answers = [message for message in since if isinstance(message, AssistantMessage)]
    finished = bool(answers) and not answers[-1].calls and not answers[-1].interrupted
    calls = [call for message in answers for call in message.calls]
    return Thread(
        () if finished else _behind(steps_of(instruction), calls),
        _unspoken(since),
        finished or bool(calls),
        f"demo-{_last_number(messages) + 1}",
    )


def _since_instruction(messages: Sequence[Message]) -> tuple[str, list[Message]]:
    since: list[Message] = []
    for message in reversed(messages):
        if isinstance(message, UserMessage) and message.origin in {Origin.PROMPT, Origin.STEERING}:
            texts = [part.text for part in message.parts if isinstance(part, Text)]
            return "\n".join(texts), since[::-1]
        since.append(message)
    return "", since[::-1]


def _unspoken(since: Sequence[Message]) -> tuple[ToolMessage, ...]:
    found: list[ToolMessage] = []
    for message in reversed(since):
        if isinstance(message, ToolMessage):
            found.append(message)
        elif isinstance(message, AssistantMessage) and (message.calls or not message.interrupted):
            break
    return tuple(found[::-1])


def _behind(steps: tuple[DemoStep, ...], calls: Sequence[ToolCall]) -> tuple[DemoStep, ...]:
    """Return the *steps* behind those that *calls* were made for; a step that needed no call is passed with them."""
    for call in calls:
        kind = kind_of(call.name)
        done = next((index for index, step in enumerate(steps) if kind is not None and step.kind is kind), 0)
        steps = steps[done + 1 :]
    return steps


def _last_number(messages: Sequence[Message]) -> int:
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            for call in reversed(message.calls):
                if numbered := _NUMBERED.fullmatch(call.provider_id):
                    return int(numbered[1])
    return 0
