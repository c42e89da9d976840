"""The official SDKs, told the stories as their documentation says: what they send is what ours is held against.

Nothing here is taken from our own rendering. The clients are the synchronous ones.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, TypeAlias

import anthropic
import openai
from google import genai
from google.genai import types
from openai.types.responses import ResponseOutputItemDoneEvent, ResponseToolSearchCall

from tests.adapters.models.histories import LAMP
from tests.adapters.models.stories import ANSWER, Answered, Asks, Move, Results, Says, Story

Body: TypeAlias = dict[str, Any]
"""The arguments of a call of an SDK, as its documentation writes them."""
Ask: TypeAlias = Callable[[Body], list[object]]

KEYS: Final = {
    "anthropic": "sk-ant-0123456789",
    "openai": "sk-0123456789",
    "openai-chat": "sk-0123456789",
    "gemini": "AIza-0123456789",
}
MODELS: Final = {
    "anthropic": "claude-sonnet-5",
    "openai": "gpt-5.4",
    "openai-chat": "gpt-5.4",
    "gemini": "gemini-3-flash-preview",
}
PATHS: Final = {"anthropic": "", "openai": "/v1", "openai-chat": "/v1", "gemini": ""}
"""What stands behind the host in the address that each SDK is given."""
HEADERS: Final = {"X-Team": "lamps", "x-gate": "gate-0123456789", "User-Agent": "lamps/1"}
"""Headers of one's own, the secret one too."""
SEARCHED: Final = ResponseOutputItemDoneEvent(
    item=ResponseToolSearchCall(
        id="ts_1",
        arguments={"query": "dim"},
        call_id="call_1",
        execution="client",
        status="completed",
        type="tool_search_call",
    ),
    output_index=0,
    sequence_number=0,
    type="response.output_item.done",
)
"""The event of OpenAI that says: the model searches for tools."""


def plain(value: Mapping[str, object]) -> Body:
    """Return frozen JSON as an SDK is given it."""
    found: Body = json.loads(json.dumps(value, default=dict))
    return found


def schemas(story: Story) -> list[tuple[str, str, Body]]:
    return [(tool.name, tool.description, plain(tool.parameters)) for tool in story.tools]


def told(result: Answered) -> str:
    """Return the text of a result; of JSON, as the guides of all SDKs make it."""
    return result.text if result.data is None else json.dumps(result.data)


# Anthropic


def messages_of(story: Story) -> Body:
    found: Body = {"model": MODELS["anthropic"], "max_tokens": story.options.get("max_tokens", 32_000)}
    found["messages"] = [_message(move) for move in story.moves]
    for message in found["messages"][-1:-4:-2]:
        message["content"][-1]["cache_control"] = {"type": "ephemeral"}
    if story.system:
        found["system"] = [{"type": "text", "text": story.system, "cache_control": {"type": "ephemeral"}}]
    if story.tools:
        tools = [{"name": name, "description": said, "input_schema": form} for name, said, form in schemas(story)]
        found["tools"] = [*tools[:-1], {**tools[-1], "cache_control": {"type": "ephemeral"}}]
        found["tool_choice"] = {"type": "auto" if story.may_call else "none"}
    for option in story.options.items():
        found |= _messages_option(option)
    return found


def _messages_option(option: tuple[str, object]) -> Body:
    match option:
        case "tool_choice", {"tool": name}:
            return {"tool_choice": {"type": "tool", "name": name}}
        case "tool_choice", kind:
            return {"tool_choice": {"type": kind}}
        case "response_format", _:
            return {"output_config": {"format": {"type": "json_schema", "schema": plain(ANSWER)}}}
        case "reasoning_effort", effort:
            return {
                "thinking": {"type": "adaptive", "display": "summarized"},
                "output_config": {"effort": effort},
            }
        case "stop", words:
            return {"stop_sequences": words}
        case "extra", _:
            return {"service_tier": "standard_only"}
        case "headers", _:
            return {"extra_headers": HEADERS}
        case _:
            return {}


