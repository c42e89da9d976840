"""Where requests to clouds go, with what, and which options are refused."""

import json
import sys
from collections.abc import Mapping
from typing import Final

import pytest

from agentrail import Secret
from agentrail.adapters.models.clouds.accounts import Accounts
from agentrail.adapters.models.clouds.cloud import none_for_machine
from agentrail.adapters.models.clouds.google_account import CLOUD
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.provider_errors import error_of_body
from agentrail.adapters.models.providers import format_of
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.app.model_registry import check_set_up
from agentrail.errors import (
    AccessDenied,
    BadModelOptions,
    ContextTooLong,
    CredentialsMissing,
    KeyMissing,
    KeyRefused,
    ModelError,
    ModelMissing,
    RateLimited,
    RequestRefused,
)
from agentrail.models import PROVIDERS, Json
from tests.adapters.models import anthropic_events, gemini_events, openai_chat_events, openai_events
from tests.adapters.models.histories import asked, user
from tests.adapters.models.server import serving, streaming
from tests.kit import freeze_object


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("Unable to locate credentials", "Unable to locate credentials"),
        ("refused.\n{'answer': 'ya29.secret'}", "refused"),
        ("x" * 1000, "x" * 300),
    ],
    ids=["plain", "with an answer", "long"],
)
def test_of_the_reason_why_there_are_no_credentials_the_first_line_is_told(reason: str, told: str) -> None:
    assert f"AWS has none for this machine: {told}; set a key" in str(none_for_machine("AWS", reason, "set a key"))


@pytest.mark.parametrize(
    "url",
    [
        "https://aiplatform.googleapis.com.evil.example",
        "https://evil.example/aiplatform.googleapis.com",
        "https://evilaiplatform.googleapis.com",
        "https://bucket.storage.googleapis.com",
        "https://storage.googleapis.com",
        "http://aiplatform.googleapis.com",
        "https://aiplatform.googleapis.com@evil.example",
        "https://aiplatform.googleapis.com.",
        "https://aiplatform.googleapis.com:8443",
        "https://aiplatform%2egoogleapis.com",
        "https://evil.example\\.aiplatform.googleapis.com",
        "https://evil.example\\aiplatform.googleapis.com",
        "https://aiplatform。googleapis.com",
        "https://a.b-aiplatform.googleapis.com",
        "https://aiplatform.evil.rep.googleapis.com",
    ],
)
def test_the_machine_s_token_goes_to_no_other_host(url: str) -> None:
    assert not CLOUD.is_own(url, NOTHING.get)


@pytest.mark.parametrize("host", ["", "europe-west4-", "us-central1-"])
def test_vertex_s_own_hosts(host: str) -> None:
    assert CLOUD.is_own(f"https://{host}aiplatform.googleapis.com", NOTHING.get)
    assert CLOUD.is_own("https://aiplatform.eu.rep.googleapis.com", NOTHING.get)
    assert CLOUD.is_own("http://127.0.0.1:1", {"GOOGLE_VERTEX_BASE_URL": "http://127.0.0.1:1/"}.get)


def model_of(name: str) -> RemoteModel:
    return RemoteModel(name, PROVIDERS[name.partition(":")[0]], Http(), NOTHING.get, Accounts())


CLOUD_VALUES: Mapping[str, Json] = {
    "region": "europe-west4",
    "project": "lamps-1",
    "profile": "work",
    "api_version": "2025-04-01-preview",
    "token": Secret("TOKEN"),
}


