"""What the official SDKs say of our requests and of the streams we recorded, and what we make of what they write."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from typing import cast, get_args

import pytest
from anthropic.types import (
    InputJSONDelta,
    MessageDeltaUsage,
    RawContentBlockDeltaEvent,
    RawContentBlockStartEvent,
    RawContentBlockStopEvent,
    RawMessageDeltaEvent,
    RawMessageStartEvent,
    RawMessageStopEvent,
    RawMessageStreamEvent,
    SignatureDelta,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ThinkingDelta,
    ToolUseBlock,
)
from anthropic.types import Message as AnthropicMessage
from anthropic.types import Usage as AnthropicUsage
from anthropic.types.anthropic_beta_param import AnthropicBetaParam
from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming as BetaMessageCreateParamsStreaming
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from anthropic.types.raw_message_delta_event import Delta
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import (
    Choice,
    ChoiceDelta,
    ChoiceDeltaToolCall,
    ChoiceDeltaToolCallFunction,
)
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.completion_usage import CompletionTokensDetails, PromptTokensDetails
from openai.types.responses import Response as OpenAIResponse
from openai.types.responses import (
    ResponseCompletedEvent,
    ResponseFunctionCallArgumentsDeltaEvent,
    ResponseFunctionToolCall,
    ResponseIncompleteEvent,
    ResponseOutputItemAddedEvent,
    ResponseOutputItemDoneEvent,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
    ResponseReasoningSummaryTextDeltaEvent,
    ResponseStreamEvent,
    ResponseTextDeltaEvent,
    ResponseUsage,
)
from openai.types.responses.response import IncompleteDetails
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from openai.types.responses.response_reasoning_item import Summary
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails
from pydantic import BaseModel, ConfigDict, TypeAdapter
from typing_extensions import is_typeddict

from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.settings import read_settings
from agentrail.adapters.models.sse import EventReader
from agentrail.models import PROVIDERS, Response, StopReason, Text, Thinking, ToolCall, Usage
from tests.adapters.models.goldens import SEARCHING, rendered
from tests.adapters.models.histories import SETTINGS, histories
from tests.adapters.models.server import recorded
from tests.kit import EMPTY, freeze_object

REQUESTS: dict[str, type[object]] = {
    "anthropic": MessageCreateParamsStreaming,
    "openai": ResponseCreateParamsStreaming,
    "openai-chat": CompletionCreateParamsStreaming,
}
EVENTS: dict[str, TypeAdapter[object]] = {
    "anthropic": TypeAdapter(RawMessageStreamEvent),
    "openai": TypeAdapter(ResponseStreamEvent),
    "openai-chat": TypeAdapter(ChatCompletionChunk),
}
NAMES = (*histories("", ""), *(f"options_{name}" for name in SETTINGS))
STREAMS = (
    "anthropic_tools",
    "anthropic_refusal",
    "anthropic_cut",
    "openai_tools",
    "openai_refusal",
    "openai_cut",
    "openai-chat_tools",
)
OLD = {"anthropic": {"temperature"}}
"""Fields that older models take and the SDK of today has dropped."""
NOT_THEIRS = {"lamp_broken", "ping"}
"""Events that the types leave out: one that nobody knows yet, and a sign of life."""
STRICT = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
OPEN = ConfigDict(extra="allow", arbitrary_types_allowed=True)
"""Of types that say themselves that they take any field."""


@pytest.fixture(scope="module")
def adapters() -> dict[str, TypeAdapter[object]]:
    """Readers of requests that refuse what the SDKs do not know."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("openai.types", "anthropic.types")):
            for found in vars(module).values():
                if is_typeddict(found):
                    found.__pydantic_config__ = OPEN if vars(found).get("__extra_items__") is object else STRICT
    kinds = {**REQUESTS, "anthropic-beta": BetaMessageCreateParamsStreaming}
    return {provider: TypeAdapter(kind) for provider, kind in kinds.items()}