def _message(move: Move) -> Body:
    match move:
        case Asks(text=text, images=images):
            return {"role": "user", "content": [*_block(text), *map(_png, images), *_documents(move)]}
        case Says():
            content: list[Body] = []
            if move.seal:
                content.append({"type": "thinking", "thinking": move.thought, "signature": move.seal})
            if move.text:
                content.append({"type": "text", "text": move.text})
            content += [
                {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.args)} for call in move.calls
            ]
            return {"role": "assistant", "content": content}
        case Results(results=results, said=said):
            content = []
            for result in results:
                shown = [*_block(told(result)), *([_jpeg(result.image)] if result.image else []), *_bill(result.pdf)]
                failed = {"is_error": True} if result.is_error else {}
                content.append({"type": "tool_result", "tool_use_id": result.id, "content": shown, **failed})
            return {"role": "user", "content": [*content, *_block(said)]}


def _block(text: str) -> list[Body]:
    return [{"type": "text", "text": text}] if text else []


def _documents(asks: Asks) -> list[Body]:
    uploaded = {"type": "document", "source": {"type": "file", "file_id": asks.uploaded}}
    return [*_bill(asks.pdf), *([uploaded] if asks.uploaded else [])]


def _bill(data: str) -> list[Body]:
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    return [{"type": "document", "source": source, "title": "bill.pdf"}] if data else []


def _png(data: str) -> Body:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


def _jpeg(data: str) -> Body:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": data}}


# OpenAI, responses


def responses_of(story: Story) -> Body:
    found: Body = {"model": MODELS["openai"], "store": False, "include": ["reasoning.encrypted_content"]}
    found["input"] = [item for move in story.moves for item in _items(move)]
    if story.system:
        found["instructions"] = story.system
    if story.tools:
        found["tools"] = [
            {"type": "function", "name": name, "description": said, "parameters": form, "strict": False}
            for name, said, form in schemas(story)
        ]
        found["tool_choice"] = "auto" if story.may_call else "none"
    for option in story.options.items():
        found |= _responses_option(option)
    return found


def _responses_option(option: tuple[str, object]) -> Body:
    match option:
        case "tool_choice", {"tool": name}:
            return {"tool_choice": {"type": "function", "name": name}}
        case "tool_choice", kind:
            return {"tool_choice": "required" if kind == "any" else kind}
        case "response_format", {"type": _}:
            return {"text": {"format": {"type": "json_schema", "name": "answer", "schema": plain(ANSWER)}}}
        case "response_format", _:
            return {"text": {"format": {"type": "json_object"}}}
        case "reasoning_effort", effort:
            return {"reasoning": {"effort": effort}}
        case "max_tokens", most:
            return {"max_output_tokens": most}
        case "temperature", heat:
            return {"temperature": heat}
        case "extra", _:
            return {"service_tier": "flex"}
        case "headers", _:
            return {"extra_headers": HEADERS}
        case _:
            return {}


