"""Tools on demand in the provider's own form: beside the official SDK, after a compaction and in another process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import openai
import pytest
import trio
from openai.types.responses import ResponseOutputItemDoneEvent

from agentrail import Secret, SessionSpec, open_supervisor, tool
from agentrail.adapters.models.clouds.accounts import Accounts
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.adapters.models.settings import read_settings
from agentrail.core.tools_on_demand import FINDER
from agentrail.errors import ModelError
from agentrail.models import PROVIDERS, ModelRequest, Response, ToolCall, ToolMessage
from agentrail.testing import ScriptedModel, call, say
from tests.adapters.models.beside import differences, row_of
from tests.adapters.models.goldens import SEARCHING
from tests.adapters.models.histories import DIM, LAMP, LAMPS, PAINT, histories
from tests.adapters.models.official import CLIENTS, KEYS, MODELS, PATHS, SEARCHED, Body, plain
from tests.adapters.models.server import Asked, refusing, serving, streaming
from tests.kit import Element, freeze_object, thaw
from tests.runtime.journals import TestJournal

CACHED: Final = {"cache_control": {"type": "ephemeral"}}
ATTIC: Final = {"room": "attic"}
THROUGH: Final = {"name": "dim", "arguments": ATTIC}


def on_demand(provider: str) -> ModelRequest:
    """Return the request with a tool that was found, and was called, and a search that found none."""
    return histories(f"{provider}:{MODELS[provider]}", "")["on_demand"]


def messages_body() -> Body:
    """Return the request as Anthropic's documentation of a search of one's own has it."""

    def form(name: str, said: str, schema: Mapping[str, object]) -> Body:
        return {"name": name, "description": said, "input_schema": plain({"type": "object", **schema})}

    def use(made: str, name: str, args: object) -> Body:
        return {"role": "assistant", "content": [{"type": "tool_use", "id": made, "name": name, "input": args}]}

    def result(made: str, *content: Body, **more: object) -> Body:
        block = {"type": "tool_result", "tool_use_id": made, "content": list(content), **more}
        return {"role": "user", "content": [block]}

    finder, caller = on_demand("anthropic").tools[2:]
    usual = [form(one.name, one.description, one.parameters) for one in (LAMP, LAMPS, finder, caller)]
    late = [{**form(one.name, one.description, one.parameters), "defer_loading": True} for one in (DIM, PAINT)]
    return {
        "model": MODELS["anthropic"],
        "max_tokens": 32_000,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "dim the lamp in the attic"}]},
            use("id_1", "find_tools", {"query": "dim"}),
            result("id_1", {"type": "tool_reference", "tool_name": "dim"}),
            use("id_2", "call_tool", THROUGH),
            result("id_2", {"type": "text", "text": "dimmed"}, **CACHED),
            use("id_3", "find_tools", {"query": "boat"}),
            result("id_3", {"type": "text", "text": "No tool fits."}, **CACHED),
        ],
        "tools": [*usual[:-1], {**usual[-1], **CACHED}, *late],
        "tool_choice": {"type": "auto"},
    }


def responses_body() -> Body:
    """Return the request as OpenAI's documentation of a search by the client has it."""

    def form(name: str, said: str, schema: Mapping[str, object]) -> Body:
        whole = plain({"type": "object", "properties": {}, **schema})
        return {"type": "function", "name": name, "description": said, "parameters": whole, "strict": False}

    def search(kind: str, made: str, **more: object) -> Body:
        return {"type": kind, "execution": "client", "status": "completed", "call_id": made, **more}

    finder, caller = on_demand("openai").tools[2:]
    dim = {**form(DIM.name, DIM.description, DIM.parameters), "defer_loading": True}
    return {
        "model": MODELS["openai"],
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "dim the lamp in the attic"}]},
            search("tool_search_call", "id_1", arguments={"query": "dim"}),
            search("tool_search_output", "id_1", tools=[dim]),
            {"type": "function_call", "call_id": "id_2", "name": "call_tool", "arguments": json.dumps(THROUGH)},
            {"type": "function_call_output", "call_id": "id_2", "output": "dimmed"},
            search("tool_search_call", "id_3", arguments={"query": "boat"}),
            search("tool_search_output", "id_3", tools=[]),
        ],
        "tools": [
            *(form(one.name, one.description, one.parameters) for one in (LAMP, LAMPS)),
            {
                "type": "tool_search",
                "execution": "client",
                "description": finder.description,
                "parameters": plain(finder.parameters),
            },
            form(caller.name, caller.description, caller.parameters),
        ],
        "tool_choice": "auto",
    }


