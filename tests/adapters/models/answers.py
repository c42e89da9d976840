"""Answers that are made by chance, written with the types of the official SDKs, and read by their clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Final

import anthropic
import openai
from anthropic import types as claude
from attrs import frozen
from google import genai
from google.genai import types as gemini
from openai.types import CompletionUsage, chat, responses
from pydantic import BaseModel

from tests.adapters.models.official import KEYS, MODELS

PIECES: Final = (
    "I ",
    "look",
    ".",
    " ",
    "\n\n",
    "süß ",
    "漢字",
    "🙂",
    '"',
    "\\",
    "\u2028",
    "</think>",
    "<b>",
    "\t",
    "data: x",
)
NAMES: Final = ("lamp", "lamps", "a-b_c", "x" * 64)
VALUES: Final[tuple[object, ...]] = (
    "attic",
    "",
    'a "quoted" \\ 🙂\n',
    0,
    -1,
    2**53,
    1.5,
    True,
    None,
    [],
    {},
    [1, [2, {"a": "ü"}]],
    {"": ""},
)


@frozen
class Called:
    """A call of a tool."""

    id: str
    name: str
    args: Mapping[str, object]


@frozen
class Heard:
    """What an answer says, whoever reads it."""

    text: str
    thought: str
    calls: tuple[Called, ...]
    stop: str
    """`end`, `length`, `calls` or `refused`."""
    read: int
    """Tokens read, those from the cache included."""
    cached: int
    written: int
    """Tokens written, those of thoughts included."""


@frozen
class Drawn:
    """An answer that was drawn, in its pieces."""

    heard: Heard
    text: tuple[str, ...]
    thought: tuple[str, ...]
    thought_tokens: int


def drawn(random: Random, provider: str) -> Drawn:
    """Draw an answer as *provider* may give it."""
    thoughts = () if provider == "openai-chat" else tuple(random.choices(PIECES, k=random.choice((0, 0, 3))))
    texts = tuple(random.choices(PIECES, k=random.choice((0, 1, 2, 8))))
    calls = tuple(
        Called(
            f"call_{number}",
            random.choice(NAMES),
            {f"k{i}": random.choice(VALUES) for i in range(random.choice((0, 1, 3)))},
        )
        for number in range(random.choice((0, 0, 1, 2, 5)))
    )
    stop = "calls" if calls else random.choice(("end", "end", "length", "refused"))
    if not calls and not "".join(texts).strip():
        texts = ("I ", "look.")
    cached = random.choice((0, 0, 7))
    heard = Heard(
        "".join(texts),
        "".join(thoughts),
        calls,
        stop,
        cached + random.randrange(1, 9_999),
        cached,
        random.randrange(20, 999),
    )
    return Drawn(heard, texts, thoughts, 9 if "".join(thoughts) else 0)


def cut(random: Random, text: str) -> list[str]:
    """Cut *text* anywhere."""
    places = sorted(random.choices(range(len(text) + 1), k=3))
    pieces = [text[first:last] for first, last in zip([0, *places], [*places, len(text)], strict=True)]
    return [piece for piece in pieces if piece]


def events(models: Iterator[BaseModel], *, named: bool, alias: bool = False) -> bytes:
    """Return the SDK's own values as server-sent events."""
    found = b""
    for model in models:
        data = model.model_dump_json(by_alias=True, exclude_none=True) if alias else model.model_dump_json()
        name = f"event: {json.loads(data)['type']}\n" if named else ""
        found += f"{name}data: {data}\n\n".encode()
    return found


# Anthropic

CLAUDE_STOPS: Final = {"end": "end_turn", "length": "max_tokens", "calls": "tool_use", "refused": "refusal"}


