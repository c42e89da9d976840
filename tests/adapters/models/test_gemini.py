"""What is special to the Gemini API."""

import json

import pytest

from agentrail.adapters.models.gemini import FORMAT
from agentrail.adapters.models.gemini.faults import FAULTS
from agentrail.adapters.models.gemini.schema_subset import schema_subset
from agentrail.adapters.models.provider_errors import error_of_body
from agentrail.adapters.models.settings import read_settings
from agentrail.adapters.models.sse import EventReader, ServerEvent
from agentrail.errors import (
    AccessDenied,
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
    CallChunk,
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
from tests.adapters.models import gemini_events as gemini
from tests.adapters.models.histories import LAMPS, PIXEL, TOOLS, call, result, user
from tests.adapters.models.server import recorded
from tests.each_case import each_case
from tests.kit import freeze_object, thaw

NEW, OLD = "gemini-3-flash-preview", "gemini-2.5-flash"

KINDS = {
    "INVALID_ARGUMENT": RequestRefused,
    "OUT_OF_RANGE": RequestRefused,
    "UNIMPLEMENTED": RequestRefused,
    "FAILED_PRECONDITION": AccessDenied,
    "UNAUTHENTICATED": KeyRefused,
    "PERMISSION_DENIED": AccessDenied,
    "NOT_FOUND": ModelMissing,
    "RESOURCE_EXHAUSTED": RateLimited,
    "CANCELLED": ProviderFailed,
    "ABORTED": ProviderFailed,
    "UNKNOWN": ProviderFailed,
    "INTERNAL": ProviderFailed,
    "DEADLINE_EXCEEDED": ProviderFailed,
    "UNAVAILABLE": Overloaded,
    "API_KEY_INVALID": KeyRefused,
    "BILLING_DISABLED": QuotaSpent,
    "BRAND_NEW": ProviderFailed,
}


def event(data: object) -> ServerEvent:
    return ServerEvent("", json.dumps(data))


def answered(*data: object) -> Response:
    decoder = FORMAT.decoder()
    for item in data:
        decoder.feed(event(item))
    return decoder.response()


def body(model: str, *messages: Message, **options: Json) -> dict[str, object]:
    request = ModelRequest(f"gemini:{model}", messages or (user("hello"),), tools=TOOLS)
    return dict(FORMAT.render(request, "gemini", model, read_settings(freeze_object(options))).body)


def contents(model: str, *messages: Message) -> list[object]:
    found = body(model, *messages)["contents"]
    assert isinstance(found, list)
    return [thaw(content) for content in found]


def back(response: Response) -> list[object]:
    """Return the parts that *response* goes back as."""
    message = AssistantMessage(response.parts, response.calls, f"gemini:{NEW}")
    (content,) = contents(NEW, user("hello"), message, user("and now?"))[1:2]
    assert isinstance(content, dict)
    return list(content["parts"])


# Errors


@each_case(KINDS.items())
def test_an_error_in_the_stream_is_told_by_its_status(status: str, wanted: type[ModelError]) -> None:
    with pytest.raises(wanted) as raised:
        answered(gemini.content({"text": "well, "}), gemini.error(500, status, "so it is"))
    assert raised.value == wanted(f"{status} 500: so it is", None)


def test_each_status_is_in_the_table() -> None:
    assert {kind for kind, wanted in KINDS.items() if FAULTS.by_type.get(kind) is wanted} == set(FAULTS.by_type)


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (
            gemini.error(400, "INVALID_ARGUMENT", "API key not valid.", gemini.reason("API_KEY_INVALID")),
            KeyRefused("400 API_KEY_INVALID INVALID_ARGUMENT: API key not valid.", None),
        ),
        (
            gemini.error(429, "RESOURCE_EXHAUSTED", "Slow down.", {"@type": "quota"}, gemini.retry("37.5s")),
            RateLimited("429 RESOURCE_EXHAUSTED: Slow down.", 37.5),
        ),
        (
            gemini.error(429, "RESOURCE_EXHAUSTED", "Slow down.", gemini.retry("soon")),
            RateLimited("429 RESOURCE_EXHAUSTED: Slow down.", None),
        ),
        (
            gemini.error(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens."),
            ContextTooLong(
                "400 INVALID_ARGUMENT: The input token count (9) exceeds the maximum number of tokens.", None
            ),
        ),
    ],
)
def test_an_error_is_told_by_its_reason_and_says_when_to_try_again(
    error: dict[str, dict[str, int]], wanted: ModelError
) -> None:
    whole = json.dumps([error]).encode()  # without `alt=sse`, and so in some gateways, a list
    assert error_of_body(FAULTS, error["error"]["code"], {}, whole) == wanted


