"""Finds in a conversation the user's newest instruction, and which of its steps are not done yet."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentrail.adapters.models.demo.tool_kinds import kind_of
from agentrail.adapters.models.demo.understanding import DemoStep, steps_of
from agentrail.values.content import Text, ToolCall
from agentrail.values.messages import AssistantMessage, Message, Origin, ToolMessage, UserMessage
from agentrail.values.value import Value

_NUMBERED = re.compile(r"demo-(\d+)")


class Thread(Value):
    """How far the demo model has got with the user's newest instruction."""

    steps: tuple[DemoStep, ...] = ()
    """The steps of the newest instruction that are not done yet."""
    results: tuple[ToolMessage, ...] = ()
    """The tool results that no complete answer of the model has reported yet."""
    begun: bool = False
    """Whether the model has called a tool for the instruction, or finished it."""
    next_id: str = "demo-1"
    """The id for the next tool call; no call of the conversation has it yet."""


def thread_of(messages: Sequence[Message]) -> Thread:
    """Return the thread of *messages*.

    The newest prompt or steering is the instruction. Texts that the session adds for its plugins are not instructions.
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
    """Return the *steps* that are left after *calls*.

    A call ends the first step of its kind and all steps before it. If no step is of its kind, it ends the next one.
    """
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