def read(adapter: TypeAdapter[object], body: object) -> object:
    """Read *body* to its end: what is iterable is read only when somebody looks."""
    return _whole(adapter.validate_python(body))


def _whole(found: object) -> object:
    if isinstance(found, Mapping):
        return {key: _whole(item) for key, item in cast("Mapping[str, object]", found).items()}
    if found is None or isinstance(found, str | int | float):
        return found
    return [_whole(item) for item in cast("Iterable[object]", found)]


# What we send


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("provider", REQUESTS)
def test_what_we_send_is_what_the_sdk_would_send(
    adapters: dict[str, TypeAdapter[object]], provider: str, name: str
) -> None:
    whole = json.loads(json.dumps(rendered(provider)[name].body))
    body = {key: item for key, item in whole.items() if key not in OLD.get(provider, ())}
    assert read(adapters[provider], body) == body


@pytest.mark.parametrize("provider", SEARCHING)
def test_tools_on_demand_in_the_form_of_the_provider_are_what_the_sdk_would_send(
    adapters: dict[str, TypeAdapter[object]], provider: str
) -> None:
    body = json.loads(json.dumps(rendered(provider)["options_tool_search"].body))
    assert read(adapters[provider], body) == body
    assert ("defer_loading" in str(body), "tool_search" in str(body)) == (True, provider == "openai")


@pytest.mark.parametrize("name", histories("", ""))
def test_what_we_ask_of_models_that_bind_thoughts_is_what_the_sdk_would_ask(
    adapters: dict[str, TypeAdapter[object]], name: str
) -> None:
    history = histories("anthropic:claude-haiku-5-5", "elsewhere:some-model")[name]
    found = format_of(PROVIDERS["anthropic"]).render(history, "anthropic", "claude-haiku-5-5", read_settings(EMPTY))
    body = json.loads(json.dumps(found.body))
    assert read(adapters["anthropic-beta"], body) == body
    assert found.headers["anthropic-beta"] in get_args(get_args(AnthropicBetaParam)[1])


@pytest.mark.parametrize("provider", REQUESTS)
def test_the_sdk_would_notice_a_field_that_is_not_there(
    adapters: dict[str, TypeAdapter[object]], provider: str
) -> None:
    for place in ((), ("tools", 0), ("input" if provider == "openai" else "messages", 0)):
        body = json.loads(json.dumps(rendered(provider)["tools"].body))
        inside = body
        for key in place:
            inside = inside[key]
        inside["no_such_field"] = 1
        with pytest.raises(ValueError, match="no_such_field"):
            read(adapters[provider], body)


# What we recorded


@pytest.mark.parametrize("name", STREAMS)
def test_what_we_recorded_is_what_the_sdk_would_read(name: str) -> None:
    adapter = EVENTS[name.partition("_")[0]]
    for event in EventReader().feed(recorded(f"{name}.sse")):
        if event.name not in NOT_THEIRS and event.data != "[DONE]":
            adapter.validate_json(event.data)


# What they write


def answered(provider: str, *events: BaseModel) -> Response:
    decoder = format_of(PROVIDERS[provider]).decoder()
    written = "".join(f"data: {event.model_dump_json()}\n\n" for event in events)
    for event in EventReader().feed(written.encode()):
        decoder.feed(event)
    return decoder.response()


def whole_response(status: str, **changes: object) -> OpenAIResponse:
    usage = ResponseUsage(
        input_tokens=9,
        input_tokens_details=InputTokensDetails(cached_tokens=3, cache_write_tokens=0),
        output_tokens=8,
        output_tokens_details=OutputTokensDetails(reasoning_tokens=2),
        total_tokens=17,
    )
    given: dict[str, object] = {
        "id": "resp_1",
        "created_at": 1.0,
        "model": "gpt-5.4",
        "object": "response",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": status,
        "usage": usage,
    }
    return OpenAIResponse.model_validate(given | changes)


