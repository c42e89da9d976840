"""The official SDKs and our adapters make the same requests to one recording server, story by story."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
from attrs import frozen
from google import genai
from google.genai.errors import ClientError
from google.genai.types import HttpOptions

from agentrail import Secret
from agentrail.adapters.models.clouds.accounts import Accounts
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.errors import ModelError
from agentrail.models import PROVIDERS
from tests.adapters.models.beside import DIFFERENCES, differences, row_of
from tests.adapters.models.official import CLIENTS, HEADERS, KEYS, MODELS, PATHS, WRITERS, Ask
from tests.adapters.models.server import Asked, Server, refusing, serving
from tests.adapters.models.stories import STORIES, Story
from tests.cli.test_choosing import internet
from tests.kit import freeze_object

SEALS: Final = {
    "anthropic": {"c2VhbA==": "c2VhbA=="},
    "openai": {"c2VhbA==": "reasoning:rs_1:c2VhbA=="},
    "openai-chat": {"c2VhbA==": "nobody's"},
    "gemini": {"c2VhbA==": "call:0:c2VhbA=="},
}
"""The signature of the story as each adapter keeps it."""

EXTRA: Final[Mapping[str, Mapping[str, object]]] = {
    "anthropic": {"service_tier": "standard_only"},
    "openai": {"service_tier": "flex"},
    "openai-chat": {"service_tier": "flex"},
    "gemini": {"labels": {"team": "lamps"}},
}

NOT_TAKEN: Final = {
    ("anthropic", "temperature"): "today's models refuse it, and the SDK has dropped it",
    ("openai", "words that end the answer"): "the Responses API has no such field",
    ("anthropic", "any JSON object"): "the API wants a schema",
}
"""Stories that a provider cannot be told."""

REFUSED: Final = refusing(400, b'{"error": {"message": "not today"}}')
"""Both sides hear no: what is looked at is what they asked."""


@frozen
class Both:
    """What the SDK asked, and what we did."""

    theirs: Asked
    ours: Asked


SDKS: Final = frozenset({"anthropic", "openai", "google"})


class Side:
    """Both clients, with the same address."""

    def __init__(self, provider: str, url: str | None, ask: Ask) -> None:
        self._provider = provider
        self._url = url
        self._ask = ask
        self._http = Http()

    async def theirs(self, story: Story) -> None:
        """Let the SDK ask; it raises an error of its own at the refusal, whichever that is."""
        try:
            await trio.to_thread.run_sync(self._ask, WRITERS[self._provider](story))
        except Exception as error:
            if type(error).__module__.partition(".")[0] not in SDKS:
                raise

    async def ours(self, story: Story) -> None:
        """Ask ourselves."""
        options = {key: item for key, item in story.options.items() if key != "extra"} | {"api_key": Secret("KEY")}
        if "extra" in story.options:
            options["extra"] = EXTRA[self._provider]
        if self._url is not None:
            options["base_url"] = self._url
        name = f"{self._provider}:{MODELS[self._provider]}"
        request = story.request(name, SEALS[self._provider]).but(options=freeze_object(options))
        secrets = {"KEY": KEYS[self._provider], "GATE": HEADERS["x-gate"]}
        model = RemoteModel(name, PROVIDERS[self._provider], self._http, secrets.get, Accounts())
        with pytest.raises(ModelError, match="not today"):
            await model.stream(request, lambda _: None)

    async def told(self, name: str, server: Server) -> Both:
        """Tell the story of this name to both, and return what they asked *server*."""
        before = len(server.asked)
        await self.theirs(STORIES[name])
        await self.ours(STORIES[name])
        theirs, ours = server.asked[before:]
        return Both(theirs, ours)

    async def close(self) -> None:
        await self._http.close()


@asynccontextmanager
async def both_sides(provider: str, url: str | None) -> AsyncIterator[Side]:
    with trio.fail_after(60), CLIENTS[provider](url) as ask:
        side = Side(provider, url, ask)
        yield side
        await side.close()


def stories_of(provider: str) -> list[str]:
    return [name for name in STORIES if (provider, name) not in NOT_TAKEN]


@pytest.mark.long
@pytest.mark.parametrize("provider", WRITERS)
async def test_both_ask_the_same_but_for_what_the_table_says(provider: str) -> None:
    found: dict[str, dict[str, str]] = {}
    async with serving(REFUSED) as server, both_sides(provider, server.url + PATHS[provider]) as side:
        for name in stories_of(provider):
            both = await side.told(name, server)
            found[name] = dict(differences(provider, both.theirs, both.ours))
    places = {(name, place): what for name, places in found.items() for place, what in places.items()}
    unexplained = [
        f"{name}: {place}: {what[:300]}"
        for (name, place), what in places.items()
        if row_of(provider, place, name) is None
    ]
    assert not unexplained, "; ".join(unexplained)
    needed = {row_of(provider, place, name) for name, place in places}
    assert [row.places for row in DIFFERENCES if provider in row.providers and row not in needed] == []


@pytest.mark.long
@pytest.mark.parametrize("provider", WRITERS)
async def test_a_difference_is_noticed(provider: str) -> None:
    async with serving(REFUSED) as server, both_sides(provider, server.url + PATHS[provider]) as side:
        both = await side.told("parallel calls, one fails", server)
        other = await side.told("tools are offered", server)
    found = dict(differences(provider, both.theirs, other.ours))
    assert [place for place in found if row_of(provider, place, "tools are offered") is None]
    without = {name: item for name, item in both.ours.headers.items() if name != "content-type"}
    bare = Asked(both.ours.method, both.ours.target, without, both.ours.body)
    assert "header content-type" in dict(differences(provider, both.theirs, bare))
    assert row_of(provider, "header content-type", "tools are offered") is None


@pytest.mark.long
async def test_google_s_sdk_sends_the_same_to_both_versions() -> None:
    told = [WRITERS["gemini"](STORIES[name]) for name in stories_of("gemini")]
    async with serving(REFUSED) as server:
        for version in ("v1", "v1beta"):
            with genai.Client(
                api_key=KEYS["gemini"], http_options=HttpOptions(base_url=server.url, api_version=version)
            ) as client:
                for body in told:
                    with pytest.raises(ClientError):
                        await trio.to_thread.run_sync(lambda: list(client.models.generate_content_stream(**body)))  # noqa: B023 - it is called at once
    first, second = server.asked[: len(told)], server.asked[len(told) :]
    assert [asked.body for asked in first] == [asked.body for asked in second]
    assert [asked.target.replace("/v1/", "/v1beta/") for asked in first] == [asked.target for asked in second]


# Where requests go


@pytest.mark.parametrize("ending", ["", "/", "/of/my/proxy", "/of/my/proxy/"])
@pytest.mark.parametrize("provider", WRITERS)
async def test_an_address_is_read_alike(provider: str, ending: str) -> None:
    async with serving(REFUSED) as server, both_sides(provider, server.url + ending) as side:
        both = await side.told("a prompt", server)
    beta = both.theirs.target.replace("/v1/models", "/v1beta/models")
    assert beta == both.ours.target


HOSTS: Final = {
    "anthropic": "api.anthropic.com",
    "openai": "api.openai.com",
    "openai-chat": "api.openai.com",
    "gemini": "generativelanguage.googleapis.com",
}


@asynccontextmanager
async def the_world(
    provider: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **environment: str
) -> AsyncIterator[Server]:
    """Let the provider's own host be a server of ours, by a proxy and a certificate, as the environment says."""
    async with serving(REFUSED) as server, internet(server, HOSTS[provider], folder / "ca.pem") as leading:
        for name, found in {**leading, **environment}.items():
            monkeypatch.setenv(name, found)
        yield server