def claude_events(random: Random, answer: Drawn) -> Iterator[BaseModel]:
    heard = answer.heard
    usage = claude.Usage(input_tokens=heard.read - heard.cached, output_tokens=1, cache_read_input_tokens=heard.cached)
    yield claude.RawMessageStartEvent(
        type="message_start",
        message=claude.Message.model_construct(
            id="msg_1",
            type="message",
            role="assistant",
            model=MODELS["anthropic"],
            content=[],
            usage=usage,
            stop_reason=None,
            stop_sequence=None,
        ),
    )
    blocks: list[tuple[BaseModel, Sequence[BaseModel]]] = []
    if answer.thought:
        blocks.append(
            (
                claude.ThinkingBlock(type="thinking", thinking="", signature=""),
                [
                    *(claude.ThinkingDelta(type="thinking_delta", thinking=piece) for piece in answer.thought),
                    claude.SignatureDelta(type="signature_delta", signature="c2VhbA=="),
                ],
            )
        )
    if answer.text:
        blocks.append(
            (
                claude.TextBlock(type="text", text=""),
                [claude.TextDelta(type="text_delta", text=piece) for piece in answer.text],
            )
        )
    for call in heard.calls:
        pieces = cut(random, json.dumps(call.args)) if call.args else []
        blocks.append(
            (
                claude.ToolUseBlock(type="tool_use", id=call.id, name=call.name, input={}),
                [claude.InputJSONDelta(type="input_json_delta", partial_json=piece) for piece in pieces],
            )
        )
    for index, (block, deltas) in enumerate(blocks):
        yield claude.RawContentBlockStartEvent.model_construct(
            type="content_block_start", index=index, content_block=block
        )
        for delta in deltas:
            yield claude.RawContentBlockDeltaEvent.model_construct(type="content_block_delta", index=index, delta=delta)
        yield claude.RawContentBlockStopEvent(type="content_block_stop", index=index)
    yield claude.RawMessageDeltaEvent.model_construct(
        type="message_delta",
        delta={"stop_reason": CLAUDE_STOPS[heard.stop], "stop_sequence": None},
        usage=claude.MessageDeltaUsage(output_tokens=heard.written),
    )
    yield claude.RawMessageStopEvent(type="message_stop")


def claude_read(url: str) -> Heard:
    with (
        anthropic.Anthropic(api_key=KEYS["anthropic"], base_url=url, max_retries=0) as client,
        client.messages.stream(
            model=MODELS["anthropic"], max_tokens=9, messages=[{"role": "user", "content": "hello"}]
        ) as stream,
    ):
        message = stream.get_final_message()
    stops = {there: here for here, there in CLAUDE_STOPS.items()}
    cached, stored = message.usage.cache_read_input_tokens or 0, message.usage.cache_creation_input_tokens or 0
    return Heard(
        "".join(block.text for block in message.content if block.type == "text"),
        "".join(block.thinking for block in message.content if block.type == "thinking"),
        tuple(
            Called(block.id, block.name, _mapping(block.input)) for block in message.content if block.type == "tool_use"
        ),
        stops[str(message.stop_reason)],
        message.usage.input_tokens + cached + stored,
        cached,
        message.usage.output_tokens,
    )


def _mapping(found: object) -> Mapping[str, object]:
    assert isinstance(found, dict)
    return found


# OpenAI, responses

INCOMPLETE: Final = {"length": "max_output_tokens", "refused": "content_filter"}


def responses_events(random: Random, answer: Drawn) -> Iterator[BaseModel]:
    heard = answer.heard
    items: list[BaseModel] = []
    if answer.thought:
        summary = responses.response_reasoning_item.Summary(type="summary_text", text=heard.thought)
        items.append(
            responses.ResponseReasoningItem(id="rs_1", type="reasoning", summary=[summary], encrypted_content="gAAA")
        )
    if answer.text:
        said = responses.ResponseOutputText(type="output_text", text=heard.text, annotations=[])
        items.append(
            responses.ResponseOutputMessage(
                id="msg_1", type="message", role="assistant", status="completed", content=[said]
            )
        )
    items += [
        responses.ResponseFunctionToolCall(
            type="function_call", id=f"fc_{call.id}", call_id=call.id, name=call.name, arguments=json.dumps(call.args)
        )
        for call in heard.calls
    ]
    number = iter(range(10_000))
    yield responses.ResponseCreatedEvent(
        type="response.created", sequence_number=next(number), response=_response("in_progress", [], None)
    )
    told = items if random.randrange(4) else ()  # of every fourth answer only the end tells
    for index, item in enumerate(told):
        yield from _item_events(random, answer, index, item, number)
    usage = responses.ResponseUsage.model_validate(
        {
            "input_tokens": heard.read,
            "input_tokens_details": {"cached_tokens": heard.cached, "cache_write_tokens": 0},
            "output_tokens": heard.written,
            "output_tokens_details": {"reasoning_tokens": answer.thought_tokens},
            "total_tokens": heard.read + heard.written,
        }
    )
    if heard.stop in INCOMPLETE:
        whole = _response("incomplete", items, usage, reason=INCOMPLETE[heard.stop])
        yield responses.ResponseIncompleteEvent(
            type="response.incomplete", sequence_number=next(number), response=whole
        )
    else:
        whole = _response("completed", items, usage)
        yield responses.ResponseCompletedEvent(type="response.completed", sequence_number=next(number), response=whole)