@pytest.mark.parametrize("option", CLOUD_VALUES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_provider_refuses_an_option_that_it_lacks_and_says_which_has_it(provider: str, option: str) -> None:
    options = freeze_object({option: CLOUD_VALUES[option]})
    owners = [name for name, other in PROVIDERS.items() if option in other.options]
    if provider in owners:
        model_of(f"{provider}:m").check(options)
        return
    with pytest.raises(BadModelOptions, match=f"`{provider}` has no option `{option}`") as caught:
        model_of(f"{provider}:m").check(options)
    assert all(f"`{owner}`" in str(caught.value) for owner in owners)


def test_vertex_takes_no_api_key() -> None:
    for model in ("vertex:gemini-3-flash-preview", "vertex:claude-sonnet-5"):
        with pytest.raises(BadModelOptions, match="name the secret that holds a token in the option `token`"):
            model_of(model).check(freeze_object({"api_key": Secret("KEY")}))


@pytest.mark.parametrize(
    "value", ["a/../../b", "a.b", "a b", "a_b", "-a", "a-", "a%2fb", "a?b", "a@evil.example", "x" * 101]
)
@pytest.mark.parametrize("option", ["region", "project"])
def test_an_odd_region_or_project_is_refused_at_once(option: str, value: str) -> None:
    with pytest.raises(BadModelOptions, match=f"`{option}` is "):
        model_of("vertex:gemini-3-flash-preview").check(freeze_object({"region": "global", option: value}))


KEY: Final = "AZURE_OPENAI_API_KEY"

BEARER: Final = "AWS_BEARER_TOKEN_BEDROCK"

LACKING: Final[list[tuple[str, dict[str, str], dict[str, Json], str]]] = [
    ("azure:lamps", {}, {}, KEY),
    ("azure:lamps", {KEY: "k"}, {}, "AZURE_OPENAI_ENDPOINT"),
    ("azure:lamps", {KEY: "k", "AZURE_OPENAI_ENDPOINT": "https://lamps.openai.azure.com"}, {}, ""),
    ("azure-chat:lamps", {KEY: "k"}, {"base_url": "https://lamps.openai.azure.com", "api_key": Secret(KEY)}, ""),
    ("bedrock:m", {BEARER: "k"}, {}, "AWS_REGION"),
    ("bedrock:m", {BEARER: "k"}, {"region": "eu-west-1"}, ""),
    ("bedrock:m", {}, {}, ""),
    ("vertex:m", {"TOKEN": "t"}, {"token": Secret("TOKEN")}, "GOOGLE_CLOUD_PROJECT"),
    ("vertex:m", {"TOKEN": "t"}, {"token": Secret("TOKEN"), "project": "lamps-1"}, ""),
    ("vertex:m", {}, {"token": Secret("TOKEN"), "project": "lamps-1"}, "TOKEN"),
    ("vertex:m", {}, {}, ""),
]
"""A model, environment, options, and the variable that is said to be missing; empty if nothing is known to be."""


@pytest.mark.parametrize(("name", "environment", "options", "missing"), LACKING)
def test_what_a_model_of_a_cloud_lacks_is_known_before_its_first_request(
    name: str, environment: dict[str, str], options: dict[str, Json], missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", environment)
    if missing:
        with pytest.raises((KeyMissing, BadModelOptions), match=missing):
            check_set_up(name, freeze_object(options))
    else:
        check_set_up(name, freeze_object(options))


@pytest.mark.parametrize(("name", "package"), [("bedrock:m", "botocore"), ("vertex:m", "google.auth")])
def test_an_extra_is_needed_where_the_machine_s_credentials_go(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.environ", NOTHING)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(CredentialsMissing, match="packages of the extra"):
        check_set_up(name, freeze_object({}))
    check_set_up(name, freeze_object({"base_url": "http://127.0.0.1:9"}))  # a server of somebody else gets none


NOTHING: Final[dict[str, str]] = {}
"""An environment without any variable."""

GOOGLE = [
    (401, {"code": 401, "message": "no", "status": "UNAUTHENTICATED"}, KeyRefused),
    (403, {"code": 403, "message": "no", "status": "PERMISSION_DENIED"}, AccessDenied),
    (404, {"code": 404, "message": "not enabled", "status": "NOT_FOUND"}, ModelMissing),
    (429, {"code": 429, "message": "later", "status": "RESOURCE_EXHAUSTED"}, RateLimited),
]


@pytest.mark.parametrize(("status", "error", "wanted"), GOOGLE)
@pytest.mark.parametrize("model", ["gemini-3-flash-preview", "claude-sonnet-5"])
@pytest.mark.parametrize("in_list", [False, True])
def test_google_s_errors_mean_the_same_for_both_makers(
    status: int, error: dict[str, object], wanted: type[ModelError], model: str, in_list: bool
) -> None:
    faults = format_of(PROVIDERS["vertex"], model).faults
    body: object = [{"error": error}] if in_list else {"error": error}
    assert type(error_of_body(faults, status, {}, json.dumps(body).encode())) is wanted


FILTERED = {
    "code": "content_filter",
    "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    "param": "prompt",
    "status": 400,
    "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {"hate": {"filtered": True}}},
}


@pytest.mark.parametrize("provider", ["azure", "azure-chat"])
@pytest.mark.parametrize(
    ("status", "error", "wanted", "wait"),
    [
        (404, {"code": "DeploymentNotFound", "message": "no such deployment"}, ModelMissing, None),
        (400, FILTERED, RequestRefused, None),
        (400, {"code": "context_length_exceeded", "message": "too long"}, ContextTooLong, None),
        (401, {"code": "401", "message": "invalid subscription key"}, KeyRefused, None),
        (429, {"code": "429", "message": "later"}, RateLimited, 1.5),
    ],
)
def test_azure_s_errors(
    provider: str, status: int, error: dict[str, object], wanted: type[ModelError], wait: float | None
) -> None:
    headers = {"retry-after-ms": "1500"} if wait else {}
    body = json.dumps({"error": error}).encode()
    fault = error_of_body(format_of(PROVIDERS[provider]).faults, status, headers, body)
    assert (type(fault), fault.retry_after) == (wanted, wait)


ANSWERS = {
    "vertex:gemini-3-flash-preview": gemini_events.saying("well"),
    "vertex:claude-sonnet-4@20250514": anthropic_events.saying("well"),
    "azure:lamps": openai_events.saying("well"),
    "azure-chat:lamps": openai_chat_events.saying("well"),
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_the_stream_of_the_maker_is_read_at_the_cloud(name: str) -> None:
    options: dict[str, Json] = {"token": Secret("TOKEN")}
    if name.startswith("vertex"):
        options |= {"project": "lamps-1"}
    async with serving(streaming(ANSWERS[name])) as server:
        options |= {"base_url": server.url}
        http = Http()
        provider = PROVIDERS[name.partition(":")[0]]
        model = RemoteModel(name, provider, http, {"TOKEN": "ya29.token"}.get, Accounts())
        request = asked(user("hello"), model=name).but(options=freeze_object(options))
        response = await model.stream(request, lambda _: None)
        await http.close()
    assert [part.text for part in response.parts] == ["well"]
    assert server.asked[0].headers["authorization"] == "Bearer ya29.token"
