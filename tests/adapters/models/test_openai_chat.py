"""What is special to chat completions, and to the servers that imitate them."""

import json

import pytest

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.models.openai_chat import FORMAT
from agentrail.adapters.models.settings import read_settings
from agentrail.adapters.models.sse import ServerEvent
from agentrail.errors import (
    ContextTooLong,
    ModelError,
    Overloaded,
    ProviderFailed,
    RateLimited,
    RequestRefused,
    StreamEndedEarly,
    StreamGarbled,
    TurnAborted,
)
from agentrail.models import (
    PROVIDERS,
    AssistantMessage,
    Image,
    Json,
    JsonObject,
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
from tests.adapters.models import openai_chat_events as chat
from tests.adapters.models.histories import PIXEL, TOOLS, call, result, user
from tests.adapters.models.server import (
    Play,
    Reset,
    Stall,
    Step,
    chunked,
    events,
    head,
    serving,
)
from tests.each_case import each_case
from tests.kit import EMPTY, freeze_object

DONE = "[DONE]"
END = chat.piece("stop")
ATTIC = freeze_object({"room": "attic"})


def answered(*data: object) -> Response:
    decoder = FORMAT.decoder()
    for item in data:
        decoder.feed(ServerEvent("", item if isinstance(item, str) else json.dumps(item)))
    return decoder.response()


def body(provider: str, *messages: Message, **options: Json) -> dict[str, object]:
    request = ModelRequest(f"{provider}:m", (user("hello"), *messages), tools=TOOLS)
    found = FORMAT.render(request, provider, "m", read_settings(freeze_object(options))).body
    whole: dict[str, object] = json.loads(json.dumps(found))
    return whole


def keyless(_: str) -> None:
    """There is no secret of any name."""


def said(provider: str, *parts: Text | Thinking, calls: tuple[ToolCall, ...] = ()) -> AssistantMessage:
    return AssistantMessage(parts, calls, f"{provider}:m")


# Answers of servers that leave out or change something


@pytest.mark.parametrize(
    "pieces",
    [
        [chat.calling(call_id="a", name="lamp", arguments='{"room":"attic"}')],
        [chat.calling(call_id="a", name="lamp", arguments={"room": "attic"})],
        [
            chat.calling(call_id="a", name="lamp"),
            chat.calling(arguments='{"room":'),
            chat.calling(arguments='"attic"}'),
        ],
        [chat.calling(index=None, call_id="a", name="lamp"), chat.calling(index=None, arguments='{"room":"attic"}')],
        [
            chat.calling(index=None, call_id="a", name="lamp", arguments='{"room":'),
            chat.calling(index=None, call_id="a", arguments='"attic"}'),
        ],
        [chat.calling(call_id="a", name="lamp"), chat.calling(call_id="a", name="lamp", arguments='{"room":"attic"}')],
        [chat.calling(call_id="a", name="lamp", arguments=None), chat.calling(name=None, arguments='{"room":"attic"}')],
    ],
)
def test_a_call_comes_in_many_ways(pieces: list[object]) -> None:
    wanted = (ToolCall("", "lamp", ATTIC, "a"),)
    assert answered(*pieces, END, DONE) == Response((), wanted, StopReason.TOOL_CALLS)


@pytest.mark.parametrize(
    ("pieces", "ids"),
    [
        ([chat.calling(index=i, call_id=name, name="lamps") for i, name in enumerate("ab")], ["a", "b"]),
        ([chat.calling(index=0, call_id=name, name="lamps") for name in "ab"], ["a", "b"]),
        ([chat.calling(index=None, call_id=name, name="lamps") for name in "ab"], ["a", "b"]),
        ([chat.calling(index=None, name="lamps", arguments="{}")] * 2, ["", ""]),
        ([chat.calling(index=i, name="lamps", arguments="{}") for i in range(2)], ["", ""]),
    ],
)
def test_calls_are_told_apart(pieces: list[object], ids: list[str]) -> None:
    found = answered(*pieces, chat.piece("tool_calls"))
    assert [(call.name, call.provider_id) for call in found.calls] == [("lamps", name) for name in ids]


@pytest.mark.parametrize(
    ("finish", "stop"),
    [
        ("stop", StopReason.END),
        ("eos", StopReason.END),
        ("tool_calls", StopReason.END),
        ("length", StopReason.LENGTH),
        ("max_tokens", StopReason.LENGTH),
        ("model_length", StopReason.LENGTH),
        ("content_filter", StopReason.REFUSED),
    ],
)
def test_why_it_stopped(finish: str, stop: StopReason) -> None:
    assert answered(chat.piece(content="a"), chat.piece(finish)) == Response((Text("a"),), (), stop)


def test_the_end_needs_a_reason_or_a_mark() -> None:
    assert answered(chat.piece(content="a"), DONE) == Response((Text("a"),))
    assert answered(chat.piece("stop", content="a")) == Response((Text("a"),))
    cut: list[list[object]] = [[], [DONE], [chat.piece(content="a")], [{"choices": []}]]
    for data in cut:
        with pytest.raises(StreamEndedEarly):
            answered(*data)


def test_only_the_mark_completes_the_answer() -> None:
    decoder = FORMAT.decoder()
    for data, complete in ((json.dumps(END), False), ("", False), (DONE, True)):
        decoder.feed(ServerEvent("", data))
        assert decoder.complete is complete


def test_a_refusal_is_text_and_the_reason() -> None:
    assert answered(chat.piece(refusal="No."), END, DONE) == Response((Text("No."),), (), StopReason.REFUSED)


@pytest.mark.parametrize(
    "piece",
    [
        chat.piece(reasoning_content="Hm.", content=None),
        chat.piece(reasoning_content="Hm.", reasoning="Hm."),
    ],
)
def test_thoughts_remember_their_field(piece: object) -> None:
    found = answered(piece, chat.piece(content="Yes."), END)
    assert found.parts == (Thinking("Hm.", "reasoning_content"), Text("Yes."))


def test_content_may_be_a_list() -> None:
    thinking = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]
    found = answered(chat.piece(content=thinking), chat.piece(content=[{"type": "text", "text": "Yes."}]), END)
    assert found.parts == (Thinking("Hm."), Text("Yes."))