THOUGHT = ResponseReasoningItem(
    id="rs_1", type="reasoning", summary=[Summary(text="Hm.", type="summary_text")], encrypted_content="gAAA"
)
SPOKEN = ResponseOutputMessage(
    id="msg_1",
    type="message",
    role="assistant",
    status="completed",
    content=[ResponseOutputText(type="output_text", text="I look.", annotations=[])],
)
CALLED = ResponseFunctionToolCall(
    type="function_call", id="fc_1", call_id="call_1", name="lamp", arguments='{"room":"attic"}'
)
OF_OPENAI = Response(
    (Thinking("Hm.", "reasoning:rs_1:gAAA"), Text("I look.")),
    (ToolCall("", "lamp", freeze_object({"room": "attic"}), "call_1"),),
    StopReason.TOOL_CALLS,
    Usage(9, 8, 3, 2),
)


def test_a_response_in_pieces() -> None:
    bare = SPOKEN.model_copy(update={"content": []})
    asking = CALLED.model_copy(update={"arguments": ""})
    events = [
        ResponseOutputItemAddedEvent(
            type="response.output_item.added",
            sequence_number=0,
            output_index=0,
            item=THOUGHT.model_copy(update={"summary": []}),
        ),
        ResponseReasoningSummaryTextDeltaEvent(
            type="response.reasoning_summary_text.delta",
            sequence_number=1,
            output_index=0,
            item_id="rs_1",
            summary_index=0,
            delta="Hm.",
        ),
        ResponseOutputItemDoneEvent(type="response.output_item.done", sequence_number=2, output_index=0, item=THOUGHT),
        ResponseOutputItemAddedEvent(type="response.output_item.added", sequence_number=3, output_index=1, item=bare),
        *(
            ResponseTextDeltaEvent(
                type="response.output_text.delta",
                sequence_number=4,
                output_index=1,
                content_index=0,
                item_id="msg_1",
                delta=piece,
                logprobs=[],
            )
            for piece in ("I ", "look.")
        ),
        ResponseOutputItemDoneEvent(type="response.output_item.done", sequence_number=6, output_index=1, item=SPOKEN),
        ResponseOutputItemAddedEvent(type="response.output_item.added", sequence_number=7, output_index=2, item=asking),
        *(
            ResponseFunctionCallArgumentsDeltaEvent(
                type="response.function_call_arguments.delta",
                sequence_number=8,
                output_index=2,
                item_id="fc_1",
                delta=piece,
            )
            for piece in ('{"room":', '"attic"}')
        ),
        ResponseOutputItemDoneEvent(type="response.output_item.done", sequence_number=10, output_index=2, item=CALLED),
        ResponseCompletedEvent(
            type="response.completed",
            sequence_number=11,
            response=whole_response("completed", output=[THOUGHT, SPOKEN, CALLED]),
        ),
    ]
    assert answered("openai", *events) == OF_OPENAI


def test_a_response_of_which_only_the_end_tells() -> None:
    end = ResponseCompletedEvent(
        type="response.completed",
        sequence_number=0,
        response=whole_response("completed", output=[THOUGHT, SPOKEN, CALLED]),
    )
    assert answered("openai", end) == OF_OPENAI


@pytest.mark.parametrize(
    ("reason", "stop"), [("max_output_tokens", StopReason.LENGTH), ("content_filter", StopReason.REFUSED)]
)
def test_a_response_that_is_incomplete(reason: str, stop: StopReason) -> None:
    details = IncompleteDetails.model_validate({"reason": reason})
    end = ResponseIncompleteEvent(
        type="response.incomplete",
        sequence_number=0,
        response=whole_response("incomplete", output=[SPOKEN], incomplete_details=details),
    )
    assert answered("openai", end) == Response((Text("I look."),), (), stop, Usage(9, 8, 3, 2))


