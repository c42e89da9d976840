"""What is special to the Messages API."""

import json
from collections.abc import Sequence

import pytest

from agentrail.adapters.models.anthropic import FORMAT
from agentrail.adapters.models.anthropic.faults import FAULTS
from agentrail.adapters.models.settings import read_settings
from agentrail.adapters.models.sse import ServerEvent
from agentrail.adapters.models.wire_format import Rendered
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
from agentrail.models import (
    AssistantMessage,
    Image,
    Json,
    Message,
    ModelRequest,
    Response,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    Usage,
    UsageChunk,
)
from agentrail.values.content import Said
from tests.adapters.models import anthropic_events as anthropic
from tests.adapters.models.histories import PIXEL, TOOLS, user
from tests.each_case import each_case
from tests.kit import freeze_object, thaw

KINDS = {
    "invalid_request_error": RequestRefused,
    "authentication_error": KeyRefused,
    "billing_error": QuotaSpent,
    "permission_error": AccessDenied,
    "not_found_error": ModelMissing,
    "request_too_large": ContextTooLong,
    "rate_limit_error": RateLimited,
    "timeout_error": ProviderFailed,
    "api_error": ProviderFailed,
    "overloaded_error": Overloaded,
    "brand_new_error": ProviderFailed,
}


def event(data: object) -> ServerEvent:
    return ServerEvent("", json.dumps(data))


def answered(*data: object) -> Response:
    decoder = FORMAT.decoder()
    for item in data:
        decoder.feed(event(item))
    return decoder.response()


PHOTO = Image("image/png", PIXEL)
SHOWN = {"type": "adaptive", "display": "summarized"}
BOUND = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def rendered(model: str, messages: Sequence[Message] = (user("hello"),), /, **options: Json) -> Rendered:
    request = ModelRequest(f"anthropic:{model}", messages, tools=TOOLS)
    return FORMAT.render(request, "anthropic", model, read_settings(freeze_object(options)))


def body(model: str, messages: Sequence[Message] = (user("hello"),), /, **options: Json) -> dict[str, object]:
    return dict(rendered(model, messages, **options).body)


@each_case(KINDS.items())
def test_an_error_in_the_stream_is_told_by_its_type(kind: str, wanted: type[ModelError]) -> None:
    with pytest.raises(wanted) as raised:
        answered(anthropic.opening(), anthropic.error(kind, "so it is"))
    assert raised.value == wanted(f"{kind}: so it is", None)


def test_an_event_that_has_its_type_as_its_name_alone_is_read_by_that() -> None:
    decoder = FORMAT.decoder()
    for data in (anthropic.opening(), {"type": "message_stop"}):
        fields = dict(data)
        decoder.feed(ServerEvent(str(fields.pop("type")), json.dumps(fields)))
    assert decoder.complete


def test_each_type_of_error_is_in_the_table() -> None:
    assert {kind for kind, wanted in KINDS.items() if FAULTS.by_type.get(kind) is wanted} == set(FAULTS.by_type)


def test_a_context_that_is_too_long_may_be_said_in_the_stream() -> None:
    with pytest.raises(ContextTooLong):
        answered(anthropic.error("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"))


@pytest.mark.parametrize(
    ("said", "stop"),
    [
        ("end_turn", StopReason.END),
        ("stop_sequence", StopReason.END),
        ("tool_use", StopReason.TOOL_CALLS),
        ("max_tokens", StopReason.LENGTH),
        ("model_context_window_exceeded", StopReason.LENGTH),
        ("pause_turn", StopReason.LENGTH),
        ("refusal", StopReason.REFUSED),
        ("brand_new", StopReason.END),
    ],
)
def test_why_it_stopped(said: str, stop: StopReason) -> None:
    assert answered(anthropic.opening(), *anthropic.closing(said)).stop is stop


def test_what_is_given_at_once_counts_and_a_number_may_be_used_again() -> None:
    begun = {"type": "tool_use", "id": "toolu_1", "name": "lamp", "input": {"room": "attic"}}
    found = answered(
        anthropic.opening(),
        *anthropic.block(0, "text", "text_delta", "text", "I "),
        *anthropic.block(0, "text", "text_delta", "text", "look."),
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "content_block_stop", "index": 0},
        *anthropic.closing("tool_use"),
    )
    assert found.parts == (Text("I "), Text("look."))
    assert found.calls == (ToolCall("", "lamp", freeze_object({"room": "attic"}), "toolu_1"),)


def test_a_result_that_is_an_error_holds_text_alone_and_its_image_follows() -> None:
    called = AssistantMessage((), (ToolCall("c1", "lamps"), ToolCall("c2", "lamps")), "anthropic:claude-sonnet-5")
    results = (ToolMessage("c1", "lamps", (Text("no"), PHOTO), is_error=True), ToolMessage("c2", "lamps", (PHOTO,)))
    content = body("claude-sonnet-5", (user("so?"), called, *results))["messages"]
    assert isinstance(content, tuple | list)
    first, second, image = content[-1]["content"]
    assert [part["type"] for part in first["content"]] == ["text"]
    assert [part["type"] for part in second["content"]] == ["image"]
    assert image["type"] == "image"