def _item_events(
    random: Random, answer: Drawn, index: int, item: BaseModel, number: Iterator[int]
) -> Iterator[BaseModel]:
    bare: dict[str, object] = {"summary": []} if isinstance(item, responses.ResponseReasoningItem) else {"content": []}
    begun = item.model_copy(update={"arguments": ""} if isinstance(item, responses.ResponseFunctionToolCall) else bare)
    yield responses.ResponseOutputItemAddedEvent.model_construct(
        type="response.output_item.added", sequence_number=next(number), output_index=index, item=begun
    )
    match item:
        case responses.ResponseReasoningItem():
            part = {"type": "summary_text", "text": ""}
            yield responses.ResponseReasoningSummaryPartAddedEvent.model_validate(
                {
                    "type": "response.reasoning_summary_part.added",
                    "sequence_number": next(number),
                    "item_id": "rs_1",
                    "output_index": index,
                    "summary_index": 0,
                    "part": part,
                }
            )
            for piece in answer.thought:
                yield responses.ResponseReasoningSummaryTextDeltaEvent(
                    type="response.reasoning_summary_text.delta",
                    sequence_number=next(number),
                    output_index=index,
                    item_id="rs_1",
                    summary_index=0,
                    delta=piece,
                )
        case responses.ResponseOutputMessage():
            yield responses.ResponseContentPartAddedEvent.model_validate(
                {
                    "type": "response.content_part.added",
                    "sequence_number": next(number),
                    "item_id": "msg_1",
                    "output_index": index,
                    "content_index": 0,
                    "part": {"type": "output_text", "text": "", "annotations": []},
                }
            )
            for piece in answer.text:
                yield responses.ResponseTextDeltaEvent(
                    type="response.output_text.delta",
                    sequence_number=next(number),
                    output_index=index,
                    content_index=0,
                    item_id="msg_1",
                    delta=piece,
                    logprobs=[],
                )
        case responses.ResponseFunctionToolCall():
            for piece in cut(random, item.arguments):
                yield responses.ResponseFunctionCallArgumentsDeltaEvent(
                    type="response.function_call_arguments.delta",
                    sequence_number=next(number),
                    output_index=index,
                    item_id=item.id or "",
                    delta=piece,
                )
        case _:
            raise AssertionError(item)
    yield responses.ResponseOutputItemDoneEvent.model_construct(
        type="response.output_item.done", sequence_number=next(number), output_index=index, item=item
    )


def _response(
    status: str, items: Sequence[BaseModel], usage: BaseModel | None, *, reason: str = ""
) -> responses.Response:
    return responses.Response.model_validate(
        {
            "id": "resp_1",
            "created_at": 1.0,
            "model": MODELS["openai"],
            "object": "response",
            "output": [item.model_dump() for item in items],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "status": status,
            "usage": None if usage is None else usage.model_dump(),
            "incomplete_details": {"reason": reason} if reason else None,
        }
    )


ENDS: Final = (responses.ResponseCompletedEvent, responses.ResponseIncompleteEvent)


def responses_read(url: str) -> Heard:
    with (
        openai.OpenAI(api_key=KEYS["openai"], base_url=url, max_retries=0) as client,
        client.responses.stream(model=MODELS["openai"], input="hello") as stream,
    ):
        found = [event.response for event in stream if isinstance(event, ENDS)]
    (whole,) = found
    calls = tuple(
        Called(item.call_id, item.name, _mapping(json.loads(item.arguments)))
        for item in whole.output
        if item.type == "function_call"
    )
    reasons = {there: here for here, there in INCOMPLETE.items()}
    cut_off = whole.incomplete_details
    stop = reasons[str(cut_off.reason)] if cut_off is not None else "calls" if calls else "end"
    assert whole.usage is not None
    thoughts = [part.text for item in whole.output if item.type == "reasoning" for part in item.summary]
    return Heard(
        whole.output_text,
        "".join(thoughts),
        calls,
        stop,
        whole.usage.input_tokens,
        whole.usage.input_tokens_details.cached_tokens,
        whole.usage.output_tokens,
    )


# OpenAI, chat completions

CHAT_STOPS: Final = {"end": "stop", "length": "length", "calls": "tool_calls", "refused": "content_filter"}


def chat_events(random: Random, answer: Drawn) -> Iterator[BaseModel]:
    heard = answer.heard
    yield _chunk({"role": "assistant", "content": ""})
    for piece in answer.text:
        yield _chunk({"content": piece})
    pieces: list[tuple[int, str]] = []
    for index, call in enumerate(heard.calls):
        head = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        yield _chunk({"tool_calls": [head]})
        pieces += [(index, piece) for piece in cut(random, json.dumps(call.args))]
    for index, piece in pieces:
        yield _chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield _chunk({}, CHAT_STOPS[heard.stop])
    usage = CompletionUsage.model_validate(
        {
            "prompt_tokens": heard.read,
            "completion_tokens": heard.written,
            "total_tokens": heard.read + heard.written,
            "prompt_tokens_details": {"cached_tokens": heard.cached},
        }
    )
    yield _chunk({}).model_copy(update={"choices": [], "usage": usage})