def test_a_header_says_better_when_to_try_again() -> None:
    error = json.dumps(gemini.error(503, "UNAVAILABLE", "Wait.", gemini.retry("37s"))).encode()
    assert error_of_body(FAULTS, 503, {"retry-after": "2"}, error).retry_after == 2.0


# Answers


@each_case(
    [
        ("STOP", StopReason.END),
        *((reason, StopReason.LENGTH) for reason in ("MAX_TOKENS", "CONTINUATION", "TOO_MANY_TOOL_CALLS")),
        *((reason, StopReason.REFUSED) for reason in ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "SPII")),
        *((reason, StopReason.REFUSED) for reason in ("PROHIBITED_CONTENT", "MODEL_ARMOR", "ESCALATION")),
        *((reason, StopReason.REFUSED) for reason in ("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION")),
        ("OTHER", StopReason.END),
        ("BRAND_NEW", StopReason.END),
    ]
)
def test_why_it_stopped(said: str, stop: StopReason) -> None:
    assert answered(gemini.closing(said)).stop is stop


@pytest.mark.parametrize(
    ("reason", "wanted"),
    [
        ("MALFORMED_FUNCTION_CALL", StreamGarbled),
        ("MALFORMED_RESPONSE", StreamGarbled),
        ("UNEXPECTED_TOOL_CALL", StreamGarbled),
        ("MISSING_THOUGHT_SIGNATURE", RequestRefused),
        ("PUP_LIMITED_DISABLED", AccessDenied),
    ],
)
def test_what_the_model_could_not_say_is_no_answer(reason: str, wanted: type[ModelError]) -> None:
    candidate = {"finishReason": reason, "finishMessage": "print(lamp("}
    for told, said in ((candidate, f"{reason}: print(lamp("), ({"finishReason": reason}, reason)):
        with pytest.raises(wanted) as raised:
            answered({"candidates": [told]})
        assert raised.value == wanted(said, None)


def test_calls_come_whole_and_some_without_ids() -> None:
    decoder = FORMAT.decoder()
    parts = gemini.called("lamp", {"room": "küche"}), gemini.called("lamps"), gemini.called("lamp", ["attic"])
    chunks = decoder.feed(event(gemini.content(*parts, finish="STOP")))
    assert list(chunks) == [CallChunk('{"room": "küche"}'), CallChunk(""), CallChunk('["attic"]')]
    assert decoder.response() == Response(
        (),
        (
            ToolCall("", "lamp", freeze_object({"room": "küche"})),
            ToolCall("", "lamps"),
            ToolCall("", "lamp", freeze_object({"": '["attic"]'})),
        ),
        StopReason.TOOL_CALLS,
    )


def test_counts_are_sums_and_what_is_left_out_stays() -> None:
    decoder = FORMAT.decoder()
    given: list[dict[str, object]] = [
        {"promptTokenCount": 100, "cachedContentTokenCount": 40, "totalTokenCount": 100},
        {"promptTokenCount": 100, "cachedContentTokenCount": 40, "totalTokenCount": 100},
        {"promptTokenCount": 100, "thoughtsTokenCount": 20, "candidatesTokenCount": 3},
        {"candidatesTokenCount": None, "toolUsePromptTokenCount": 7, "other": {}},
    ]
    counted = [chunk for usage in given for chunk in decoder.feed(event({"usageMetadata": usage}))]
    assert counted == [
        UsageChunk(Usage(100, 0, 40)),
        UsageChunk(Usage(100, 23, 40, 20)),
        UsageChunk(Usage(107, 23, 40, 20)),
    ]


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        ([], StreamEndedEarly),
        ([gemini.content({"text": "half"})], StreamEndedEarly),
        ([{"candidates": []}, {"candidates": None}, {"candidates": ["x"]}], StreamEndedEarly),
        ([[1]], StreamGarbled),
        (["text"], StreamGarbled),
    ],
)
def test_what_is_not_of_the_format_is_no_answer(data: list[object], wanted: type[ModelError]) -> None:
    with pytest.raises(wanted):
        answered(*data)


