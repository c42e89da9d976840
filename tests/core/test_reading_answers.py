"""How the object of an answer is read: from a text, fenced or plain, or from a call of the answer tool."""

import json
from contextlib import suppress
from typing import cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrail.core.answers import read_answer, without_answer_tool
from agentrail.errors import NotJson
from agentrail.models import JsonObject, Response, StopReason, Text, ToolCall
from tests.kit import freeze_object

OBJECT = freeze_object({"room": "hall"})
WRITTEN = '{"room": "hall"}'


@pytest.mark.parametrize(
    "text",
    [WRITTEN, f"```json\n{WRITTEN}\n```", f"```\n{WRITTEN}\n```", f"\n```json \n\n{WRITTEN}\n\n ``` \n"],
    ids=["plain", "fenced", "of no language", "spaced"],
)
def test_an_object_is_read_with_a_fence_around_it_or_without(text: str) -> None:
    assert read_answer(text) == OBJECT


@pytest.mark.parametrize(
    "text",
    [f"```json\n{WRITTEN}\nthat is it", f"here it is\n{WRITTEN}\n```", f"```yaml\n{WRITTEN}\n```", f"`{WRITTEN}`"],
    ids=["not closed", "not opened", "of another language", "in a line"],
)
def test_half_a_fence_is_no_json(text: str) -> None:
    assert str(read_answer(text)).startswith("it is no JSON: ")


@pytest.mark.parametrize("text", ["[1]", "7", '"room"', "null"])
def test_json_that_is_no_object_is_told_apart(text: str) -> None:
    assert read_answer(text) == "it is no JSON object"


def test_a_number_that_json_cannot_hold_is_named() -> None:
    assert str(read_answer('{"room": NaN}')).startswith("it is no JSON: $.room is the number nan")


def as_python_reads(text: str) -> JsonObject | None:
    """Return the object in *text* as Python's own reader sees it; `None` if there is none."""
    with suppress(ValueError, RecursionError, NotJson):
        data = cast("object", json.loads(text))
        return freeze_object(data) if isinstance(data, dict) else None
    return None


PIECES = ("{", "}", "[", "]", ",", ":", " ", '"a"', '"', "1", "-0", ".5", "e9", "true", "null", "\\ud800", "\x01", "é")


@pytest.mark.long
@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
@example("NaN")
@example("1e400")
@example(str(2**64))
@example(str(2**64 - 1))
@example("9" * 5_000)
@example("[" * 3_000 + "]" * 3_000)
@example('1, "room": 2')
def test_what_is_read_is_what_python_reads(piece: str) -> None:
    text = f'{{"room": {piece}}}'
    actual = read_answer(text)
    assert (None if isinstance(actual, str) else repr(actual)) == (
        None if (expected := as_python_reads(text)) is None else repr(expected)
    )


@pytest.mark.parametrize(
    ("stop", "seen"), [(StopReason.TOOL_CALLS, StopReason.END), (StopReason.LENGTH, StopReason.LENGTH)]
)
def test_a_response_that_only_answers_has_ended_unless_it_was_cut_off(stop: StopReason, seen: StopReason) -> None:
    response = Response((Text("here"),), (ToolCall("a", "answer", OBJECT),), stop)
    report = without_answer_tool(response, "answer")
    assert (report.parts, report.calls, report.stop) == ((Text('{"room":"hall"}'),), (), seen)