@pytest.mark.parametrize("provider", WRITERS)
async def test_by_default_both_go_to_the_provider_by_the_proxy_of_the_environment(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with the_world(provider, tmp_path, monkeypatch) as server, both_sides(provider, None) as side:
        both = await side.told("limits", server)
    assert (both.ours.headers["host"], both.theirs.headers["host"]) == (HOSTS[provider], HOSTS[provider])
    found = dict(differences(provider, both.theirs, both.ours))
    assert {place: what for place, what in found.items() if row_of(provider, place, "limits") is None} == {}
    assert "max_tokens" not in found  # at OpenAI's own address


PASSED_BY: Final = ("127.0.0.1", "localhost,127.0.0.1", "*", "127.0.0.0/8", ".0.0.1", "127.0.0.1:{port}", "example.com")


@pytest.mark.parametrize("passed_by", PASSED_BY)
@pytest.mark.parametrize("provider", WRITERS)
async def test_no_proxy_is_read_alike(provider: str, passed_by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(REFUSED) as server, serving(REFUSED) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", passed_by.format(port=server.port))
        async with both_sides(provider, server.url + PATHS[provider]) as side:
            await side.theirs(STORIES["a prompt"])
            theirs = (len(server.asked), len(proxy.asked))
            await side.ours(STORIES["a prompt"])
        assert sum(theirs) == 1
        assert (len(server.asked), len(proxy.asked)) == (2 * theirs[0], 2 * theirs[1])