def test_only_the_first_candidate_is_read() -> None:
    two = gemini.content({"text": "one"}, finish="STOP")["candidates"], gemini.content({"text": "two"})["candidates"]
    candidates = [item for found in two if isinstance(found, list) for item in found]
    assert answered({"candidates": candidates}) == Response((Text("one"),))


# What was signed


def test_what_was_signed_goes_back_as_it_came() -> None:
    decoder = FORMAT.decoder()
    for item in EventReader().feed(recorded("gemini_signed.sse")):
        decoder.feed(item)
    assert back(decoder.response()) == [
        {"text": "A lamp.", "thought": True, "thoughtSignature": "dA=="},
        {"text": "It is on", "thoughtSignature": "YQ=="},
        {"text": ", and the other one is off."},
        {"text": "", "thoughtSignature": "Yg=="},
    ]


@pytest.mark.parametrize(
    "parts",
    [
        [{"text": "", "thought": True, "thoughtSignature": "YQ=="}, {"text": "x"}],
        [{"text": "", "thoughtSignature": "YQ=="}, {"text": "x", "thoughtSignature": "Yg=="}],
        [{"text": "x"}, gemini.called("lamp", {}, "YQ==", id="a"), gemini.called("lamps", {}, id="b")],
        [gemini.called("lamp", {}, "YTpi", id="a"), gemini.called("lamps", {}, "Yg==", id="b")],
        [gemini.called("lamp", {}, id="a"), gemini.called("lamps", {}, "Yg==", id="b")],
    ],
)
def test_each_part_keeps_its_own_signature(parts: list[dict[str, object]]) -> None:
    together, alone = gemini.content(*parts, finish="STOP"), [gemini.content(part) for part in parts]
    assert back(answered(together)) == parts
    assert back(answered(*alone, gemini.closing())) == parts


def test_blank_text_does_not_go_back_but_its_signature_does() -> None:
    assert back(answered(gemini.content({"text": " ", "thoughtSignature": "YQ=="}, {"text": "x"}, finish="STOP"))) == [
        {"text": "", "thoughtSignature": "YQ=="},
        {"text": "x"},
    ]


def test_the_signature_of_a_text_that_is_gone_goes_back_alone() -> None:
    parts = Thinking("Hm.", "thought:YQ=="), Thinking("", "text:Yg=="), Text("x"), Thinking("", "alone:Yw==")
    assert back(Response(parts)) == [
        {"text": "Hm.", "thought": True, "thoughtSignature": "YQ=="},
        {"text": "", "thoughtSignature": "Yg=="},
        {"text": "x"},
        {"text": "", "thoughtSignature": "Yw=="},
    ]


def test_calls_of_another_model_need_no_signature_where_none_are_known() -> None:
    calling = AssistantMessage((), (call("c1", "attic"),), "elsewhere:x")
    asked = {"functionCall": {"id": "c1", "name": "lamp", "args": {"room": "attic"}}}
    assert contents(OLD, user("hello"), calling)[1] == {"role": "model", "parts": [asked]}
    signed = {**asked, "thoughtSignature": "skip_thought_signature_validator"}
    assert contents(NEW, user("hello"), calling)[1] == {"role": "model", "parts": [signed]}


# Requests


def test_pictures_of_results_stand_outside_of_them_for_older_models() -> None:
    calling = AssistantMessage((), (call("c1", "attic"), call("c2", "cellar")), f"gemini:{OLD}")
    photo = ToolMessage("c1", "lamp", (Text("a photo"), Image("image/png", PIXEL)))
    found = contents(OLD, user("hello"), calling, photo, result("c2", "off"), user("well?"))[2]
    assert found == {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "c1", "name": "lamp", "response": {"output": "a photo"}}},
            {"functionResponse": {"id": "c2", "name": "lamp", "response": {"output": "off"}}},
            {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
            {"text": "well?"},
        ],
    }


