"""Providers that search the web themselves: their tool stands in `extra`, and the next turn is one that they take."""

from collections.abc import Mapping
from typing import TypeAlias, cast

import pytest
from openai.types.responses import ResponseFunctionWebSearchParam
from pydantic import TypeAdapter

from agentrail import Secret, SessionSpec, open_supervisor, tool
from agentrail.adapters.models.openai import FORMAT
from agentrail.adapters.models.settings import Settings
from agentrail.journals import MemoryJournal
from agentrail.models import AssistantMessage, Json, ModelRequest, Text, Thinking
from tests.adapters.models import anthropic_events as anthropic
from tests.adapters.models import gemini_events as gemini
from tests.adapters.models import openai_events as openai
from tests.adapters.models.histories import user
from tests.adapters.models.server import events, serving, streaming

URL = "https://rivers.example/rhine"


Rows: TypeAlias = list[dict[str, object]]


@tool
def lamp() -> str:
    """Look at a lamp."""
    return "on"


async def requests_of(
    model: str, tools: list[Json], answer: list[dict[str, object]], *, named: bool = True
) -> list[Mapping[str, Rows]]:
    """Return the requests of two turns, the second of them after a restart; *answer* is that of both."""
    journal = MemoryJournal()
    play = streaming(events(*answer, named=named))
    async with serving(play, play) as server:
        options: Mapping[str, Json] = {"base_url": server.url, "api_key": Secret("K"), "extra": {"tools": tools}}
        spec = SessionSpec(model=model, tools=[lamp], model_options=options)
        for prompt in ("How long is the Rhine?", "And the Elbe?"):
            async with open_supervisor(journal=journal, secrets={"K": "k"}.get) as supervisor:
                is_first = not server.asked
                session = await (supervisor.spawn(spec, "s1") if is_first else supervisor.resume("s1", spec))
                assert (await session.ask(prompt)).text == "It is 1,233 km."
        return [cast("Mapping[str, Rows]", asked.json) for asked in server.asked]


async def test_a_search_of_openai_goes_back_after_the_reasoning_that_wanted_it() -> None:
    """The provider refuses reasoning "without its required following item"."""
    action = {"type": "search", "query": "Rhine", "sources": [{"type": "url", "url": URL}]}
    found = openai.item(1, type="web_search_call", id="ws_1", status="completed", action=action, internal=5)
    cited = {"type": "response.output_text.annotation.added", "output_index": 2, "annotation": {"url": URL}}
    answer = [*openai.thought(0, sealed="gA=="), *found, *openai.message(2, "It is ", "1,233 km."), cited]
    first, second = await requests_of("openai:gpt-5.4", [{"type": "web_search"}], [*answer, openai.closing()])
    assert [sent.get("name", sent["type"]) for sent in first["tools"]] == ["lamp", "web_search"]
    _, reasoning, search, message, _ = second["input"]
    assert (reasoning["type"], reasoning["id"]) == ("reasoning", "rs_0")
    assert search == {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action}
    assert message == {"role": "assistant", "content": "It is 1,233 km."}
    TypeAdapter(ResponseFunctionWebSearchParam).validate_python(search)


@pytest.mark.parametrize("kept", ["", "{", "[]", "5", "[" * 100_000, '{"type": "message", "role": "developer"}'])
def test_a_kept_search_that_was_damaged_is_left_out(kept: str) -> None:
    message = AssistantMessage((Thinking("", f"web_search_call:{kept}"), Text("So.")), (), "openai:gpt-5.4")
    request = ModelRequest("openai:gpt-5.4", (user("a"), message, user("b")))
    sent = cast("Rows", FORMAT.render(request, "openai", "gpt-5.4", Settings()).body["input"])
    assert sent[1:-1] == [{"role": "assistant", "content": "So."}]


async def test_a_search_of_anthropic_is_left_out_with_its_result() -> None:
    """A search without its result, and a result without its search, would be refused."""
    server_use = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    page = {
        "type": "web_search_result",
        "url": URL,
        "title": "Rhine",
        "encrypted_content": "EqgfCioI",
        "page_age": None,
    }
    result = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [page]}
    citation = {"type": "web_search_result_location", "url": URL, "cited_text": "1,233", "encrypted_index": "Eo8B"}
    text = {"type": "content_block_start", "index": 3, "content_block": {"type": "text", "text": "", "citations": []}}
    answer = [
        anthropic.opening(),
        *anthropic.block(0, "text", "text_delta", "text", "It is "),
        {"type": "content_block_start", "index": 1, "content_block": server_use},
        delta(1, {"type": "input_json_delta", "partial_json": '{"query": "Rhine"}'}),
        {"type": "content_block_stop", "index": 1},
        {"type": "content_block_start", "index": 2, "content_block": result},
        {"type": "content_block_stop", "index": 2},
        text,
        delta(3, {"type": "citations_delta", "citation": citation}),
        delta(3, {"type": "text_delta", "text": "1,233 km."}),
        {"type": "content_block_stop", "index": 3},
        *anthropic.closing(),
    ]
    search: Json = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
    first, second = await requests_of("anthropic:claude-sonnet-5", [search], answer)
    assert first["tools"][1] == search
    (message,) = [sent for sent in second["messages"] if sent["role"] == "assistant"]
    assert [(block["type"], block["text"]) for block in cast("Rows", message["content"])] == [
        ("text", "It is "),
        ("text", "1,233 km."),
    ]


def delta(index: int, piece: dict[str, object]) -> dict[str, object]:
    return {"type": "content_block_delta", "index": index, "delta": piece}


async def test_an_answer_of_gemini_is_read_without_what_grounds_it() -> None:
    grounds = {"webSearchQueries": ["Rhine"], "groundingChunks": [{"web": {"uri": URL, "title": "Rhine"}}]}
    (candidate,) = cast("Rows", gemini.closing()["candidates"])
    last = {**gemini.closing(), "candidates": [{**candidate, "groundingMetadata": grounds}]}
    answer = [gemini.content({"text": "It is "}), gemini.content({"text": "1,233 km."}), last]
    first, second = await requests_of("gemini:gemini-flash-latest", [{"google_search": {}}], answer, named=False)
    assert first["tools"][1] == {"google_search": {}}
    assert second["contents"][1] == {"role": "model", "parts": [{"text": "It is 1,233 km."}]}