def _items(move: Move) -> Iterable[Body]:
    match move:
        case Asks(text=text, images=images):
            content: list[Body] = [{"type": "input_text", "text": text}] if text else []
            urls = (f"data:image/png;base64,{image}" for image in images)
            content += [{"type": "input_image", "image_url": url, "detail": "auto"} for url in urls]
            content += _input_bill(move.pdf)
            if move.uploaded:
                content.append({"type": "input_file", "file_id": move.uploaded})
            yield {"role": "user", "content": content}
        case Says():
            if move.seal:
                summary = [{"type": "summary_text", "text": move.thought}]
                yield {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": move.seal}
            if move.text:
                yield {"role": "assistant", "content": move.text}
            for call in move.calls:
                written = json.dumps(dict(call.args))
                yield {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": written}
        case Results(results=results, said=said):
            for result in results:
                output: object = told(result)
                if result.image:
                    shown = f"data:image/jpeg;base64,{result.image}"
                    output = [
                        {"type": "input_text", "text": result.text},
                        {"type": "input_image", "image_url": shown, "detail": "auto"},
                    ]
                if result.pdf:
                    output = [{"type": "input_text", "text": result.text}, *_input_bill(result.pdf)]
                yield {"type": "function_call_output", "call_id": result.id, "output": output}
            if said:
                yield {"role": "user", "content": [{"type": "input_text", "text": said}]}


def _input_bill(data: str) -> list[Body]:
    url = f"data:application/pdf;base64,{data}"
    return [{"type": "input_file", "filename": "bill.pdf", "file_data": url}] if data else []


# OpenAI, chat completions


def chat_of(story: Story) -> Body:
    found: Body = {"model": MODELS["openai-chat"], "stream_options": {"include_usage": True}}
    system = [{"role": "system", "content": story.system}] if story.system else []
    found["messages"] = [*system, *(message for move in story.moves for message in _said(move))]
    if story.tools:
        found["tools"] = [
            {"type": "function", "function": {"name": name, "description": said, "parameters": form}}
            for name, said, form in schemas(story)
        ]
        found["tool_choice"] = "auto" if story.may_call else "none"
    for option in story.options.items():
        found |= _chat_option(option)
    return found


def _chat_option(option: tuple[str, object]) -> Body:
    match option:
        case "tool_choice", {"tool": name}:
            return {"tool_choice": {"type": "function", "function": {"name": name}}}
        case "tool_choice", kind:
            return {"tool_choice": "required" if kind == "any" else kind}
        case "response_format", {"type": _}:
            form = {"name": "answer", "schema": plain(ANSWER)}
            return {"response_format": {"type": "json_schema", "json_schema": form}}
        case "response_format", _:
            return {"response_format": {"type": "json_object"}}
        case "max_tokens", most:
            return {"max_completion_tokens": most}
        case ("reasoning_effort" | "stop" | "temperature") as name, given:
            return {name: given}
        case "extra", _:
            return {"service_tier": "flex"}
        case "headers", _:
            return {"extra_headers": HEADERS}
        case _:
            return {}


def _said(move: Move) -> Iterable[Body]:
    match move:
        case Asks(text=text, images=(), pdf="", uploaded=""):
            yield {"role": "user", "content": text}
        case Asks(text=text, images=images):
            urls = (f"data:image/png;base64,{image}" for image in images)
            shown: list[Body] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
            shown += _chat_bill(move.pdf)
            if move.uploaded:
                shown.append({"type": "file", "file": {"file_id": move.uploaded}})
            yield {"role": "user", "content": [*([{"type": "text", "text": text}] if text else []), *shown]}
        case Says():
            message: Body = {"role": "assistant"}
            if move.text:
                message["content"] = move.text
            if move.calls:
                message["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": json.dumps(dict(call.args))},
                    }
                    for call in move.calls
                ]
            yield message
        case Results(results=results, said=said):
            for result in results:
                yield {"role": "tool", "tool_call_id": result.id, "content": told(result)}
            after = [
                {"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{result.image}"}}
                for result in results
                if result.image
            ]
            after += [shown for result in results for shown in _chat_bill(result.pdf)]
            if after:
                yield {"role": "user", "content": after}
            if said:
                yield {"role": "user", "content": said}


def _chat_bill(data: str) -> list[Body]:
    url = f"data:application/pdf;base64,{data}"
    return [{"type": "file", "file": {"filename": "bill.pdf", "file_data": url}}] if data else []


# Google


def contents_of(story: Story) -> Body:
    config: Body = {}
    if story.system:
        config["system_instruction"] = story.system
    if story.tools:
        config["tools"] = [
            types.Tool(
                function_declarations=[
                    types.FunctionDeclaration(name=name, description=said, parameters_json_schema=form)
                    if name == LAMP.name
                    else types.FunctionDeclaration(name=name, description=said)
                    for name, said, form in schemas(story)
                ]
            )
        ]
        mode = types.FunctionCallingConfigMode.AUTO if story.may_call else types.FunctionCallingConfigMode.NONE
        allowed = None
        match story.options.get("tool_choice"):
            case {"tool": name}:
                mode, allowed = types.FunctionCallingConfigMode.ANY, [name]
            case str(kind):
                mode = types.FunctionCallingConfigMode(kind.upper())
            case _:
                pass
        calling = types.FunctionCallingConfig(mode=mode, allowed_function_names=allowed)
        config["tool_config"] = types.ToolConfig(function_calling_config=calling)
    for option in story.options.items():
        config |= _contents_option(option)
    return {
        "model": MODELS["gemini"],
        "contents": [_content(move) for move in story.moves],
        "config": types.GenerateContentConfig(**config),
    }