@pytest.mark.parametrize(
    "piece",
    [
        {},
        {"choices": None},
        {"choices": []},
        {"choices": [None, 1]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"tool_calls": None, "content": None, "reasoning_details": [1]}, "finish_reason": 7}]},
        "",
        " ",
    ],
)
def test_what_says_nothing_is_passed_over(piece: object) -> None:
    assert answered(chat.piece(content="a"), piece, END) == Response((Text("a"),))


def test_a_server_that_does_not_stream_is_heard_too() -> None:
    message = {"role": "assistant", "content": "a", "tool_calls": None}
    assert answered({"choices": [{"message": message, "finish_reason": "stop"}]}) == Response((Text("a"),))


@pytest.mark.parametrize("found", [[1], 1, "nul", "{"])
def test_what_is_no_object_is_garbled(found: object) -> None:
    with pytest.raises(StreamGarbled):
        answered(found)


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        (chat.counting(9, 8), Usage(9, 8)),
        (chat.counting(9, 8, prompt_cache_hit_tokens=4), Usage(9, 8, 4)),
        (
            chat.counting(9, 8, prompt_tokens_details={"cached_tokens": 4, "cache_write_tokens": 2}),
            Usage(9, 8, 4, cache_write_tokens=2),
        ),
        (chat.counting(9, 8, total_tokens=20, completion_tokens_details={"reasoning_tokens": 3}), Usage(9, 11, 0, 3)),
        ({"x_groq": {"usage": {"prompt_tokens": 9, "completion_tokens": 8}}}, Usage(9, 8)),
        ({"usage": None}, Usage()),
    ],
)
def test_usage_is_counted_in_many_ways(usage: object, wanted: Usage) -> None:
    assert answered(END, usage, DONE).usage == wanted


def test_usage_that_falls_is_not_believed() -> None:
    decoder = FORMAT.decoder()
    pieces = chat.counting(9, 3), chat.counting(9, 8), chat.counting(0, 1)
    counted = [chunk for piece in pieces for chunk in decoder.feed(ServerEvent("", json.dumps(piece)))]
    assert counted == [UsageChunk(Usage(9, 3)), UsageChunk(Usage(9, 8)), UsageChunk(Usage(9, 8))]