def _chunk(delta: Mapping[str, object], finish: str | None = None) -> chat.ChatCompletionChunk:
    return chat.ChatCompletionChunk.model_validate(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": MODELS["openai-chat"],
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        }
    )


def chat_read(url: str) -> Heard:
    with openai.OpenAI(api_key=KEYS["openai"], base_url=url, max_retries=0) as client:
        parts = list(
            client.chat.completions.create(
                model=MODELS["openai-chat"],
                messages=[{"role": "user", "content": "hello"}],
                stream=True,
                stream_options={"include_usage": True},
            )
        )
    text, stop, usage = "", "", None
    calls: dict[int, list[str]] = {}
    for part in parts:
        usage = part.usage or usage
        for choice in part.choices:
            text += choice.delta.content or ""
            stop = choice.finish_reason or stop
            for call in choice.delta.tool_calls or ():
                found = calls.setdefault(call.index, ["", "", ""])
                function = call.function
                for index, more in enumerate((call.id, function and function.name, function and function.arguments)):
                    found[index] += more or ""
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    return Heard(
        text,
        "",
        tuple(Called(found[0], found[1], _mapping(json.loads(found[2]))) for found in calls.values()),
        {there: here for here, there in CHAT_STOPS.items()}[stop],
        usage.prompt_tokens,
        usage.prompt_tokens_details.cached_tokens or 0,
        usage.completion_tokens,
    )


# Google

GEMINI_STOPS: Final = {
    "end": gemini.FinishReason.STOP,
    "calls": gemini.FinishReason.STOP,
    "length": gemini.FinishReason.MAX_TOKENS,
    "refused": gemini.FinishReason.SAFETY,
}


def gemini_events(random: Random, answer: Drawn) -> Iterator[BaseModel]:
    heard = answer.heard
    for piece in answer.thought:
        yield _content(gemini.Part(text=piece, thought=True))
    for piece in answer.text:
        yield _content(gemini.Part(text=piece))
    asked = [
        gemini.Part(function_call=gemini.FunctionCall(id=call.id, name=call.name, args=dict(call.args)))
        for call in heard.calls
    ]
    if random.choice((True, False)):
        for part in asked:
            yield _content(part)
        asked = []
    usage = gemini.GenerateContentResponseUsageMetadata(
        prompt_token_count=heard.read,
        cached_content_token_count=heard.cached or None,
        candidates_token_count=heard.written - answer.thought_tokens,
        thoughts_token_count=answer.thought_tokens or None,
        total_token_count=heard.read + heard.written,
    )
    last = _content(*asked, finish=GEMINI_STOPS[heard.stop])
    yield last.model_copy(update={"usage_metadata": usage})


def _content(*parts: gemini.Part, finish: gemini.FinishReason | None = None) -> gemini.GenerateContentResponse:
    content = gemini.Content(role="model", parts=list(parts))
    candidate = gemini.Candidate(content=content, finish_reason=finish, index=0)
    return gemini.GenerateContentResponse(candidates=[candidate], response_id="r_1")


def gemini_read(url: str) -> Heard:
    client = genai.Client(api_key=KEYS["gemini"], http_options=gemini.HttpOptions(base_url=url))
    try:
        parts = list(client.models.generate_content_stream(model=MODELS["gemini"], contents="hello"))
    finally:
        client.close()
    said: list[gemini.Part] = []
    finish: gemini.FinishReason | None = None
    usage = gemini.GenerateContentResponseUsageMetadata()
    for part in parts:
        usage = part.usage_metadata or usage
        for candidate in part.candidates or ():
            finish = candidate.finish_reason or finish
            said += (candidate.content and candidate.content.parts) or ()
    calls = tuple(
        Called(found.id or "", found.name or "", found.args or {})
        for part in said
        if (found := part.function_call) is not None
    )
    stops = {there: here for here, there in GEMINI_STOPS.items() if here != "calls"}
    return Heard(
        "".join(part.text or "" for part in said if not part.thought),
        "".join(part.text or "" for part in said if part.thought),
        calls,
        "calls" if calls else stops[finish] if finish is not None else "",
        usage.prompt_token_count or 0,
        usage.cached_content_token_count or 0,
        (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0),
    )


WRITTEN: Final[Mapping[str, Callable[[Random, Drawn], bytes]]] = {
    "anthropic": lambda random, answer: events(claude_events(random, answer), named=True),
    "openai": lambda random, answer: events(responses_events(random, answer), named=True),
    "openai-chat": lambda random, answer: events(chat_events(random, answer), named=False) + b"data: [DONE]\n\n",
    "gemini": lambda random, answer: events(gemini_events(random, answer), named=False, alias=True),
}
READ: Final[Mapping[str, Callable[[str], Heard]]] = {
    "anthropic": claude_read,
    "openai": responses_read,
    "openai-chat": chat_read,
    "gemini": gemini_read,
}