@each_case(
    [
        (NEW, "", None),
        (NEW, "none", {"thinkingLevel": "MINIMAL"}),
        (NEW, "minimal", {"thinkingLevel": "MINIMAL", "includeThoughts": True}),
        (NEW, "medium", {"thinkingLevel": "MEDIUM", "includeThoughts": True}),
        ("gemini-flash-latest", "max", {"thinkingLevel": "HIGH", "includeThoughts": True}),
        ("gemini-3.1-pro-preview", "none", {"thinkingLevel": "LOW"}),
        ("gemini-3.1-pro-preview", "high", {"thinkingLevel": "HIGH", "includeThoughts": True}),
        (OLD, "none", {"thinkingBudget": 0}),
        (OLD, "low", {"thinkingBudget": 2_048, "includeThoughts": True}),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 128}),
        ("gemini-2.5-pro", "max", {"thinkingBudget": 24_576, "includeThoughts": True}),
    ]
)
def test_how_much_it_thinks(model: str, effort: str, wanted: dict[str, object] | None) -> None:
    config = body(model, reasoning_effort=effort or None).get("generationConfig")
    assert (thaw(config["thinkingConfig"]) if isinstance(config, dict) else None) == wanted


def test_any_object_may_be_asked_for() -> None:
    assert body(NEW, response_format={})["generationConfig"] == {"responseMimeType": "application/json"}


@pytest.mark.parametrize(
    ("model", "path"),
    [
        ("gemini-3-pro", "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"),
        ("tunedModels/my-own", "/v1beta/tunedModels/my-own:streamGenerateContent?alt=sse"),
        ("x?key=#", "/v1beta/models/x%3Fkey%3D%23:streamGenerateContent?alt=sse"),
    ],
)
def test_the_model_stands_in_the_path(model: str, path: str) -> None:
    assert FORMAT.render(ModelRequest(model, (user("hello"),)), "gemini", model, read_settings({})).path == path


def test_without_tools_there_is_no_choice() -> None:
    request = ModelRequest(NEW, (user("hello"),), may_call=False)
    found = FORMAT.render(request, "gemini", NEW, read_settings(freeze_object({"tool_choice": "any"}))).body
    assert found == {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}


@pytest.mark.parametrize(
    ("parameters", "has_schema"),
    [
        ({}, False),
        ({"type": "object", "title": "Nothing", "additionalProperties": False, "required": []}, False),
        ({"type": "object", "additionalProperties": True}, True),
        ({"properties": {"a": {}}}, True),
    ],
)
def test_a_tool_without_arguments_has_no_schema(parameters: dict[str, Json], has_schema: bool) -> None:
    tool = LAMPS.but(parameters=freeze_object(parameters))
    found = FORMAT.render(ModelRequest(NEW, (user("x"),), tools=(tool,)), "gemini", NEW, read_settings({})).body
    assert ("parametersJsonSchema" in json.dumps(found["tools"])) is has_schema


# Schemas


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "string", "const": "a", "pattern": "a"}, {"type": "string", "enum": ["a"]}),
        ({"const": None}, {"enum": [None]}),
        (
            {"type": ["integer", "null"], "minimum": 1, "exclusiveMaximum": 9, "default": 3, "examples": [4]},
            {"type": ["integer", "null"], "minimum": 1},
        ),
        (
            {"$schema": "x", "definitions": {"a": {"not": {}}}, "items": {"$ref": "#/definitions/a"}},
            {"$defs": {"a": {}}, "items": {"$ref": "#/$defs/a"}},
        ),
        ({"allOf": [{"$ref": "#/$defs/a"}], "description": "it"}, {"$ref": "#/$defs/a", "description": "it"}),
        ({"allOf": [{"type": "string"}, {"minLength": 1}], "title": "it"}, {"title": "it"}),
        (
            {"properties": {"pattern": {"pattern": "x"}, "b": True}, "additionalProperties": {"const": 1}},
            {"properties": {"pattern": {}, "b": True}, "additionalProperties": {"enum": [1]}},
        ),
        (
            {"anyOf": [{"const": 1}, {"oneOf": [{"default": 1}]}], "prefixItems": [{"not": {}}]},
            {"anyOf": [{"enum": [1]}, {"oneOf": [{}]}], "prefixItems": [{}]},
        ),
    ],
)
def test_a_schema_keeps_what_the_api_knows(schema: Json, wanted: Json) -> None:
    assert schema_subset(schema) == wanted
