"""boto3's client of Bedrock, told the stories as its documentation says: what it sends is what ours is held against."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias, cast

import boto3  # type: ignore[import-untyped]  # pyright: ignore[reportMissingTypeStubs]
from botocore.awsrequest import AWSRequest
from botocore.config import Config

from tests.adapters.models.stories import ANSWER, Answered, Asks, Move, Results, Says, Story

Body: TypeAlias = dict[str, Any]

ACCESS_KEY: Final = "AKIDEXAMPLE012345678"
SECRET_KEY: Final = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
TOKEN: Final = "session-token-0123456789"
MODEL: Final = "anthropic.claude-sonnet-5-v1:0"
HEADERS: Final = {"X-Team": "lamps", "x-gate": "gate-0123456789", "User-Agent": "lamps/1"}
REGION: Final = "us-east-1"
POINT: Final = {"cachePoint": {"type": "default"}}


def plain(value: Mapping[str, object]) -> Body:
    found: Body = json.loads(json.dumps(value, default=dict))
    return found


def converse_of(story: Story) -> Body:
    """Return the arguments of `converse_stream`, with `headers` for those of one's own."""
    names = (f"file {number}" for number in range(1, 100))
    found: Body = {"modelId": MODEL, "messages": [_message(move, names) for move in story.moves]}
    for message in found["messages"][-1:-4:-2]:
        message["content"].append(POINT)
    if story.system:
        found["system"] = [{"text": story.system}, POINT]
    if story.tools:
        tools: list[Body] = [
            {
                "toolSpec": {
                    "name": tool.name,
                    "description": tool.description,
                    "inputSchema": {"json": plain(tool.parameters)},
                }
            }
            for tool in story.tools
        ]
        found["toolConfig"] = {"tools": [*tools, POINT], "toolChoice": {"auto": {}}}
    for option in story.options.items():
        _set(found, option)
    return found


def _set(found: Body, option: tuple[str, object]) -> None:
    inference = found.setdefault("inferenceConfig", {}) if option[0] in {"max_tokens", "stop", "temperature"} else {}
    match option:
        case "tool_choice", {"tool": name}:
            found["toolConfig"]["toolChoice"] = {"tool": {"name": name}}
        case "tool_choice", "any":
            found["toolConfig"]["toolChoice"] = {"any": {}}
        case "response_format", {"type": _}:
            schema = {"schema": json.dumps(plain(ANSWER), separators=(",", ":"), sort_keys=True), "name": "answer"}
            found.setdefault("outputConfig", {})["textFormat"] = {
                "type": "json_schema",
                "structure": {"jsonSchema": schema},
            }
        case "reasoning_effort", effort:
            thinking = {"type": "adaptive", "display": "summarized"}
            found["additionalModelRequestFields"] = {"thinking": thinking}
            found.setdefault("outputConfig", {})["effort"] = effort
        case "max_tokens", most:
            inference["maxTokens"] = most
        case "temperature", heat:
            inference["temperature"] = heat
        case "stop", words:
            inference["stopSequences"] = words
        case "extra", _:
            found["requestMetadata"] = {"team": "lamps"}
        case "headers", _:
            found["headers"] = HEADERS
        case _:
            pass


def _message(move: Move, names: Iterator[str]) -> Body:
    match move:
        case Asks(text=text, images=images):
            return {
                "role": "user",
                "content": [*_text(text), *(_image("png", one) for one in images), *_bill(move.pdf, names)],
            }
        case Says():
            content: list[Body] = []
            if move.seal:
                content.append({"reasoningContent": {"reasoningText": {"text": move.thought, "signature": move.seal}}})
            content += _text(move.text)
            content += [
                {"toolUse": {"toolUseId": call.id, "name": call.name, "input": dict(call.args)}} for call in move.calls
            ]
            return {"role": "assistant", "content": content}
        case Results(results=results, said=said):
            return {"role": "user", "content": [*(_result(result, names) for result in results), *_text(said)]}


def _result(result: Answered, names: Iterator[str]) -> Body:
    text = result.text if result.data is None else json.dumps(result.data)
    content = [*_text(text), *([_image("jpeg", result.image)] if result.image else []), *_bill(result.pdf, names)]
    status = "error" if result.is_error else "success"
    return {"toolResult": {"toolUseId": result.id, "content": content, "status": status}}


def _text(text: str) -> list[Body]:
    return [{"text": text}] if text else []


def _image(form: str, data: str) -> Body:
    return {"image": {"format": form, "source": {"bytes": base64.b64decode(data)}}}


def _bill(data: str, names: Iterator[str]) -> list[Body]:
    source = {"bytes": base64.b64decode(data)}
    return [{"document": {"format": "pdf", "name": next(names), "source": source}}] if data else []


class Boto3:
    """boto3's client, with keys that sign; it is synchronous."""

    def __init__(self, url: str) -> None:
        config = Config(retries={"total_max_attempts": 1})
        session = cast("Any", boto3).session.Session(ACCESS_KEY, SECRET_KEY, TOKEN, REGION)
        self._client = session.client("bedrock-runtime", endpoint_url=url, config=config)

    def ask(self, body: Body) -> list[object]:
        """Ask, and return the events of the answer."""
        headers = body.pop("headers", {})

        def add_headers(request: AWSRequest, **_: object) -> None:
            for name, value in headers.items():
                request.headers[name] = value

        events = self._client.meta.events
        events.register("before-send.bedrock-runtime", add_headers, "own")
        try:
            return list(self._client.converse_stream(**body)["stream"])
        finally:
            events.unregister("before-send.bedrock-runtime", add_headers, "own")

    def close(self) -> None:
        """Close its connections."""
        self._client.close()
