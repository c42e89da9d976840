"""What is special to the Responses API."""

import json

import pytest

from agentrail.adapters.models.openai import FORMAT
from agentrail.adapters.models.openai.faults import FAULTS, IN_STREAM
from agentrail.adapters.models.settings import read_settings
from agentrail.adapters.models.sse import ServerEvent
from agentrail.errors import (
    AccessDenied,
    BadModelOptions,
    ContextTooLong,
    KeyRefused,
    ModelError,
    ModelMissing,
    Overloaded,
    ProviderFailed,
    QuotaSpent,
    RateLimited,
    RequestRefused,
    StreamEndedEarly,
    StreamGarbled,
)
from agentrail.models import AssistantMessage, Json, ModelRequest, Response, StopReason, Text, Thinking, ToolCall, Usage
from tests.adapters.models import openai_events as openai
from tests.adapters.models.histories import TOOLS, user
from tests.each_case import each_case
from tests.kit import freeze_object

CODES = {
    "invalid_api_key": KeyRefused,
    "authentication_error": KeyRefused,
    "insufficient_quota": QuotaSpent,
    "billing_hard_limit_reached": QuotaSpent,
    "billing_not_active": QuotaSpent,
    "unsupported_country_region_territory": AccessDenied,
    "permission_error": AccessDenied,
    "PermissionDenied": AccessDenied,
    "model_not_found": ModelMissing,
    "context_length_exceeded": ContextTooLong,
    "exceed_context_size_error": ContextTooLong,
    "invalid_prompt": RequestRefused,
    "rate_limit_exceeded": RateLimited,
    "rate_limit_error": RateLimited,
    "slow_down": Overloaded,
    "server_is_overloaded": Overloaded,
    "overloaded_error": Overloaded,
    "unavailable_error": Overloaded,
    "server_error": ProviderFailed,
    "tool_use_failed": ProviderFailed,
}
ONLY_IN_STREAM = {
    "invalid_request_error": RequestRefused,
    "not_found_error": ModelMissing,
    "bio_policy": RequestRefused,
    "content_filter": RequestRefused,
    "content_policy_violation": RequestRefused,
    "misalignment_policy_violation": RequestRefused,
    "data_residency_mismatch": RequestRefused,
    "image_content_policy_violation": RequestRefused,
    "failed_to_download_image": RequestRefused,
    "image_file_not_found": RequestRefused,
    "invalid_image": RequestRefused,
    "invalid_image_mode": RequestRefused,
    "invalid_image_url": RequestRefused,
    "invalid_image_format": RequestRefused,
    "invalid_base64_image": RequestRefused,
    "image_too_large": RequestRefused,
    "image_too_small": RequestRefused,
    "image_parse_error": RequestRefused,
    "image_file_too_large": RequestRefused,
    "unsupported_image_media_type": RequestRefused,
    "empty_image_file": RequestRefused,
    "insufficient_system_resource": Overloaded,
    "no_capacity": Overloaded,
    "too_many_requests": RateLimited,
}


def answered(*data: object) -> Response:
    decoder = FORMAT.decoder()
    for item in data:
        decoder.feed(ServerEvent("", json.dumps(item)))
    return decoder.response()


def body(model: str = "gpt-5.4", *messages: AssistantMessage, **options: Json) -> dict[str, object]:
    request = ModelRequest(f"openai:{model}", (user("hello"), *messages), tools=TOOLS)
    return dict(FORMAT.render(request, "openai", model, read_settings(freeze_object(options))).body)


def test_each_code_is_in_the_table() -> None:
    assert FAULTS.by_type == CODES
    assert IN_STREAM.by_type == CODES | ONLY_IN_STREAM


@each_case([*CODES.items(), *ONLY_IN_STREAM.items(), ("brand_new", ProviderFailed)])
def test_a_response_that_failed_is_told_by_its_code(code: str, wanted: type[ModelError]) -> None:
    with pytest.raises(wanted) as raised:
        answered(openai.failed(code, "so it is"))
    assert raised.value == wanted(f"{code}: so it is", None)


@pytest.mark.parametrize(
    "found",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None},
        {"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "slow down"}},
    ],
)
def test_an_error_in_the_stream_has_two_forms(found: object) -> None:
    with pytest.raises(RateLimited, match="slow down"):
        answered(*openai.message(0, "half"), found)


