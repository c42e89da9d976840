"""Where a key goes: a provider's customary one to its own address alone, a named one to wherever it is named for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from agentrail import Secret
from agentrail.adapters.models.clouds.accounts import Accounts
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.errors import KeyMissing, KeyRefused, KeyWanted, ModelError
from agentrail.models import PROVIDERS, Chunk, Json, Provider
from tests.adapters.models import openai_chat_events as chat
from tests.adapters.models.histories import asked, user
from tests.adapters.models.server import Server, refusing, serving, streaming
from tests.kit import freeze_object

KEY = "sk-0123456789"
MODEL = "lamp:small"
REFUSED = json.dumps({"error": {"message": "who are you?", "type": "authentication_error"}}).encode()


def unheard(_: Chunk) -> None:
    """Nobody listens."""


@asynccontextmanager
async def client() -> AsyncIterator[Http]:
    http = Http()
    try:
        yield http
    finally:
        await http.close()


async def ask(http: Http, own: str, secrets: Mapping[str, str], **options: Json) -> None:
    provider = Provider("openai_chat", own, ("LAMP_KEY", "LAMP_TOKEN"))
    model = RemoteModel(MODEL, provider, http, secrets.get, Accounts())
    await model.stream(asked(user("hello"), model=MODEL).but(options=freeze_object(options)), unheard)


def sent(server: Server) -> list[str | None]:
    return [request.headers.get("authorization") for request in server.asked]


async def test_the_customary_key_is_the_first_that_is_set() -> None:
    async with serving(streaming(chat.saying("well"))) as server, client() as http:
        await ask(http, server.url, {"LAMP_KEY": KEY, "LAMP_TOKEN": "other"})
        await ask(http, server.url, {"LAMP_KEY": "", "LAMP_TOKEN": KEY})
        with pytest.raises(KeyMissing, match="`LAMP_KEY`, `LAMP_TOKEN` is not set"):
            await ask(http, server.url, {})
        assert sent(server) == [f"Bearer {KEY}"] * 2


async def test_the_customary_key_goes_to_another_path_of_the_provider_s_address() -> None:
    async with serving(streaming(chat.saying("well"))) as server, client() as http:
        await ask(http, server.url, {"LAMP_KEY": KEY}, base_url=f"{server.url}/beta/")
        assert (sent(server), server.asked[0].target) == ([f"Bearer {KEY}"], "/beta/chat/completions")
        with pytest.raises(KeyMissing):
            await ask(http, server.url, {}, base_url=f"{server.url}/beta")


async def test_the_customary_key_goes_to_no_other_address_unless_it_is_named() -> None:
    async with serving(streaming(chat.saying("well"))) as server, client() as http:
        host = f"http://localhost:{server.port}"
        port, scheme = f"http://127.0.0.1:{server.port - 1}", f"https://127.0.0.1:{server.port}"
        for own in ("https://lamps.invalid/v1", host, port, scheme):
            await ask(http, own, {"LAMP_KEY": KEY}, base_url=server.url)
        assert sent(server) == [None] * 4
        await ask(http, "https://lamps.invalid/v1", {"LAMP_KEY": KEY}, base_url=server.url, api_key=Secret("LAMP_KEY"))
        assert sent(server)[-1] == f"Bearer {KEY}"


@pytest.mark.parametrize("name", [name for name, provider in PROVIDERS.items() if provider.keys])
async def test_no_provider_s_key_goes_to_the_loopback(name: str) -> None:
    looked_up: list[str] = []
    async with serving(refusing(401, REFUSED)) as server, client() as http:
        model = RemoteModel(f"{name}:m", PROVIDERS[name], http, looked_up.append, Accounts())
        options = freeze_object({"base_url": server.url})
        with pytest.raises(ModelError):
            await model.stream(asked(user("hello"), model=f"{name}:m").but(options=options), unheard)
        assert len(server.asked) == 1
    assert looked_up == []


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, KeyWanted),
        ({"headers": {"x-lamp": "on"}}, KeyWanted),
        ({"api_key": Secret("LAMP_KEY")}, KeyRefused),
        ({"headers": {"x-own": Secret("LAMP_KEY")}}, KeyRefused),
    ],
)
async def test_a_server_that_wants_a_key_and_gets_none_is_not_said_to_refuse_it(
    options: dict[str, Json], wanted: type[ModelError]
) -> None:
    async with serving(refusing(401, REFUSED)) as server, client() as http:
        with pytest.raises(ModelError) as raised:
            await ask(http, "https://lamps.invalid/v1", {"LAMP_KEY": KEY}, base_url=server.url, **options)
    assert raised.value == wanted("401 authentication_error: who are you?")
