"""Embedders of providers: the same requests as the official SDKs make, and what comes of each answer."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from typing import Final

import openai
import pytest
import trio
import trio.testing
from google import genai
from google.genai.types import EmbedContentConfig, HttpOptions

from agentrail import Secret
from agentrail.errors import (
    AgentrailError,
    BadModelOptions,
    KeyMissing,
    KeyRefused,
    ModelMissing,
    Overloaded,
    ProviderFailed,
    UnknownModel,
    WrongEndpoint,
)
from agentrail.models import open_embedder
from tests.adapters.models.server import Play, Reset, head, refusing, serving, steps

TEXTS: Final = ["What is a lamp?", "Ein Licht. 灯"]
KEY: Final = "sk-0123456789abcdef"


def answering(body: object, kind: str = "application/json") -> Play:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Play((head(200, f"content-length: {len(data)}", kind=kind), data), keep=True)


def packed(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


OPENAI: Final = answering(
    {
        "object": "list",
        "model": "m",
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
        "data": [
            {"object": "embedding", "index": 1, "embedding": packed(0.0, 2.0)},
            {"object": "embedding", "index": 0, "embedding": packed(1.0, 0.5)},
        ],
    }
)
GEMINI: Final = answering({"embeddings": [{"values": [1.0, 0.5]}, {"values": [0.0, 2.0]}]})
WANTED: Final = [[1.0, 0.5], [0.0, 2.0]]


def by_openai(url: str) -> None:
    with openai.OpenAI(api_key=KEY, base_url=f"{url}/v1", max_retries=0) as client:
        client.embeddings.create(model="text-embedding-3-small", input=TEXTS)


def by_google(url: str) -> None:
    client = genai.Client(api_key=KEY, http_options=HttpOptions(base_url=url, api_version="v1beta"))
    client.models.embed_content(
        model="gemini-embedding-001", contents=TEXTS, config=EmbedContentConfig(task_type="RETRIEVAL_DOCUMENT")
    )


@pytest.mark.parametrize(
    ("name", "path", "play", "ask"),
    [
        ("openai:text-embedding-3-small", "/v1", OPENAI, by_openai),
        ("gemini:gemini-embedding-001", "", GEMINI, by_google),
    ],
)
async def test_it_asks_as_the_official_sdk_does(
    name: str, path: str, play: Play, ask: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    async with serving(play) as server:
        await trio.to_thread.run_sync(ask, server.url)
        embedder = open_embedder(name, {"base_url": f"{server.url}{path}", "api_key": Secret("THE_KEY")})
        assert [[*vector] for vector in await embedder.embed(TEXTS)] == WANTED
        assert [[*vector] for vector in await embedder.embed(TEXTS, is_query=True)] == WANTED
        await embedder.aclose()
        theirs, ours, query = server.asked
        assert server.opened == 2  # ours were sent over one connection
    assert (theirs.method, theirs.target, theirs.json) == (ours.method, ours.target, ours.json)
    for header in ("authorization", "x-goog-api-key", "content-type", "accept"):
        assert header == "accept" or theirs.headers.get(header) == ours.headers.get(header)
    assert ours.headers["accept"] == "application/json"
    assert (query.json == ours.json) is name.startswith("openai")
    assert KEY not in repr(embedder)


async def test_what_imitates_openai_may_answer_with_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    data = [{"embedding": vector} for vector in WANTED]
    async with serving(answering({"data": data})) as server:
        embedder = open_embedder("ollama:bge-m3", {"base_url": f"{server.url}/v1", "extra": {"truncate": True}})
        assert await embedder.embed(TEXTS) == WANTED
        await embedder.aclose()
    assert server.asked[0].json["truncate"] is True
    assert "authorization" not in server.asked[0].headers


@pytest.mark.parametrize(
    ("play", "error"),
    [
        (refusing(401, b'{"error": {"message": "no: sk-0123456789abcdef"}}'), KeyRefused),
        (refusing(404, b'{"error": {"message": "no such model"}}'), ModelMissing),
        (answering({"data": []}), WrongEndpoint),
        (answering({"data": [{"embedding": "%%"}, {"embedding": "%%"}]}), WrongEndpoint),
        (answering({"data": [{"embedding": packed(1)[:5]}, {"embedding": [1]}]}), WrongEndpoint),
        (answering({"data": [{"embedding": [{}]}, {"embedding": None}]}), WrongEndpoint),
        (answering([]), WrongEndpoint),
        (answering(b"[" * 100_000), WrongEndpoint),
        (answering(b"<html>sk-0123456789abcdef"), WrongEndpoint),
        (answering(b"data: x", "text/event-stream"), WrongEndpoint),
        (answering(b'{"data": [{"embedding": ' + b"[" + b"1e999," * 3), WrongEndpoint),
    ],
)
async def test_an_answer_without_vectors_is_an_error_without_the_key(
    play: Play, error: type[AgentrailError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    async with serving(play) as server:
        embedder = open_embedder("openai:m", {"base_url": f"{server.url}/v1", "api_key": Secret("THE_KEY")})
        with pytest.raises(error) as raised:
            await embedder.embed(TEXTS)
        await embedder.aclose()
        assert len(server.asked) == 1  # it is not sent again
    assert KEY not in f"{raised.value}{raised.value.__context__}"


def test_a_failure_that_may_pass_is_tried_again() -> None:
    trio.run(tried_again, clock=trio.testing.MockClock(rate=25))  # its waits take seconds


async def tried_again() -> None:
    failing = refusing(503, b"{}")
    limited = refusing(429, b"{}", "retry-after: 7")
    async with serving(failing, steps(Reset()), limited, OPENAI) as server:
        embedder = open_embedder("openai:m", {"base_url": f"{server.url}/v1"})
        start = trio.current_time()
        assert len(await embedder.embed(TEXTS)) == 2
        assert trio.current_time() - start >= 7
        await embedder.aclose()
    async with serving(failing) as server:
        embedder = open_embedder("openai:m", {"base_url": f"{server.url}/v1"})
        with pytest.raises((Overloaded, ProviderFailed)):
            await embedder.embed(TEXTS)
        await embedder.aclose()
        assert len(server.asked) == 4


def test_names_and_options_are_checked() -> None:
    for name in ("openai", "openai:", "nobody:x", "anthropic:claude", "azure:x", ""):
        with pytest.raises(UnknownModel):
            open_embedder(name)
    with pytest.raises(
        UnknownModel, match="there is no model `anthropic:claude` with embeddings; known here: `deepseek"
    ):
        open_embedder("anthropic:claude")
    for options in ({"nonsense": 1}, {"api_key": "sk-x"}, {"base_url": "ftp://x"}):
        with pytest.raises(BadModelOptions):
            open_embedder("openai:m", options)


async def test_a_key_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(KeyMissing, match="OPENAI_API_KEY"):
        await open_embedder("openai:m").embed(["x"])