BODIES: Final = {"anthropic": messages_body, "openai": responses_body}


async def ours(provider: str, url: str, **options: object) -> Response:
    """Send the request to *url* with our adapter, in the provider's own form."""
    taken = freeze_object({"base_url": url, "api_key": Secret("KEY"), "tool_search": True, **options})
    http = Http()
    try:
        name = f"{provider}:{MODELS[provider]}"
        model = RemoteModel(name, PROVIDERS[provider], http, {"KEY": KEYS[provider]}.get, Accounts())
        return await model.stream(on_demand(provider).but(options=taken), lambda _: None)
    finally:
        await http.close()


async def both(provider: str) -> tuple[Asked, Asked]:
    """Return what the SDK asks, and what we ask."""
    async with serving(refusing(400, b'{"error": {"message": "not today"}}')) as server:
        url = server.url + PATHS[provider]
        with trio.fail_after(60):
            with CLIENTS[provider](url) as ask, pytest.raises(Exception, match="not today"):
                await trio.to_thread.run_sync(ask, BODIES[provider]())
            with pytest.raises(ModelError, match="not today"):
                await ours(provider, url)
        theirs, here = server.asked
    return theirs, here


@pytest.mark.long
@pytest.mark.parametrize("provider", SEARCHING)
async def test_both_ask_the_same(provider: str) -> None:
    theirs, here = await both(provider)
    found = {place: what for place, what in differences(provider, theirs, here) if not row_of(provider, place, "")}
    assert found == {}
    assert theirs.json.keys() == here.json.keys()
    assert {"anthropic-beta", "openai-beta"} & {*theirs.headers, *here.headers} == set(), "the form is no beta feature"


@pytest.mark.parametrize("provider", SEARCHING)
async def test_a_difference_is_noticed(provider: str) -> None:
    theirs, here = await both(provider)
    body = here.body.replace(b'"defer_loading":true', b'"defer_loading":false')
    assert body != here.body
    other = Asked(here.method, here.target, here.headers, body)
    assert [place for place, _ in differences(provider, theirs, other) if not row_of(provider, place, "")]


async def test_both_hear_a_search() -> None:
    ended = {"type": "response.completed", "sequence_number": 1, "response": {"status": "completed", "output": []}}
    written = f"data: {SEARCHED.model_dump_json()}\n\ndata: {json.dumps(ended)}\n\n".encode()

    def theirs(url: str) -> list[object]:
        with openai.OpenAI(api_key=KEYS["openai"], base_url=url, max_retries=0) as client:
            return [
                event.item
                for event in client.responses.create(model="gpt-5.4", input="dim it", stream=True)
                if isinstance(event, ResponseOutputItemDoneEvent)
            ]

    async with serving(streaming(written, size=7)) as server:
        url = server.url + PATHS["openai"]
        with trio.fail_after(60):
            assert await trio.to_thread.run_sync(theirs, url) == [SEARCHED.item]
            heard = await ours("openai", url)
    assert heard.calls == (ToolCall("", FINDER, freeze_object({"query": "dim"}), "call_1"),)


# What was found stays


@tool(deferred=True)
async def pay_bill(amount: int) -> str:
    """Pay a bill.

    Args:
        amount: How much, in cents.
    """
    return f"paid {amount}"


@tool(deferred=True)
async def delete_file(path: str) -> str:
    """Delete a file for good."""
    return path