def test_counts_are_sums_and_what_is_left_out_stays() -> None:
    decoder = FORMAT.decoder()
    given: list[dict[str, object]] = [
        {"input_tokens": 3, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 1},
        {"output_tokens": 9},
        {"output_tokens": None, "input_tokens": 4, "other": {}},
    ]
    counted = [
        chunk
        for kind, usage in zip(("message_start", "message_delta", "message_delta"), given, strict=True)
        for chunk in decoder.feed(event({"type": kind, "message": {"usage": usage}, "usage": usage}))
    ]
    assert counted == [
        UsageChunk(Usage(123, 0, 100, cache_write_tokens=20)),
        UsageChunk(Usage(123, 9, 100, cache_write_tokens=20)),
        UsageChunk(Usage(124, 9, 100, cache_write_tokens=20)),
    ]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ([], StreamEndedEarly),
        ([anthropic.opening()], StreamEndedEarly),
        ([{"type": "message_stop"}], StreamGarbled),
        ([[1]], StreamGarbled),
        (["text"], StreamGarbled),
        ([anthropic.opening(), {"type": "content_block_delta", "index": 0, "delta": {}}], StreamGarbled),
        (
            [
                anthropic.opening(),
                *anthropic.block(0, "text", "text_delta", "text"),
                {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "late"}},
            ],
            StreamGarbled,
        ),
    ],
)
def test_what_is_not_of_the_format_is_no_answer(data: list[object], wanted: type[ModelError]) -> None:
    with pytest.raises(wanted):
        answered(*data)


@pytest.mark.parametrize("text", ["", "{", "[DONE]", "nul", "[" * 100_000])
def test_what_is_no_json_is_no_event(text: str) -> None:
    with pytest.raises(StreamGarbled, match="an event is no"):
        FORMAT.decoder().feed(ServerEvent("ping", text))


