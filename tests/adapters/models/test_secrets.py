"""A secret that a server echoes is seen nowhere but in calls, whatever the format and wherever it stands.

Calls stay as the model made them, and a word in the place of a key is no secret.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Mapping
from typing import Final

import pytest

from agentrail import Secret, SessionSpec, open_supervisor, tool
from agentrail.errors import TurnAborted
from agentrail.events import AgentAbort, AgentEnd, Event, MessageDelta, ThinkingDelta
from agentrail.journals import MemoryJournal
from agentrail.models import PROVIDERS, AssistantMessage, Json, Text, Thinking, ToolMessage
from tests.adapters.models import anthropic_events as anthropic
from tests.adapters.models import converse_events as converse
from tests.adapters.models import gemini_events as gemini
from tests.adapters.models import openai_chat_events as chat
from tests.adapters.models import openai_events as openai
from tests.adapters.models.goldens import OWN
from tests.adapters.models.server import Play, chunked, events, head, refusing, serving, streaming

KEY = "sk-ant-0123456789abcdef"
HALF = len(KEY) // 2
THOUGHT = (f"it is {KEY[:HALF]}", f"{KEY[HALF:]}!")
SAID = (*f"your key: {KEY}; sk-ant-0 is not", KEY[:5])
ARGS = json.dumps({"room": "attic"})


def of_anthropic() -> bytes:
    return events(
        anthropic.opening(),
        *anthropic.block(0, "thinking", "thinking_delta", "thinking", *THOUGHT, signature=KEY),
        *anthropic.block(1, "text", "text_delta", "text", *SAID),
        *anthropic.block(2, "tool_use", "input_json_delta", "partial_json", ARGS, name="lamp", id=KEY),
        *anthropic.block(3, "tool_use", "input_json_delta", "partial_json", ARGS, name="lamp"),
        *anthropic.closing("tool_use"),
    )


def of_openai() -> bytes:
    return events(
        {"type": "response.created", "response": {}},
        *openai.thought(0, *THOUGHT, sealed=KEY),
        *openai.message(1, *SAID),
        *openai.call(2, "lamp", ARGS, call_id=KEY),
        *openai.call(3, "lamp", ARGS, call_id="call_2"),
        openai.closing(),
    )


def of_chat() -> bytes:
    return (
        events(
            *(chat.piece(reasoning_content=piece) for piece in THOUGHT),
            *(chat.piece(content=piece) for piece in SAID),
            chat.calling(index=0, call_id=KEY, name="lamp", arguments=ARGS),
            chat.calling(index=1, call_id="call_2", name="lamp", arguments=ARGS),
            chat.piece("tool_calls"),
            chat.counting(),
            named=False,
        )
        + chat.DONE
    )


def of_gemini() -> bytes:
    return events(
        *(gemini.content(gemini.thought(piece)) for piece in THOUGHT),
        gemini.content({"text": "", "thought": True, "thoughtSignature": KEY}),
        *(gemini.content({"text": piece}) for piece in SAID),
        gemini.content({"text": "", "thoughtSignature": KEY}),
        gemini.content(gemini.called("lamp", json.loads(ARGS), KEY, id=KEY), gemini.called("lamp", json.loads(ARGS))),
        gemini.closing(),
        named=False,
    )


def of_bedrock() -> bytes:
    return (
        converse.event("messageStart", {"role": "assistant"})
        + b"".join(converse.delta({"reasoningContent": {"text": piece}}) for piece in THOUGHT)
        + converse.delta({"reasoningContent": {"signature": KEY}})
        + b"".join(converse.delta({"text": piece}, 1) for piece in SAID)
        + converse.event(
            "contentBlockStart", {"contentBlockIndex": 2, "start": {"toolUse": {"toolUseId": KEY, "name": "lamp"}}}
        )
        + converse.delta({"toolUse": {"input": ARGS}}, 2)
        + converse.event(
            "contentBlockStart", {"contentBlockIndex": 3, "start": {"toolUse": {"toolUseId": "b", "name": "lamp"}}}
        )
        + converse.delta({"toolUse": {"input": ARGS}}, 3)
        + converse.ended("tool_use")
    )


ECHOES: Final[Mapping[str, Callable[[], bytes]]] = {
    "anthropic": of_anthropic,
    "openai": of_openai,
    "openai-chat": of_chat,
    "gemini": of_gemini,
    "bedrock": of_bedrock,
}


@tool
async def lamp(room: str) -> str:
    """Look at a lamp."""
    return f"the lamp in the {room} is on"


def test_each_format_has_an_echo() -> None:
    formats = {provider.format for provider in PROVIDERS.values() if "." not in provider.format}  # those of others
    assert {PROVIDERS[name].format for name in ECHOES} == formats


@pytest.mark.parametrize("provider", ECHOES)
async def test_a_secret_that_is_echoed_appears_nowhere(provider: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    whole = Play((head(200, f"x-echo: {KEY}", "transfer-encoding: chunked"), *chunked([ECHOES[provider]()])), keep=True)
    error = {"type": KEY, "code": KEY, "status": KEY, "message": KEY, "details": [{"reason": KEY}]}
    refused = refusing(400, json.dumps({"error": error}).encode(), f"x-echo: {KEY}")
    garbled = Play((head(), f'data: {{"{KEY}\n\n'.encode()))
    long = refusing(400, json.dumps({"error": {"message": "x" * (500 - HALF) + KEY}}).encode())
    reason = Play((f"HTTP/1.1 400 {KEY}\r\ncontent-length: 0\r\n\r\n".encode(),))
    line = Play((f"HTTP/1.1 200 OK\r\n{KEY}\r\n\r\n".encode(),))
    length = Play((head(200, "transfer-encoding: chunked"), f"{KEY}\r\n".encode()))
    refusals = (refused, garbled, long, reason, line, length)
    journal, heard = MemoryJournal(encode=True), list[Event]()
    async with (
        serving(whole, *refusals) as server,
        open_supervisor(journal=journal, secrets={"LAMP_KEY": KEY}.get) as supervisor,
    ):
        named = Secret("LAMP_KEY")
        options: dict[str, Json] = {"base_url": server.url, "api_key": named, "headers": {"x-own": named}}
        spec = SessionSpec(model=OWN[provider], tools=[lamp], model_options=options, max_retries=0)
        session = await supervisor.spawn(spec, "s-1")
        async with session.subscribe() as envelopes:
            await session.prompt("are the lamps on?")
            async for envelope in envelopes:
                heard.append(envelope.event)
                if isinstance(envelope.event, AgentEnd | AgentAbort):
                    break
        raised: list[str] = []
        for _ in refusals:
            with pytest.raises(TurnAborted) as aborted:
                await session.ask("again")
            raised += [*traceback.format_exception(aborted.value), repr(aborted.value)]
        records = await journal.read("s-1", 0, 1_000)
        first = session.messages()[1]
        shown = [repr(supervisor), repr(session), repr(session.status()), repr(session.messages())]
        assert [asked.headers["x-own"] for asked in server.asked] == [KEY] * len(server.asked)
    assert isinstance(first, AssistantMessage)
    thoughts = [part.text for part in first.parts if isinstance(part, Thinking) and part.text]
    said = "".join(part.text for part in first.parts if isinstance(part, Text))
    assert (thoughts, said) == (["it is [secret]!"], f"your key: [secret]; sk-ant-0 is not{KEY[:5]}")
    assert "".join(event.delta for event in heard if isinstance(event, MessageDelta)) == said
    assert "".join(event.delta for event in heard if isinstance(event, ThinkingDelta)) == thoughts[0]
    assert [call.name for call in first.calls] == ["lamp", "lamp"]
    everything = [*map(repr, heard), *map(repr, records), *shown, *raised, caplog.text]
    assert [text for text in everything if KEY[:HALF] in text.replace(f"not{KEY[:5]}", "")] == []


@tool
async def run_tests(path: str, test: str) -> str:
    """Run tests."""
    return f"ran {path} with {test}"


@pytest.mark.parametrize("key", ["test", "ollama", KEY])
async def test_a_call_comes_to_its_tool_as_the_model_made_it(key: str) -> None:
    args = {"path": f"tests/{key}.py", "test": key}
    called = chat.calling(index=0, call_id="call_1", name="run_tests", arguments=json.dumps(args))
    first = events(called, chat.piece("tool_calls"), chat.counting(), named=False) + chat.DONE
    async with (
        serving(streaming(first), streaming(chat.saying("done"))) as server,
        open_supervisor(secrets={"TESTS_KEY": key}.get) as supervisor,
    ):
        options: dict[str, Json] = {"base_url": server.url, "api_key": Secret("TESTS_KEY")}
        session = await supervisor.spawn(
            SessionSpec(model=OWN["openai-chat"], tools=[run_tests], model_options=options)
        )
        assert (await session.ask("run them")).text == "done"
        result = session.messages()[2]
    assert isinstance(result, ToolMessage)
    assert result.text == f"ran tests/{key}.py with {key}"


async def test_a_secret_in_an_answer_in_a_form_is_taken_out_also_if_a_tool_gives_it() -> None:
    answer = chat.calling(index=0, call_id="call_1", name="answer", arguments=json.dumps({"room": KEY}))
    by_tool = events(answer, chat.piece("tool_calls"), chat.counting(), named=False) + chat.DONE
    schema: dict[str, Json] = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
    refused = refusing(400, b'{"error": {"type": "invalid_request_error", "message": "no such schema"}}')
    async with (
        serving(refused, streaming(by_tool)) as server,
        open_supervisor(secrets={"LAMP_KEY": KEY}.get) as supervisor,
    ):
        options: dict[str, Json] = {"base_url": server.url, "api_key": Secret("LAMP_KEY")}
        session = await supervisor.spawn(SessionSpec(model=OWN["openai-chat"], model_options=options))
        assert await session.ask("which room?", returns=schema) == {"room": "[secret]"}