FIND: Final = say(calls=[call("find_tools", {"query": "bill"})])
THROUGH_CALLER: Final = say(calls=[call("call_tool", {"name": "pay_bill", "arguments": {"amount": 5}})])
BY_NAME: Final = say(calls=[call("pay_bill", {"amount": 5})])
OPTIONS: Final = freeze_object({"tool_search": True})


def spec(provider: str, *script: Element) -> tuple[ScriptedModel, SessionSpec]:
    model = ScriptedModel(script, name=f"{provider}:{MODELS[provider]}")
    return model, SessionSpec(model=model, tools=[pay_bill, delete_file])


def body_of(provider: str, request: ModelRequest) -> Body:
    wire = format_of(PROVIDERS[provider])
    body = thaw(wire.render(request, provider, MODELS[provider], read_settings(OPTIONS)).body)
    assert isinstance(body, dict)
    return body


def loaded(provider: str, body: Body) -> list[str]:
    """Return the names of the tools that results in *body* have loaded; each must be there to be loaded."""
    if provider == "anthropic":
        blocks = [block for message in body["messages"] for block in message["content"]]
        results = [block for block in blocks if block["type"] == "tool_result"]
        names = [part["tool_name"] for one in results for part in one["content"] if part["type"] == "tool_reference"]
        late = {one["name"] for one in body["tools"] if one.get("defer_loading")}
        assert {*names} <= late == {"pay_bill", "delete_file"}
        return names
    calls = [item["call_id"] for item in body["input"] if item.get("type") == "tool_search_call"]
    outputs = [item for item in body["input"] if item.get("type") == "tool_search_output"]
    assert [item["call_id"] for item in outputs] == calls
    return [one["name"] for item in outputs for one in item["tools"]]


def paid(messages: object) -> list[str]:
    assert isinstance(messages, tuple)
    return [one.text for one in messages if isinstance(one, ToolMessage) and one.name == "pay_bill"]


@pytest.mark.parametrize("then", [THROUGH_CALLER, BY_NAME], ids=["through the caller", "by its name"])
@pytest.mark.parametrize("provider", SEARCHING)
async def test_a_found_tool_stays_after_a_compaction(provider: str, then: Element) -> None:
    model, made = spec(provider, FIND, "found", "long " * 400, "a summary", then, "paid", "and still")
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(made)
        for text in ("look for it", "and then?"):
            await session.ask(text)
        before = body_of(provider, model.requests[-1])
        assert loaded(provider, before) == ["pay_bill"]
        await session.compact()
        await session.ask("pay")
        after = body_of(provider, model.requests[4])
        assert loaded(provider, after) == [], "the result that has loaded it was dropped"
        assert "How much, in cents" in json.dumps(after["messages" if provider == "anthropic" else "input"])
        assert after["tools"] == before["tools"]
        assert paid(session.messages()) == ["paid 5"]
        await session.ask("and now?")
        loaded(provider, body_of(provider, model.requests[-1]))


@pytest.mark.parametrize("then", [THROUGH_CALLER, BY_NAME], ids=["through the caller", "by its name"])
@pytest.mark.parametrize("provider", SEARCHING)
async def test_a_found_tool_stays_in_another_process(provider: str, then: Element) -> None:
    journal = TestJournal()
    first, made = spec(provider, FIND, "found")
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.spawn(made, "s")
        await session.ask("look for it")
    second, made = spec(provider, then, "paid")
    async with open_supervisor(journal=journal, seed=1) as supervisor:
        session = await supervisor.resume("s", made)
        await session.ask("pay")
        assert paid(session.messages()) == ["paid 5"]
    before, after = body_of(provider, first.requests[-1]), body_of(provider, second.requests[0])
    assert loaded(provider, before) == loaded(provider, after) == ["pay_bill"]
    assert after["tools"] == before["tools"]
    name = "messages" if provider == "anthropic" else "input"
    assert len(after[name]) == len(before[name]) + 2
