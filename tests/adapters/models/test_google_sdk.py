"""What the official SDK of Google says of our requests and of the streams we recorded, and its reasons to stop."""

from __future__ import annotations

import json
from typing import Final

import pytest
from google.genai import types
from pydantic import TypeAdapter

from agentrail.adapters.models.gemini import FORMAT
from agentrail.adapters.models.gemini.content_decoder import BROKEN, STOPS
from agentrail.adapters.models.sse import EventReader, ServerEvent
from agentrail.models import Response, StopReason
from tests.adapters.models.goldens import rendered
from tests.adapters.models.histories import SETTINGS, histories
from tests.adapters.models.server import STREAMS, recorded

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


@pytest.mark.parametrize("reason", types.BlockedReason)
def test_a_prompt_that_is_blocked(reason: types.BlockedReason) -> None:
    feedback = types.GenerateContentResponsePromptFeedback(block_reason=reason)
    answer = types.GenerateContentResponse(prompt_feedback=feedback)
    decoder = FORMAT.decoder()
    decoder.feed(ServerEvent("", answer.model_dump_json(by_alias=True, exclude_none=True)))
    assert decoder.response() == Response((), (), StopReason.REFUSED)


def test_every_reason_that_the_sdk_knows_is_in_a_table_or_is_an_end() -> None:
    ends = {"FINISH_REASON_UNSPECIFIED", "OTHER", "IMAGE_OTHER", "NO_IMAGE"}
    assert {reason.value for reason in types.FinishReason} == {*STOPS, *BROKEN, *ends}