@each_case(
    [
        ({"error": {"message": "slow", "type": "tokens", "code": "rate_limit_exceeded"}}, RateLimited),
        (
            {"error": {"message": "slow", "code": 429}, "choices": [{"delta": {}, "finish_reason": "error"}]},
            RateLimited,
        ),
        ({"error": {"message": "no", "type": "BadRequestError", "code": 400}}, RequestRefused),
        ({"error": {"message": "no", "type": "invalid_request_error"}}, RequestRefused),
        ({"error": {"message": "maximum context length is 9", "code": 400}}, ContextTooLong),
        ({"error": "it broke"}, ProviderFailed),
        ({"object": "error", "message": "no", "code": 400}, RequestRefused),
        (chat.piece("error"), ProviderFailed),
        (chat.piece("abort"), ProviderFailed),
        (chat.piece("insufficient_system_resource"), Overloaded),
    ]
)
def test_errors_in_the_stream(found: object, wanted: type[ModelError]) -> None:
    with pytest.raises(wanted):
        answered(chat.piece(content="half"), found)


# Requests in the dialect of each server


@pytest.mark.parametrize(
    ("provider", "options", "wanted"),
    [
        ("openai-chat", {"max_tokens": 9}, {"max_completion_tokens": 9, "stream_options": {"include_usage": True}}),
        ("openai-chat", {"max_tokens": 9, "base_url": "http://127.0.0.1"}, {"max_tokens": 9}),
        ("groq", {"max_tokens": 9}, {"max_completion_tokens": 9}),
        ("ollama", {"max_tokens": 9}, {"max_tokens": 9, "stream_options": {"include_usage": True}}),
        ("mistral", {}, {"stream_options": None}),
        ("openrouter", {"reasoning_effort": "low"}, {"reasoning": {"effort": "low"}, "reasoning_effort": None}),
        ("deepseek", {"reasoning_effort": "none"}, {"thinking": {"type": "disabled"}, "reasoning_effort": None}),
        ("deepseek", {"reasoning_effort": "high"}, {"thinking": None, "reasoning_effort": "high"}),
        ("xai", {"response_format": {}}, {"response_format": {"type": "json_object"}}),
    ],
)
def test_the_dialects(provider: str, options: JsonObject, wanted: dict[str, object]) -> None:
    found = body(provider, **options)
    assert {name: found.get(name) for name in wanted} == wanted


@pytest.mark.parametrize(
    ("provider", "signature", "wanted"),
    [
        ("deepseek", "reasoning_content", {"reasoning_content": "Hm."}),
        ("vllm", "reasoning", {"reasoning": "Hm."}),
        ("openrouter", 'reasoning_details:[{"data":"x"}]', {"reasoning_details": [{"data": "x"}]}),
        ("deepseek", "of-another-kind", {}),
        ("groq", "reasoning", {}),
        ("mistral", "reasoning_content", {}),
    ],
)
def test_thoughts_go_along_where_they_are_taken(provider: str, signature: str, wanted: dict[str, object]) -> None:
    messages = body(provider, said(provider, Thinking("Hm.", signature), Text("Yes.")))["messages"]
    assert isinstance(messages, list)
    assert messages[1] == {"role": "assistant", "content": "Yes.", **wanted}


def test_deepseek_wants_thoughts_with_each_call() -> None:
    found = body("deepseek", said("other", calls=(call("c1", "attic"),)))["messages"]
    assert isinstance(found, list)
    assert found[1]["reasoning_content"] == ""


def test_mistral_wants_ids_of_nine_letters_and_digits() -> None:
    asked = said("mistral", calls=(call("c1", "attic", "Ab3456789"), call("c2", "attic", "call_1")))
    found = body("mistral", asked)["messages"]
    assert isinstance(found, list)
    assert [item["id"] for item in found[1]["tool_calls"]] == ["Ab3456789", "c00000001"]
    assert [item.get("tool_call_id") for item in found[2:4]] == ["Ab3456789", "c00000001"]


@pytest.mark.parametrize("provider", ["mistral", "openai-chat"])
def test_mistral_wants_the_model_to_speak_between_a_result_and_the_user(provider: str) -> None:
    asked = said(provider, calls=(call("c1", "attic", "Ab3456789"),))
    request = ModelRequest("", (asked, result("c1", "dark"), user("rather the cellar")), sections=(("todos", "- tea"),))
    alone = ModelRequest("", (asked, result("c1", "dark")), sections=(("todos", "- tea"),))
    for each in (request, alone):
        found = FORMAT.render(each, provider, "m", read_settings(EMPTY)).body["messages"]
        assert isinstance(found, list)
        roles = [message.get("role") for message in found if isinstance(message, dict)]
        assert roles[-3:] == (["tool", "assistant", "user"] if provider == "mistral" else ["assistant", "tool", "user"])