def _contents_option(option: tuple[str, object]) -> Body:
    match option:
        case "response_format", {"type": _}:
            return {"response_mime_type": "application/json", "response_json_schema": plain(ANSWER)}
        case "response_format", _:
            return {"response_mime_type": "application/json"}
        case "reasoning_effort", effort:
            level = types.ThinkingLevel(str(effort).upper())
            return {"thinking_config": types.ThinkingConfig(thinking_level=level, include_thoughts=True)}
        case "max_tokens", most:
            return {"max_output_tokens": most}
        case "stop", words:
            return {"stop_sequences": words}
        case "temperature", heat:
            return {"temperature": heat}
        case "extra", _:
            return {"labels": {"team": "lamps"}}
        case "headers", _:
            return {"http_options": types.HttpOptions(headers=HEADERS)}
        case _:
            return {}


def _content(move: Move) -> types.Content:
    match move:
        case Asks(text=text, images=images):
            parts = [types.Part(text=text)] if text else []
            parts += [types.Part.from_bytes(data=base64.b64decode(image), mime_type="image/png") for image in images]
            if move.pdf:
                parts.append(types.Part.from_bytes(data=base64.b64decode(move.pdf), mime_type="application/pdf"))
            if move.uploaded:
                parts.append(types.Part.from_uri(file_uri=move.uploaded, mime_type="application/pdf"))
            return types.Content(role="user", parts=parts)
        case Says():
            parts = [types.Part(text=move.text)] if move.text else []
            for number, call in enumerate(move.calls):
                asked = types.FunctionCall(id=call.id, name=call.name, args=dict(call.args))
                sealed = base64.b64decode(move.seal) if move.seal and not number else None
                parts.append(types.Part(function_call=asked, thought_signature=sealed))
            return types.Content(role="model", parts=parts)
        case Results(results=results, said=said):
            parts = []
            for result in results:
                answer = {"error" if result.is_error else "output": told(result)}
                response = types.FunctionResponse(id=result.id, name=result.name, response=answer)
                if result.image:
                    blob = types.FunctionResponseBlob(mime_type="image/jpeg", data=base64.b64decode(result.image))
                    response.parts = [types.FunctionResponsePart(inline_data=blob)]
                if result.pdf:
                    blob = types.FunctionResponseBlob(mime_type="application/pdf", data=base64.b64decode(result.pdf))
                    response.parts = [types.FunctionResponsePart(inline_data=blob)]
                parts.append(types.Part(function_response=response))
            return types.Content(role="user", parts=[*parts, *([types.Part(text=said)] if said else [])])


# The clients: making one takes longer than a request, so each is used for many


@contextmanager
def anthropic_client(url: str | None) -> Iterator[Ask]:
    with anthropic.Anthropic(api_key=KEYS["anthropic"], base_url=url, max_retries=0) as client:
        yield lambda body: list(client.messages.create(**body, stream=True))


@contextmanager
def responses_client(url: str | None) -> Iterator[Ask]:
    with openai.OpenAI(api_key=KEYS["openai"], base_url=url, max_retries=0) as client:
        yield lambda body: list(client.responses.create(**body, stream=True))


@contextmanager
def chat_client(url: str | None) -> Iterator[Ask]:
    with openai.OpenAI(api_key=KEYS["openai"], base_url=url, max_retries=0) as client:
        yield lambda body: list(client.chat.completions.create(**body, stream=True))


@contextmanager
def gemini_client(url: str | None) -> Iterator[Ask]:
    client = genai.Client(api_key=KEYS["gemini"], http_options=types.HttpOptions(base_url=url))
    try:
        yield lambda body: list(client.models.generate_content_stream(**body))
    finally:
        client.close()


WRITERS: Final[Mapping[str, Callable[[Story], Body]]] = {
    "anthropic": messages_of,
    "openai": responses_of,
    "openai-chat": chat_of,
    "gemini": contents_of,
}
CLIENTS: Final[Mapping[str, Callable[[str | None], AbstractContextManager[Ask]]]] = {
    "anthropic": anthropic_client,
    "openai": responses_client,
    "openai-chat": chat_client,
    "gemini": gemini_client,
}
"""Each takes the address, `None` for the provider's own, and gives what asks and reads the whole answer."""