@pytest.mark.parametrize(
    ("data", "stop"),
    [
        ([*openai.message(0, "a"), openai.closing()], StopReason.END),
        ([*openai.call(0, "lamps", "{}", call_id="c"), openai.closing()], StopReason.TOOL_CALLS),
        ([openai.closing("incomplete", "max_output_tokens")], StopReason.LENGTH),
        ([openai.closing("incomplete", "content_filter")], StopReason.REFUSED),
        ([openai.closing("incomplete")], StopReason.LENGTH),
        ([openai.delta("refusal", 0, "no"), openai.closing()], StopReason.REFUSED),
    ],
)
def test_why_it_stopped(data: list[object], stop: StopReason) -> None:
    assert answered(*data).stop is stop


def test_items_are_in_their_order_and_what_is_new_is_passed_over() -> None:
    found = answered(
        *openai.item(3, type="lamp_call", id="x"),
        *openai.call(2, "lamp", '{"room":', '"attic"}', call_id="c2"),
        *openai.message(1, "second"),
        *openai.message(0, "first"),
        {"type": "response.lamp.delta", "output_index": 0, "delta": "?"},
        openai.closing(),
    )
    call = ToolCall("", "lamp", freeze_object({"room": "attic"}), "c2")
    assert found == Response((Text("first"), Text("second")), (call,), StopReason.TOOL_CALLS, Usage(5, 7))


def test_a_server_may_tell_of_an_item_in_one_piece_or_not_of_its_beginning() -> None:
    whole = openai.item(1, type="function_call", call_id="c1", name="lamp", arguments='{"room":"attic"}')[-1]
    found = answered(openai.delta("output_text", 0, "hello"), whole, openai.closing())
    call = ToolCall("", "lamp", freeze_object({"room": "attic"}), "c1")
    assert found == Response((Text("hello"),), (call,), StopReason.TOOL_CALLS, Usage(5, 7))


def test_only_the_end_may_tell_of_a_response() -> None:
    items = [
        openai.thought(0, "Hm.", sealed="gA=="),
        openai.message(1, "hello"),
        openai.call(2, "lamps", "{}", call_id="c"),
    ]
    end: dict[str, object] = {"status": "completed", "output": [done["item"] for *_, done in items]}
    found = answered({"type": "response.completed", "response": end})
    assert found.parts == (Thinking("Hm.", "reasoning:rs_0:gA=="), Text("hello"))
    assert found.calls == (ToolCall("", "lamps", provider_id="c"),)


def test_thoughts_of_open_models_have_no_seal() -> None:
    found = answered(openai.delta("reasoning_text", 0, "Hm."), *openai.message(1, "yes"), openai.closing())
    assert found.parts == (Thinking("Hm."), Text("yes"))


def test_thoughts_without_a_text_and_a_seal_are_none() -> None:
    found = answered(*openai.thought(0), *openai.message(1, "yes"), openai.closing())
    assert found.parts == (Text("yes"),)


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ([], StreamEndedEarly),
        ([{"type": "response.created"}], StreamEndedEarly),
        (openai.message(0, "half"), StreamEndedEarly),
        ([[1]], StreamGarbled),
    ],
)
def test_what_is_not_of_the_format_is_no_answer(data: list[object], wanted: type[ModelError]) -> None:
    with pytest.raises(wanted):
        answered(*data)


@pytest.mark.parametrize(
    ("model", "wanted"),
    [
        ("gpt-5.4", True),
        ("o4-mini", True),
        ("gpt-4.1", False),
        ("chatgpt-4o-latest", False),
        ("gpt-5-chat-latest", False),
    ],
)
def test_only_models_that_reason_are_asked_for_their_sealed_thoughts(model: str, wanted: bool) -> None:
    assert body(model).get("include") == (["reasoning.encrypted_content"] if wanted else None)
    assert body(model)["store"] is False


def test_stop_texts_are_not_known() -> None:
    with pytest.raises(BadModelOptions, match="`stop` is not known"):
        body(stop=["END"])


def test_any_json_may_be_asked_for() -> None:
    assert body(response_format={})["text"] == freeze_object({"format": {"type": "json_object"}})


def test_thoughts_and_phases_go_along_again() -> None:
    said = (Thinking("Hm.", "reasoning:rs_1:gA=="), Thinking("", "phase:commentary"), Text("I look."), Text("So."))
    found = body("gpt-5.4", AssistantMessage(said, (), "openai:gpt-5.4"))["input"]
    assert isinstance(found, tuple | list)
    assert json.loads(json.dumps(found[1:4])) == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "gA==",
        },
        {"role": "assistant", "content": "I look.", "phase": "commentary"},
        {"role": "assistant", "content": "So."},
    ]