@each_case(
    [
        ("openrouter", "mistralai/mistral-large-2512", True),
        ("openrouter", "mistralai/mixtral-8x22b-instruct", True),
        ("openrouter", "mistralai/codestral-2508", True),
        ("openai-chat", "Magistral-Small-2509", True),
        ("openai-chat", "mistralai/Ministral-8B-Instruct-2410", True),
        ("vllm", "mistralai/Devstral-Small-2507", True),
        ("together", "mistralai/Mistral-7B-Instruct-v0.3", True),
        ("ollama", "mistral:7b", True),
        ("lmstudio", "pixtral-12b", True),
        ("mistral", "labs-of-tomorrow", True),
        ("openrouter", "meta-llama/llama-3.3-70b-instruct", False),
        ("openai-chat", "gpt-5.4", False),
        ("xai", "grok-4.3", False),
    ]
)
def test_a_model_of_mistral_is_known_by_its_name_at_any_server(provider: str, model: str, bridged: bool) -> None:
    asked = said(provider, calls=(call("c1", "attic", "Ab3456789"),))
    request = ModelRequest("", (user("look"), asked, result("c1", "dark"), user("rather the cellar")))
    found = FORMAT.render(request, provider, model, read_settings(EMPTY)).body["messages"]
    assert isinstance(found, list)
    roles = [message.get("role") for message in found if isinstance(message, dict)]
    assert roles == ["user", "assistant", "tool", *(["assistant"] if bridged else []), "user"]


def test_a_tool_that_returns_only_an_image_says_so() -> None:
    asked = said("openai-chat", calls=(call("c1", "attic", "id_1"),))
    result = ToolMessage("c1", "lamp", (Image("image/png", PIXEL),))
    assert body("openai-chat", asked, result, user("well?"))["messages"][2:] == [  # type: ignore[index]
        {"role": "tool", "tool_call_id": "id_1", "content": "(the image follows)"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "The image that `lamp` returned:"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                {"type": "text", "text": "well?"},
            ],
        },
    ]


@each_case([name for name, found in PROVIDERS.items() if found.format == "openai_chat"])
def test_each_server_has_an_address_and_a_local_one_needs_no_key(name: str) -> None:
    provider = PROVIDERS[name]
    assert provider.base_url.startswith("https://") == bool(provider.keys)
    assert provider.keys or provider.base_url.startswith("http://127.0.0.1:")
    assert FORMAT.render(ModelRequest("", (user("a"),)), name, "m", read_settings(EMPTY)).path == "/chat/completions"


@pytest.mark.parametrize("last", [(), (Stall(),), (Reset(),), (b"7\r\nbro",)])
async def test_an_answer_is_whole_when_it_says_why_it_stopped_however_the_stream_ends(last: tuple[Step, ...]) -> None:
    said = events(chat.piece(content="well"), chat.piece("stop"), named=False)
    play = Play((head(200, "transfer-encoding: chunked"), *chunked([said])[:1], *last))
    half = Play((head(200, "transfer-encoding: chunked"), *chunked([said[:-30]])[:1], *last))
    async with serving(play, half) as server, open_supervisor(secrets=keyless) as supervisor:
        options: dict[str, Json] = {"base_url": server.url, "next_byte_timeout": 0.1}
        session = await supervisor.spawn(SessionSpec(model="vllm:m", model_options=options, max_retries=0))
        assert (await session.ask("hello")).text == "well"
        with pytest.raises(TurnAborted, match=r"ended early|did not go on"):
            await session.ask("hello")


def test_a_name_that_is_new_begins_a_call_where_servers_count_none() -> None:
    pieces = (
        chat.calling(index=0, name="lamps", arguments="null"),
        chat.calling(index=0, name="lamp", arguments='{"room":'),
        chat.calling(index=0, name="lamp", arguments='"attic"}'),
    )
    assert [(call.name, dict(call.args)) for call in answered(*pieces, chat.piece("tool_calls")).calls] == [
        ("lamps", {}),
        ("lamp", {"room": "attic"}),
    ]
