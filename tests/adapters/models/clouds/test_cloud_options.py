"""Odd values of what says where requests to clouds go, and with which credentials."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Final, TypeAlias

import httpx  # noqa: ASYNC127 - the client that sends the requests
import pytest
import trio
import trio.testing

from agentrail import Secret, SessionSpec, open_supervisor
from agentrail.adapters.models.clouds.accounts import TOKEN_THREADS, Accounts
from agentrail.adapters.models.clouds.cloud import cloud_of
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.adapters.models.settings import CLOUD_OPTIONS, Settings, address_problem
from agentrail.errors import (
    BadModelOptions,
    BadOptions,
    KeyMissing,
    KeyRefused,
    KeyWanted,
    ModelError,
    TransientModelError,
    TurnAborted,
)
from agentrail.journals import MemoryJournal
from agentrail.models import PROVIDERS, Json, render
from tests.adapters.models import openai_chat_events as chat
from tests.adapters.models.histories import asked, user
from tests.adapters.models.server import refusing, serving, streaming
from tests.each_case import each_case
from tests.kit import freeze_object

OWN: Final = "https://lamps.openai.azure.com"
KEY: Final = "azure-key-0123456789abcdef"
TOKEN: Final = "eyJ0-entra-0123456789abcdef"
CLOUDS: Final = {name: provider for name, provider in PROVIDERS.items() if provider.cloud}
NAMES: Final = {
    "azure": "azure:lamps",
    "azure-chat": "azure-chat:lamps",
    "bedrock": "bedrock:anthropic.claude-sonnet-5-v1:0",
    "vertex": "vertex:gemini-3-flash-preview",
}
ENDPOINTS: Final = {
    "azure": "AZURE_OPENAI_ENDPOINT",
    "azure-chat": "AZURE_OPENAI_ENDPOINT",
    "bedrock": "AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
    "vertex": "GOOGLE_VERTEX_BASE_URL",
}


Secrets: TypeAlias = Mapping[str, object] | Callable[[str], object]


def model_of(name: str, secrets: Secrets = MappingProxyType({}), http: Http | None = None) -> RemoteModel:
    look_up = secrets if callable(secrets) else secrets.get
    provider = PROVIDERS[name.partition(":")[0]]
    return RemoteModel(name, provider, http or Http(), look_up, Accounts())  # type: ignore[arg-type]  # odd ones


async def ask(name: str, secrets: Secrets, **options: Json) -> None:
    http = Http()
    request = asked(user("hello"), model=name).but(options=freeze_object(options))
    failure: ModelError | None = None
    try:
        await model_of(name, secrets, http).stream(request, lambda _: None)
    except ModelError as error:
        failure = error
    await http.close()
    if failure is not None:
        raise failure


# Two credentials


@pytest.mark.parametrize("provider", ["azure", "azure-chat", "bedrock"])
async def test_two_credentials_are_refused_when_they_are_given(provider: str) -> None:
    options: dict[str, Json] = {"api_key": Secret("KEY"), "token": Secret("ENTRA"), "base_url": OWN}
    problem = "`api_key` and `token` are two credentials, and a request bears one; leave one of them out"
    with pytest.raises(BadModelOptions, match=problem):
        model_of(NAMES[provider]).check(freeze_object(options))
    async with open_supervisor(secrets={"KEY": KEY, "ENTRA": TOKEN}.get) as supervisor:
        with pytest.raises(BadOptions, match=problem):
            await supervisor.spawn(SessionSpec(model=NAMES[provider], model_options=options))


@pytest.mark.parametrize("options", [{"token": Secret("ENTRA")}, {"api_key": Secret("KEY")}, {}])
async def test_one_credential_is_sent_and_no_other(options: dict[str, Json], monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(streaming(chat.saying("well"))) as server:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url)
        secrets = {"ENTRA": TOKEN, "KEY": KEY, "AZURE_OPENAI_API_KEY": f"usual-{KEY}"}
        await ask("azure-chat:lamps", secrets, **options)
        headers = server.asked[0].headers
    sent = {name: headers[name] for name in ("api-key", "authorization") if name in headers}
    wanted = {"authorization": f"Bearer {TOKEN}"} if "token" in options else {"api-key": f"usual-{KEY}"}
    assert sent == ({"api-key": KEY} if "api_key" in options else wanted)


@pytest.mark.parametrize("provider", ["bedrock", "vertex"])
async def test_a_header_with_a_credential_needs_none_of_the_machine(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    async with serving(refusing(401, b"{}")) as server:
        monkeypatch.setenv(ENDPOINTS[provider], server.url)
        options: dict[str, Json] = {"headers": {"Authorization": Secret("OURS")}}
        if provider == "vertex":
            options["project"] = "lamps-1"
        with pytest.raises(KeyRefused):
            await ask(NAMES[provider], {"OURS": f"Bearer {TOKEN}"}, **options)
        assert [asked.headers["authorization"] for asked in server.asked] == [f"Bearer {TOKEN}"]


# Addresses


HOSTILE: Final = (
    "https://lamps.openai.azure.com.evil.example",
    "https://evil.example/lamps.openai.azure.com",
    "https://evil-lamps.openai.azure.com",
    "https://lamps.openai.azure.com.",
    "https://lamps.openai.azure.com..",
    "https://lamps.openai.azure.com:8443",
    "https://lamps.openai.azure.com:80",
    "http://lamps.openai.azure.com",
    "http://lamps.openai.azure.com:443",
    "https://lamps.openai.azure.com@evil.example",
    "https://lamps.openai.azure.com:443@evil.example",
    "https://user:password@lamps.openai.azure.com",
    "https://evil.example\\lamps.openai.azure.com",
    "https://evil.example\\@lamps.openai.azure.com",
    "https://evil.example#@lamps.openai.azure.com",
    "https://evil.example?@lamps.openai.azure.com",
    "https://lamps.openai.azure.com\\.evil.example",
    "https://lamps.openai.azure.com%2eevil.example",
    "https://lamps%2eopenai.azure.com",
    "https://lamps.openai.azure\u3002com",
    "https://l\u0430mps.openai.azure.com",
    "https://lamps.openai.azure.com\u2044.evil.example",
    "https://lamps.openai.azure.com\t.evil.example",
    "https://lamps.openai.azure.com\n",
    " https://lamps.openai.azure.com",
    "https:lamps.openai.azure.com",
    "https:///lamps.openai.azure.com",
    "//lamps.openai.azure.com",
    "lamps.openai.azure.com",
    "https://lamps.openai.azure.com/other",
    "https://lamps.openai.azure.com/openai/v1/../../evil",
    "https://lamps.openai.azure.com/?x",
    "https://lamps.openai.azure.com/#",
    "https://other.openai.azure.com",
    "https://[::1]",
    "https://lamps.cognitiveservices.azure.com",
)
SAME: Final = (
    OWN,
    f"{OWN}/",
    f"{OWN}/openai/v1",
    "https://LAMPS.OpenAI.azure.com",
    "HTTPS://lamps.openai.azure.com",
    "https://lamps.openai.azure.com:443/openai/v1",
)


def is_own(url: str, endpoint: str, provider: str = "azure") -> bool:
    cloud = cloud_of(PROVIDERS[provider].cloud)
    assert cloud is not None
    return cloud.is_own(url.rstrip("/"), {ENDPOINTS[provider]: endpoint}.get)


@each_case([(url, endpoint) for url in HOSTILE for endpoint in (OWN, f"{OWN}/", f"{OWN}/openai/v1/")])
def test_the_usual_key_of_azure_goes_to_no_other_address(url: str, endpoint: str) -> None:
    assert not is_own(url, endpoint)


@each_case([(url, endpoint) for url in SAME for endpoint in SAME])
def test_an_address_at_azure_may_be_written_in_several_ways(url: str, endpoint: str) -> None:
    assert is_own(url, endpoint)


def test_without_an_address_in_the_environment_nothing_is_azure_s_own() -> None:
    for url in (*HOSTILE, *SAME):
        assert not any(is_own(url, endpoint) for endpoint in ("", " ", "/", "https://", "lamps"))


def changed(random: Random, url: str) -> str:
    """Return *url* with some characters removed, doubled, or replaced by those that mean something in addresses."""
    letters = list(url)
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(letters))
        letters[at] = random.choice(
            ("", letters[at] * 2, *"@:/\\?#.%[] -\t\u3002\u2044Aa0", ".evil.example", "evil.example/")
        )
    return "".join(letters)


@pytest.mark.parametrize("provider", ["azure", "bedrock", "vertex"])
def test_no_address_that_is_a_little_changed_gets_what_the_machine_has(provider: str) -> None:
    own = {
        "azure": OWN,
        "bedrock": "https://bedrock-runtime.us-east-1.amazonaws.com",
        "vertex": "https://europe-west4-aiplatform.googleapis.com",
    }[provider]
    suffix = {"azure": OWN[8:], "bedrock": ".amazonaws.com", "vertex": "aiplatform.googleapis.com"}[provider]
    random = Random(provider)
    for _ in range(400):
        url = changed(random, own)
        try:
            where = httpx.URL(url)
        except (httpx.InvalidURL, ValueError):
            continue  # no request can go there
        if address_problem(url) is None and is_own(url, OWN if provider == "azure" else "", provider):
            assert (where.scheme, where.port, where.userinfo) == ("https", None, b"")
            assert where.host.endswith(suffix), url


@each_case([(provider, url) for provider in ENDPOINTS for url in HOSTILE[11:27]])
def test_an_odd_address_in_the_environment_is_an_error_that_names_the_variable(provider: str, url: str) -> None:
    cloud = cloud_of(PROVIDERS[provider].cloud)
    assert cloud is not None
    settings = Settings(project="lamps-1", region="us-east-1")
    environment = {ENDPOINTS[provider]: url}.get
    if url.strip() != url:  # spaces around it do no harm
        assert "lamps" in cloud.base_url("m", settings, environment, "")
        return
    if "%" in url or not url.isascii():
        return  # an address of somebody
    with pytest.raises(
        BadModelOptions, match=f"the environment variable `{ENDPOINTS[provider]}` cannot be used"
    ) as caught:
        cloud.base_url("m", settings, environment, "")
    assert "password" not in str(caught.value)
    assert not is_own(url, url, provider)


async def test_the_usual_key_goes_to_no_address_of_the_options_but_the_one_in_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    secrets = {"AZURE_OPENAI_API_KEY": KEY}
    async with serving(refusing(401, b"{}")) as server:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", OWN)
        with pytest.raises(KeyWanted, match="name one by the option `api_key`"):
            await ask("azure-chat:lamps", secrets, base_url=server.url)
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", f"{server.url}/openai/v1/")
        with pytest.raises(KeyRefused):
            await ask("azure-chat:lamps", secrets, base_url=server.url)
        assert [asked.headers.get("api-key") for asked in server.asked] == [None, KEY]


@pytest.mark.parametrize("region", ["s3", "s3-us-west-2", "us-east", "us-east-1-x", "evil"])
def test_a_region_that_aws_has_not_gets_no_request(region: str) -> None:
    cloud = cloud_of("aws_account")
    assert cloud is not None
    for settings, environment in ((Settings(region=region), {}), (Settings(), {"AWS_REGION": region})):
        with pytest.raises(BadModelOptions, match=f"the region is '{region}'; it must be one of AWS"):
            cloud.base_url("m", settings, dict[str, str](environment).get, "")


@pytest.mark.parametrize("region", ["us-east-1", "US-EAST-1", "us-gov-west-1", "ap-southeast-7", "mx-central-1"])
def test_regions_of_aws(region: str) -> None:
    cloud = cloud_of("aws_account")
    assert cloud is not None
    url = cloud.base_url("m", Settings(region=region), dict[str, str]().get, "")
    assert (url, cloud.is_own(url, dict[str, str]().get)) == (f"https://bedrock-runtime.{region}.amazonaws.com", True)


# Values of each option


VALUES: Final[tuple[Json, ...]] = (
    *(5, -1, True, 2.5, [], ["x"], {}, {"secret": 5}, {"a": 1}, "", " ", "a b", "a\nb", "\0", "é", "../x", "x" * 5_000),
    *("$(id)", "{0}", "a;b", "a/b", "a\\b"),
)


@each_case(
    [
        (provider, option, value)
        for provider in CLOUDS
        for option in (*CLOUD_OPTIONS, "base_url", "api_key")
        for value in VALUES
    ]
)
def test_an_odd_value_is_refused_by_the_name_of_its_option(provider: str, option: str, value: Json) -> None:
    model = model_of(NAMES[provider])
    with pytest.raises(BadModelOptions, match=option) as caught:
        model.check(freeze_object({option: value}))
    assert len(str(caught.value)) < 400
    with pytest.raises(BadModelOptions, match=option):
        render(asked(user("hello"), model=NAMES[provider]).but(options=freeze_object({option: value})))


# Functions for tokens


def leaving(_: str) -> str:
    raise SystemExit(TOKEN)


@pytest.mark.parametrize("option", ["token", "api_key"])
@pytest.mark.parametrize(
    ("look_up", "wanted", "problem"),
    [
        (leaving, TransientModelError, "raised `SystemExit`"),
        (lambda _: TOKEN.encode(), BadModelOptions, "of the type `bytes`, and must be a text"),
        (lambda _: [TOKEN], BadModelOptions, "of the type `list`, and must be a text"),
        (lambda _: {"token": TOKEN}, BadModelOptions, "of the type `dict`, and must be a text"),
        (lambda _: f"{TOKEN}\r\nx: y", BadModelOptions, "characters that no header can hold"),
        (lambda _: f"{TOKEN}é", BadModelOptions, "characters that no header can hold"),
        (lambda _: " \n", KeyMissing, "`T` is not set"),
        (lambda _: None, KeyMissing, "`T` is not set"),
    ],
)
async def test_a_function_that_gives_no_token(
    option: str,
    look_up: Callable[[str], object],
    wanted: type[ModelError],
    problem: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(wanted, match=problem) as caught:
        await ask("azure:lamps", look_up, base_url="http://127.0.0.9:9", **{option: Secret("T")})
    shown = f"{caught.value} {caught.value!r} {caught.value.__cause__} {caught.value.__context__} {caplog.text}"
    assert TOKEN not in shown


async def test_a_function_that_blocks_leaves_few_threads_behind_and_none_that_others_need() -> None:
    gate = threading.Event()
    accounts = Accounts()
    model = RemoteModel("azure:lamps", PROVIDERS["azure"], Http(), lambda _: "x" if gate.wait(20) else "", accounts)
    options = freeze_object({"base_url": OWN, "token": Secret("T")})
    request = asked(user("hello"), model=model.name).but(options=options)
    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(model.stream, request, lambda _: None)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
    assert accounts.threads_for("T").borrowed_tokens == TOKEN_THREADS
    gate.set()


async def test_nothing_of_a_token_is_in_the_journal_a_log_or_an_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = refusing(400, f'{{"error": {{"message": "odd: Bearer {TOKEN}"}}}}'.encode(), f"x-echo: {TOKEN}")
    journal = MemoryJournal()
    async with (
        serving(streaming(chat.saying("your token: ", TOKEN)), echo) as server,
        open_supervisor(journal=journal, secrets={"ENTRA": TOKEN}.get) as supervisor,
    ):
        options: dict[str, Json] = {
            "base_url": server.url,
            "token": Secret("ENTRA"),
            "api_version": "2025-04-01-preview",
        }
        session = await supervisor.open("s", SessionSpec(model="azure-chat:lamps", model_options=options))
        assert (await session.ask("hello")).text == "your token: [secret]"
        with pytest.raises(TurnAborted) as caught:
            await session.ask("again")
        assert server.asked[0].target == "/openai/deployments/lamps/chat/completions?api-version=2025-04-01-preview"
        shown = (
            f"{await journal.read('s')} {caught.value!r} {caplog.text} {supervisor!r} {session!r} {session.status()!r}"
        )
    assert TOKEN not in shown
    assert server.asked[1].headers["authorization"] == f"Bearer {TOKEN}"
