"""What plugins add around the messages of a request: whole requests of two formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final, TypeAlias, cast

import pytest
from attrs import frozen

from agentrail import AddContext, Context, Plugin, SessionSpec, open_supervisor
from agentrail.adapters.models import anthropic, openai_chat
from agentrail.adapters.models.model_turns import GO_ON, LEFT_OUT, PROGRAM, RULE
from agentrail.adapters.models.settings import read_settings
from agentrail.adapters.models.wire_format import WireFormat
from agentrail.models import AssistantMessage, FrozenObject, Message, ModelRequest, Text, UserMessage
from agentrail.plugins import BeforeRequest
from agentrail.testing import ScriptedModel, call, say
from tests.kit import thaw
from tests.runtime.tools import quick

Body: TypeAlias = Mapping[str, object]

FORMATS: Final[Mapping[str, WireFormat]] = {"anthropic": anthropic.FORMAT, "openai-chat": openai_chat.FORMAT}


@frozen
class Surrounds(Plugin[None]):
    """Adds messages of both roles around those of each request."""

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> AddContext[None]:
        return AddContext("the end", front=_both("front"), behind=_both("behind"))


@frozen
class Answers(Plugin[None]):
    """Adds a message of the model alone, before or after those of each request."""

    in_front: bool

    def before_request(self, hook: BeforeRequest, state: None, ctx: Context) -> AddContext[None]:
        answered = (AssistantMessage((Text("noted"),)),)
        return AddContext(front=answered) if self.in_front else AddContext(behind=answered)


def _both(where: str) -> tuple[Message, Message]:
    return UserMessage((Text(f"{where} note"),)), AssistantMessage((Text(f"{where} answer"),), model="anthropic:x")


async def requests_of(plugin: Plugin[None]) -> list[ModelRequest]:
    """Return the requests of a turn with one call."""
    model = ScriptedModel([say(calls=[call("look", {"at": "sky"})]), "grey"])
    async with open_supervisor() as supervisor:
        spec = SessionSpec(model=model, system="Help.", tools=[quick("look", "clouds")], plugins=[plugin])
        session = await supervisor.spawn(spec)
        await session.ask("how is it?")
        assert [one.text for one in session.messages()] == ["how is it?", "", "clouds", "grey"]
    return list(model.requests)


def body_of(request: ModelRequest, wire: str) -> Body:
    rendered = FORMATS[wire].render(request, wire, "m", read_settings(FrozenObject()))
    return cast("Body", thaw(rendered.body))


SYSTEM: Final = f"Help.\n\n{RULE}"


def marked(text: str) -> str:
    return PROGRAM.format(text)


PLUGINS: Final = {"surrounds": Surrounds(), "front": Answers(in_front=True), "behind": Answers(in_front=False)}

SAID: Final = {
    "surrounds": [
        ("user", marked("front note")),
        ("model", "front answer"),
        ("user", "how is it?"),
        ("call", "look"),
        ("result", "clouds"),
        ("user", marked("behind note")),
        ("model", "behind answer"),
        ("user", marked("the end")),
    ],
    "front": [
        ("user", marked(LEFT_OUT)),
        ("model", "noted"),
        ("user", "how is it?"),
        ("call", "look"),
        ("result", "clouds"),
    ],
    "behind": [
        ("user", "how is it?"),
        ("call", "look"),
        ("result", "clouds"),
        ("model", "noted"),
        ("user", marked(GO_ON)),
    ],
}
"""What the model reads in the second request of each plugin: who speaks, and what."""

ARGS: Final = '{"at":"sky"}'

CACHED: Final = ("how is it?", "clouds")
"""The last of what later requests have too, after the first request and after the second."""


def in_openai_chat(said: Sequence[tuple[str, str]]) -> Body:
    """Return the body of a request for a chat completion."""
    written = list[object]([{"role": "system", "content": SYSTEM}])
    for who, text in said:
        match who:
            case "call":
                called = {"id": "c3", "type": "function", "function": {"name": text, "arguments": ARGS}}
                written.append({"role": "assistant", "tool_calls": [called]})
            case "result":
                written.append({"role": "tool", "tool_call_id": "c3", "content": text})
            case _:
                written.append({"role": "assistant" if who == "model" else "user", "content": text})
    return {"messages": written}


def in_anthropic(said: Sequence[tuple[str, str]]) -> Body:
    """Return the body of a request of the Messages API, with the marks of its cache."""

    def block(who: str, text: str) -> dict[str, object]:
        mark: dict[str, object] = {"cache_control": {"type": "ephemeral"}} if text in CACHED else {}
        if who == "call":
            return {"type": "tool_use", "id": "c3", "name": text, "input": {"at": "sky"}}
        if who == "result":
            return {"type": "tool_result", "tool_use_id": "c3", "content": [{"type": "text", "text": text}], **mark}
        return {"type": "text", "text": text, **mark}

    system = {"type": "text", "text": SYSTEM, "cache_control": {"type": "ephemeral"}}
    messages = [
        {"role": role, "content": [block(who, text) for who, text in group]}
        for role, group in groupby(said, lambda one: "assistant" if one[0] in {"model", "call"} else "user")
    ]
    return {"system": [system], "messages": messages}


WRITTEN: Final = {"anthropic": in_anthropic, "openai-chat": in_openai_chat}
"""The form with a message for each, and the one with cache marks; the goldens hold how all forms write messages."""


@pytest.mark.parametrize("wire", FORMATS)
@pytest.mark.parametrize("name", PLUGINS)
async def test_messages_of_both_roles_stand_before_and_after_the_conversation(name: str, wire: str) -> None:
    _, request = await requests_of(PLUGINS[name])
    wanted = WRITTEN[wire](SAID[name])
    body = body_of(request, wire)
    assert {field: body[field] for field in wanted} == wanted
