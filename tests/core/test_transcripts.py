"""The text of a conversation that a model is asked to sum up: each part of it as long as there is room for."""

import pytest

from agentrail.core.compaction import OF_A_MESSAGE, cut, lines_of, transcript
from agentrail.models import AssistantMessage, Message, Origin, Text, ToolCall, ToolMessage, UserMessage
from tests.kit import freeze_object
from tests.opcodes import counted_opcodes
from tests.slices import at_once

MOST = 1_000_000


def round_of(calls: int, text: str) -> list[Message]:
    tool_calls = tuple([ToolCall(f"c{number}", "look", freeze_object({"words": text})) for number in range(calls)])
    results = [ToolMessage(call.call_id, call.name, (Text(text),)) for call in tool_calls]
    return [UserMessage((Text(text),), Origin.PROMPT), AssistantMessage((Text(text),), tool_calls), *results]


@pytest.mark.parametrize("size", [0, 59, 60, 61, 249, 250, 1_001, 4_001, 9_000])
def test_it_is_the_longest_form_that_fits(size: int) -> None:
    messages = round_of(3, "x" * size)
    forms = ["\n".join([line for message in messages for line in lines_of(message, limit)]) for limit in OF_A_MESSAGE]
    for most in sorted({length for form in forms for length in (len(form) - 1, len(form), len(form) + 1)}):
        fitting = [form for form in forms if len(form) <= most]
        assert at_once(transcript(messages, most)) == (fitting[0] if fitting else cut(forms[-1], most))


def test_calls_are_written_out_once_however_little_fits() -> None:
    messages = round_of(500, "some words")
    taken: list[int] = []
    for most in (MOST, 1_000):
        with counted_opcodes() as counted:
            at_once(transcript(messages, most))
        taken.append(counted[0])
    assert taken[1] <= taken[0] * 2