@each_case(
    [
        ("claude-sonnet-5", "", {}),
        ("claude-sonnet-5", "none", {"thinking": {"type": "disabled"}}),
        ("claude-sonnet-5", "minimal", {"thinking": SHOWN, "output_config": {"effort": "low"}}),
        ("claude-sonnet-5", "max", {"thinking": SHOWN, "output_config": {"effort": "max"}}),
        ("claude-opus-4-8", "xhigh", {"thinking": SHOWN, "output_config": {"effort": "xhigh"}}),
        ("claude-opus-4-6", "xhigh", {"thinking": SHOWN, "output_config": {"effort": "high"}}),
        ("claude-opus-4-6", "high", {"thinking": SHOWN, "output_config": {"effort": "high"}}),
        ("somebody-s-own", "high", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
        ("claude-haiku-5-5", "", {"thinking": BOUND}),
        ("claude-haiku-5-5", "none", {"thinking": {"type": "disabled"}}),
        ("claude-sonnet-5-5", "none", {"thinking": {"type": "between_tools"}}),
        ("claude-opus-5-5", "low", {"thinking": {**BOUND, **SHOWN}, "output_config": {"effort": "low"}}),
        ("claude-fable-5-2", "", {"thinking": BOUND}),
        ("claude-fable-5", "", {}),
        ("claude-sonnet-4-5", "", {}),
        ("claude-sonnet-4-5", "none", {"thinking": {"type": "disabled"}}),
        ("claude-sonnet-4-5", "high", {"thinking": {"type": "enabled", "budget_tokens": 20_000}}),
        ("claude-opus-4-20250514", "low", {"thinking": {"type": "enabled", "budget_tokens": 4_096}}),
    ]
)
def test_how_much_it_thinks(model: str, effort: str, wanted: dict[str, object]) -> None:
    found = body(model, reasoning_effort=effort or None)
    assert {name: found[name] for name in ("thinking", "output_config") if name in found} == wanted


def test_a_budget_for_thinking_stays_below_the_tokens_of_the_answer() -> None:
    found = body("claude-haiku-4-5", reasoning_effort="max", max_tokens=5_000)
    assert found["thinking"] == {"type": "enabled", "budget_tokens": 4_999}


@each_case(
    [
        ("claude-sonnet-5", {"temperature": 0.5}, "`temperature` is nothing that `claude-sonnet-5` takes"),
        ("claude-opus-4-7", {"temperature": 0}, "`temperature` is nothing that `claude-opus-4-7` takes"),
        ("claude-opus-4-6", {"temperature": 0.5, "reasoning_effort": "low"}, "`temperature` is not taken while"),
        ("claude-haiku-4-5", {"temperature": 0.5, "reasoning_effort": "low"}, "`temperature` is not taken while"),
        ("claude-fable-5", {"reasoning_effort": "none"}, "`claude-fable-5` always thinks"),
        ("claude-opus-5-5", {"reasoning_effort": "none"}, "`claude-opus-5-5` always thinks"),
        ("claude-sonnet-5-5", {"tool_choice": "any"}, "`tool_choice` cannot make `claude-sonnet-5-5` call a tool"),
        ("claude-fable-5-1", {"tool_choice": {"tool": "lamp"}}, "`tool_choice` cannot make `claude-fable-5-1` call"),
        ("claude-sonnet-5", {"tool_choice": "any", "reasoning_effort": "low"}, "`tool_choice` cannot force a call"),
        ("claude-haiku-4-5", {"reasoning_effort": "low", "max_tokens": 1_024}, "`max_tokens` must be above 1024"),
    ]
)
def test_what_a_model_would_refuse_is_refused_before_the_request(
    model: str, options: dict[str, Json], problem: str
) -> None:
    with pytest.raises(BadModelOptions, match=problem):
        body(model, **options)


@pytest.mark.parametrize(
    ("model", "options", "wanted"),
    [
        ("claude-sonnet-4-5", {"temperature": 0.5}, {"temperature": 0.5}),
        ("claude-opus-4-6", {"temperature": 0.5, "reasoning_effort": "none"}, {"temperature": 0.5}),
        ("somebody-s-own", {"temperature": 0.5, "reasoning_effort": "none"}, {"temperature": 0.5}),
        ("claude-sonnet-5", {"temperature": 1, "reasoning_effort": "low"}, {}),
        ("claude-haiku-4-5", {"temperature": 1.0, "reasoning_effort": "low"}, {}),
    ],
)
def test_a_temperature_goes_to_who_takes_one_by_the_version_that_has_it(
    model: str, options: dict[str, Json], wanted: dict[str, object]
) -> None:
    found = rendered(model, **options)
    assert {name: found.body[name] for name in found.body if name == "temperature"} == wanted
    assert found.headers["anthropic-version"] == ("2023-06-01" if wanted else "2026-10-21")


@pytest.mark.parametrize(("field", "version"), [("top_p", "2023-06-01"), ("top_k", "2023-06-01"), ("x", "2026-10-21")])
def test_extra_fields_for_sampling_are_sent_by_the_version_that_has_them(field: str, version: str) -> None:
    found = rendered("claude-haiku-4-5", extra=freeze_object({field: 1}))
    assert found.headers["anthropic-version"] == version


def turn_of_two(*parts: Said, model: str = "anthropic:claude-haiku-4-5") -> tuple[Message, ...]:
    """Return messages that end in the result of a call, with what was said before it."""
    called = AssistantMessage(parts, (ToolCall("c1", "lamps"),), model, StopReason.TOOL_CALLS)
    return (user("are the lamps on?"), called, ToolMessage("c1", "lamps", (Text("on"),)))


@pytest.mark.parametrize("said", [(), (Text("I look."),)])
def test_a_model_with_a_budget_goes_on_without_thinking_where_another_one_called(said: tuple[Said, ...]) -> None:
    messages = turn_of_two(*said, model="openai:gpt-5.4")
    assert "thinking" not in body("claude-haiku-4-5", messages, reasoning_effort="low")
    assert "thinking" in body(
        "claude-haiku-4-5", (*messages, AssistantMessage((Text("well"),)), user("so?")), reasoning_effort="low"
    )
    assert "thinking" in body("claude-haiku-4-5", turn_of_two(Thinking("hm", "seal"), *said), reasoning_effort="low")
    assert "thinking" in body("claude-sonnet-5", messages, reasoning_effort="low")


@pytest.mark.parametrize(
    ("model", "options", "shown"),
    [
        ("claude-haiku-5-5", {}, True),
        ("claude-haiku-5-5", {"reasoning_effort": "low"}, True),
        ("claude-haiku-5-5", {"reasoning_effort": "none"}, False),
        ("claude-haiku-5-5", {"tool_choice": "any"}, False),
        ("claude-sonnet-5", {"reasoning_effort": "none"}, True),
    ],
)
def test_thoughts_that_are_bound_go_back_only_if_they_may_be_dropped(
    model: str, options: dict[str, Json], *, shown: bool
) -> None:
    messages = turn_of_two(Thinking("hm", "seal"), Text("I look."), model=f"anthropic:{model}")
    request = ModelRequest(f"anthropic:{model}", messages, tools=TOOLS)
    found = FORMAT.render(request, "anthropic", model, read_settings(freeze_object(options)))
    written = json.dumps(thaw(found.body))
    assert ('"seal"' in written, '"I look."' in written) == (shown, True)
    assert ("anthropic-beta" in found.headers) == ("drop_block" in written) == (shown and model == "claude-haiku-5-5")


def test_an_answer_in_json_needs_a_schema() -> None:
    with pytest.raises(BadModelOptions, match="`response_format` is empty"):
        body("claude-sonnet-5", response_format={})


@pytest.mark.parametrize(
    ("model", "most"),
    [
        ("claude-sonnet-5", 32_000),
        ("claude-3-5-haiku-latest", 8_192),
        ("claude-3-haiku-20240307", 4_096),
        ("claude-3-7-sonnet-latest", 32_000),
    ],
)
def test_an_answer_has_a_limit_that_the_model_takes(model: str, most: int) -> None:
    assert body(model)["max_tokens"] == most
