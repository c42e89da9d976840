"""What the official SDK of Google says of our requests and of the streams we recorded, and what we make of its own."""

from __future__ import annotations

import json
from typing import Final

import pytest
from google.genai import types
from pydantic import BaseModel, TypeAdapter

from agentrail.adapters.models.gemini import FORMAT
from agentrail.adapters.models.gemini.content_decoder import BROKEN, STOPS
from agentrail.adapters.models.sse import EventReader
from agentrail.models import Response, StopReason, Text, Thinking, ToolCall, Usage
from tests.adapters.models.goldens import rendered
from tests.adapters.models.histories import SETTINGS, histories
from tests.adapters.models.server import STREAMS, recorded
from tests.kit import freeze_object

NAMES: Final = (*histories("", ""), *(f"options_{name}" for name in SETTINGS))
FIELDS: Final[dict[str, type[object]]] = {
    "contents": list[types.Content],
    "systemInstruction": types.Content,
    "tools": list[types.Tool],
    "toolConfig": types.ToolConfig,
    "generationConfig": types.GenerationConfig,
}
"""The SDK has no type for a whole request."""


def read(field: str, found: object) -> object:
    """Return *found* as the SDK reads it and writes it again; what it does not know is refused."""
    adapter: TypeAdapter[object] = TypeAdapter(FIELDS[field])
    parsed = adapter.validate_json(json.dumps(found))
    return adapter.dump_python(parsed, mode="json", by_alias=True, exclude_none=True)


@pytest.mark.parametrize("name", NAMES)
def test_what_we_send_is_what_the_sdk_would_send(name: str) -> None:
    body = json.loads(json.dumps(rendered("gemini")[name].body))
    assert {field: read(field, found) for field, found in body.items()} == body


def test_the_sdk_would_notice_a_field_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="no_such_field"):
        read("contents", [{"role": "user", "parts": [{"text": "x", "no_such_field": 1}]}])


@pytest.mark.parametrize("name", sorted(path.stem for path in STREAMS.glob("gemini_*.sse")))
def test_what_we_recorded_is_what_the_sdk_would_read(name: str) -> None:
    for event in EventReader().feed(recorded(f"{name}.sse")):
        types.GenerateContentResponse.model_validate_json(event.data)


def answered(*events: BaseModel) -> Response:
    decoder = FORMAT.decoder()
    written = (event.model_dump_json(by_alias=True, exclude_none=True) for event in events)
    for event in EventReader().feed("".join(f"data: {data}\n\n" for data in written).encode()):
        decoder.feed(event)
    return decoder.response()


def piece(
    *parts: types.Part, finish: types.FinishReason | None = None, written: int = 0
) -> types.GenerateContentResponse:
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=9,
        cached_content_token_count=3,
        candidates_token_count=written,
        thoughts_token_count=2,
        total_token_count=11 + written,
    )
    content = types.Content(role="model", parts=list(parts))
    return types.GenerateContentResponse(
        candidates=[types.Candidate(content=content, finish_reason=finish, index=0)],
        usage_metadata=usage,
        response_id="r_1",
    )


def test_a_content_in_pieces() -> None:
    events = [
        piece(types.Part(text="Hm.", thought=True)),
        piece(types.Part(text="I ")),
        piece(types.Part(text="look."), written=2),
        piece(
            types.Part(
                function_call=types.FunctionCall(id="fc_1", name="lamp", args={"room": "attic"}),
                thought_signature=b"seal",
            ),
            types.Part(function_call=types.FunctionCall(name="lamps", args={})),
            finish=types.FinishReason.STOP,
            written=6,
        ),
    ]
    assert answered(*events) == Response(
        (Thinking("Hm."), Text("I look."), Thinking("", "call:0:c2VhbA==")),
        (ToolCall("", "lamp", freeze_object({"room": "attic"}), "fc_1"), ToolCall("", "lamps")),
        StopReason.TOOL_CALLS,
        Usage(9, 8, 3, 2),
    )


@pytest.mark.parametrize("reason", types.BlockedReason)
def test_a_prompt_that_is_blocked(reason: types.BlockedReason) -> None:
    feedback = types.GenerateContentResponsePromptFeedback(block_reason=reason)
    assert answered(types.GenerateContentResponse(prompt_feedback=feedback)) == Response((), (), StopReason.REFUSED)


def test_every_reason_that_the_sdk_knows_is_in_a_table_or_is_an_end() -> None:
    ends = {"FINISH_REASON_UNSPECIFIED", "OTHER", "IMAGE_OTHER", "NO_IMAGE"}
    assert {reason.value for reason in types.FinishReason} == {*STOPS, *BROKEN, *ends}