def chat_chunk(delta: ChoiceDelta, finish: str | None = None) -> ChatCompletionChunk:
    choice = Choice.model_validate({"index": 0, "delta": delta.model_dump(), "finish_reason": finish})
    return ChatCompletionChunk(
        id="chatcmpl-1", object="chat.completion.chunk", created=1, model="gpt-4.1", choices=[choice]
    )


def chat_call(index: int, written: str, call_id: str | None = None, name: str | None = None) -> ChatCompletionChunk:
    function = ChoiceDeltaToolCallFunction(name=name, arguments=written)
    call = ChoiceDeltaToolCall(index=index, id=call_id, function=function, type="function" if call_id else None)
    return chat_chunk(ChoiceDelta(tool_calls=[call]))


def test_a_chat_completion_in_pieces() -> None:
    usage = CompletionUsage(
        prompt_tokens=9,
        completion_tokens=8,
        total_tokens=17,
        prompt_tokens_details=PromptTokensDetails(cached_tokens=3),
        completion_tokens_details=CompletionTokensDetails(reasoning_tokens=2),
    )
    last = chat_chunk(ChoiceDelta()).model_copy(update={"choices": [], "usage": usage})
    events = [
        chat_chunk(ChoiceDelta(role="assistant", content="")),
        chat_chunk(ChoiceDelta(content="I ")),
        chat_chunk(ChoiceDelta(content="look.")),
        chat_call(0, "", "call_1", "lamp"),
        chat_call(1, "", "call_2", "lamps"),
        chat_call(0, '{"room":'),
        chat_call(1, "{}"),
        chat_call(0, '"attic"}'),
        chat_chunk(ChoiceDelta(), "tool_calls"),
        last,
    ]
    assert answered("openai-chat", *events) == Response(
        (Text("I look."),),
        (
            ToolCall("", "lamp", freeze_object({"room": "attic"}), "call_1"),
            ToolCall("", "lamps", provider_id="call_2"),
        ),
        StopReason.TOOL_CALLS,
        Usage(9, 8, 3, 2),
    )


def anthropic_block(index: int, block: object, *deltas: object) -> list[BaseModel]:
    start = {"type": "content_block_start", "index": index, "content_block": block}
    return [
        RawContentBlockStartEvent.model_validate(start),
        *(
            RawContentBlockDeltaEvent.model_validate({"type": "content_block_delta", "index": index, "delta": delta})
            for delta in deltas
        ),
        RawContentBlockStopEvent(type="content_block_stop", index=index),
    ]


def test_a_message_in_pieces() -> None:
    begun = AnthropicMessage.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-5",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": AnthropicUsage(input_tokens=6, output_tokens=1, cache_read_input_tokens=3),
        }
    )
    tool = ToolUseBlock(type="tool_use", id="toolu_1", name="lamp", input={})
    delta = Delta.model_validate({"stop_reason": "tool_use", "stop_sequence": None})
    events = [
        RawMessageStartEvent(type="message_start", message=begun),
        *anthropic_block(
            0,
            ThinkingBlock(type="thinking", thinking="", signature=""),
            ThinkingDelta(type="thinking_delta", thinking="Hm."),
            SignatureDelta(type="signature_delta", signature="c2VhbA=="),
        ),
        *anthropic_block(
            1,
            TextBlock(type="text", text=""),
            TextDelta(type="text_delta", text="I "),
            TextDelta(type="text_delta", text="look."),
        ),
        *anthropic_block(2, tool, InputJSONDelta(type="input_json_delta", partial_json='{"room":"attic"}')),
        RawMessageDeltaEvent(type="message_delta", delta=delta, usage=MessageDeltaUsage(output_tokens=8)),
        RawMessageStopEvent(type="message_stop"),
    ]
    assert answered("anthropic", *events) == Response(
        (Thinking("Hm.", "c2VhbA=="), Text("I look.")),
        (ToolCall("", "lamp", freeze_object({"room": "attic"}), "toolu_1"),),
        StopReason.TOOL_CALLS,
        Usage(9, 8, 3),
    )
