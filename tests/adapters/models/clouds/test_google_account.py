"""The credentials of Google Cloud: google-auth itself asks a token server of ours."""

import json
import logging
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from agentrail import Secret
from agentrail.adapters.models.clouds.accounts import Accounts
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.errors import (
    BadModelOptions,
    CredentialsMissing,
    KeyMissing,
    KeyRefused,
    ModelError,
    NoFirstByte,
    ProviderNotReached,
    TransientModelError,
)
from agentrail.models import PROVIDERS, Chunk, Json
from tests.adapters.models import gemini_events as gemini
from tests.adapters.models.histories import asked, user
from tests.adapters.models.server import Asked, Play, Server, Stall, refusing, serving, steps, streaming
from tests.kit import freeze_object

NOTHING: Final[dict[str, str]] = {}
"""An environment without any variable."""

MODEL = "vertex:gemini-3-flash-preview"


def unheard(_: Chunk) -> None:
    """Nobody listens."""


class Tokens:
    """Answers of a token server: each token has a number."""

    def __init__(self, seconds: int = 3600) -> None:
        self.seconds = seconds
        self.count = 0

    def __call__(self, _: Asked) -> Play:
        self.count += 1
        token = {"access_token": f"ya29.secret-{self.count:08}", "expires_in": self.seconds, "token_type": "Bearer"}
        return refusing(200, json.dumps(token).encode())


def service_account(folder: Path, token_uri: str, project: str = "lamps-1") -> Path:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    about = {"type": "service_account", "project_id": project, "private_key_id": "k1", "private_key": pem}
    about |= {"client_email": "lamp@lamps-1.iam.gserviceaccount.com", "client_id": "1", "token_uri": token_uri}
    path = folder / "account.json"
    path.write_text(json.dumps(about))
    return path


ENDPOINT = "google.oauth2.credentials._GOOGLE_OAUTH2_TOKEN_ENDPOINT"
"""google-auth's constant with the address that renews the tokens of users; their files cannot name another."""


def user_account(folder: Path) -> Path:
    about = {"type": "authorized_user", "client_id": "c", "client_secret": "cs-0123456789abcdef"}
    about |= {"refresh_token": "rt-0123456789abcdef", "quota_project_id": "payer-1"}
    path = folder / "user.json"
    path.write_text(json.dumps(about))
    return path


@asynccontextmanager
async def client() -> AsyncIterator[RemoteModel]:
    http = Http()
    try:
        yield RemoteModel(MODEL, PROVIDERS["vertex"], http, NOTHING.get, Accounts())
    finally:
        await http.close()


async def ask(model: RemoteModel, **options: Json) -> None:
    await model.stream(asked(user("hello"), model=MODEL).but(options=freeze_object(options)), unheard)


def sent(server: Server) -> list[str | None]:
    return [request.headers.get("authorization") for request in server.asked]


@pytest.fixture
def set_env(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_APPLICATION_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.long
async def test_a_service_account_is_asked_once_for_many_sessions_and_regions_and_nothing_of_it_is_logged(
    tmp_path: Path, set_env: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = Tokens()
    async with serving(tokens) as token_server, serving(streaming(gemini.saying("well"))) as server:
        set_env.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service_account(tmp_path, f"{token_server.url}/token")))
        set_env.setenv("GOOGLE_VERTEX_BASE_URL", server.url)
        async with client() as model, trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(partial(ask, model, region=("europe-west4", "global")[number % 2]))
    assert tokens.count == 1
    assert sent(server) == ["Bearer ya29.secret-00000001"] * 20
    regions = Counter(request.target.partition("/locations/")[2].partition("/")[0] for request in server.asked)
    assert regions == {"europe-west4": 10, "global": 10}
    assert "/projects/lamps-1/locations/" in server.asked[0].target
    logged = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert "ya29.secret" not in logged
    assert "PRIVATE KEY" not in logged
    assert "assertion=ey" not in logged


@pytest.mark.long
async def test_a_user_s_account_names_who_pays_and_is_renewed_before_its_end(
    tmp_path: Path, set_env: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = Tokens(seconds=60)  # google-auth renews in the last minutes
    async with serving(tokens) as token_server, serving(streaming(gemini.saying("well"))) as server:
        set_env.setattr(ENDPOINT, f"{token_server.url}/token")
        set_env.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(user_account(tmp_path)))
        set_env.setenv("GOOGLE_VERTEX_BASE_URL", server.url)
        async with client() as model:
            await ask(model, project="lamps-1")
            await ask(model, project="lamps-1")
    assert sent(server) == ["Bearer ya29.secret-00000001", "Bearer ya29.secret-00000002"]
    assert [request.headers["x-goog-user-project"] for request in server.asked] == ["payer-1"] * 2
    logged = "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)
    assert not [secret for secret in ("ya29.secret", "rt-0123456789", "cs-0123456789") if secret in logged]


@pytest.mark.long
async def test_a_user_of_gcloud_works_on_the_project_of_its_configuration(
    tmp_path: Path, set_env: pytest.MonkeyPatch
) -> None:
    user_account(tmp_path).rename(tmp_path / "application_default_credentials.json")
    (tmp_path / "configurations").mkdir()
    (tmp_path / "configurations" / "config_default").write_text("[core]\nproject = lamps-1\n")
    set_env.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    set_env.setenv("PATH", str(tmp_path))  # without the program
    async with serving(Tokens()) as token_server, serving(streaming(gemini.saying("well"))) as server:
        set_env.setattr(ENDPOINT, f"{token_server.url}/token")
        set_env.setenv("GOOGLE_VERTEX_BASE_URL", server.url)
        async with client() as model:
            await ask(model)
    assert "/projects/lamps-1/locations/" in server.asked[0].target


@pytest.mark.long
async def test_a_refused_token_is_fetched_once_more_and_then_it_is_an_error(
    tmp_path: Path, set_env: pytest.MonkeyPatch
) -> None:
    tokens = Tokens()

    def no(request: Asked) -> Play:
        error = {"status": "UNAUTHENTICATED", "message": request.headers["authorization"]}
        return refusing(401, json.dumps({"error": error}).encode())

    async with serving(tokens) as token_server, serving(no, streaming(gemini.saying("well"))) as server:
        set_env.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service_account(tmp_path, f"{token_server.url}/token")))
        set_env.setenv("GOOGLE_VERTEX_BASE_URL", server.url)
        async with client() as model:
            await ask(model)
        assert sent(server) == ["Bearer ya29.secret-00000001", "Bearer ya29.secret-00000002"]
        async with serving(no) as other, client() as model:
            set_env.setenv("GOOGLE_VERTEX_BASE_URL", other.url)
            with pytest.raises(KeyRefused) as caught:
                await ask(model)
            assert len(other.asked) == 2
        assert "ya29.secret" not in str(caught.value)


@pytest.mark.long
async def test_a_token_server_that_never_answers_holds_nobody_else_up(
    tmp_path: Path, set_env: pytest.MonkeyPatch
) -> None:
    async with serving(steps(Stall())) as token_server:
        set_env.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service_account(tmp_path, f"{token_server.url}/token")))
        async with client() as model:
            with trio.move_on_after(0.3) as scope:
                await ask(model)
            assert scope.cancelled_caught
            with pytest.raises(ProviderNotReached, match=r"no credentials of the cloud came for 0\.3 seconds"):
                await ask(model, first_byte_timeout=0.3)
            assert len(token_server.asked) == 1  # one thread alone


@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "wanted"), [(400, CredentialsMissing), (503, ProviderNotReached)], ids=["for good", "for now"]
)
async def test_a_token_server_that_refuses(
    status: int, wanted: type[ModelError], tmp_path: Path, set_env: pytest.MonkeyPatch
) -> None:
    body = json.dumps({"error": "invalid_grant" if status == 400 else "internal_failure"}).encode()
    set_env.setattr("google.auth._exponential_backoff.time.sleep", lambda _: None)
    async with serving(refusing(status, body)) as token_server:
        set_env.setattr(ENDPOINT, f"{token_server.url}/token")
        set_env.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(user_account(tmp_path)))
        async with client() as model:
            with pytest.raises(wanted) as caught:
                await ask(model, project="lamps-1")
    assert "0123456789abcdef" not in str(caught.value)


@pytest.mark.long
async def test_a_program_that_takes_too_long_may_be_asked_again(tmp_path: Path, set_env: pytest.MonkeyPatch) -> None:
    about = {
        "type": "external_account",
        "audience": "//iam.googleapis.com/pool",
        "token_url": "https://sts.googleapis.com",
    }
    source = {"executable": {"command": "sh -c 'sleep 20' secret-0123456789", "timeout_millis": 10}}
    path = tmp_path / "program.json"
    path.write_text(json.dumps({**about, "subject_token_type": "jwt", "credential_source": source}))
    set_env.setattr("google.auth.pluggable.EXECUTABLE_TIMEOUT_MILLIS_LOWER_BOUND", 1)
    set_env.setenv("GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES", "1")
    set_env.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    async with client() as model:
        with pytest.raises(ProviderNotReached, match="TimeoutExpired") as caught:
            await ask(model, project="lamps-1")
    assert "secret" not in f"{caught.value} {caught.value.__cause__}"


@pytest.mark.parametrize(
    ("value", "wanted"), [("", KeyMissing), (None, KeyMissing), ("a\r\nx: y", ModelError), (" ya29.token ", None)]
)
async def test_a_function_for_the_token(value: str | None, wanted: type[Exception] | None) -> None:
    async with serving(streaming(gemini.saying("well"))) as server:
        http = Http()
        model = RemoteModel(MODEL, PROVIDERS["vertex"], http, lambda _: value, Accounts())
        options: dict[str, Json] = {"token": Secret("T"), "project": "lamps-1", "base_url": server.url}
        if wanted is None:
            await ask(model, **options)
            assert sent(server) == ["Bearer ya29.token"]
        else:
            with pytest.raises(wanted):
                await ask(model, **options)
        await http.close()


@pytest.mark.long
async def test_a_function_for_the_token_that_blocks_is_given_up() -> None:
    gate = threading.Event()
    model = RemoteModel(MODEL, PROVIDERS["vertex"], Http(), lambda _: "x" if gate.wait(20) else "", Accounts())
    with pytest.raises(NoFirstByte, match=r"looked up for 0\.2 seconds"):
        await ask(model, token=Secret("T"), project="lamps-1", first_byte_timeout=0.2)
    gate.set()


def raising(_: str) -> str:
    problem = "vault: ya29.0123456789"
    raise RuntimeError(problem)


@pytest.mark.parametrize("option", ["token", "api_key"])
@pytest.mark.parametrize(
    ("look_up", "wanted"),
    [(raising, TransientModelError), ({}.__getitem__, KeyMissing), (lambda _: 7, BadModelOptions)],
    ids=["raises", "has nothing", "odd"],
)
async def test_a_function_for_secrets_that_fails_is_an_error_of_the_model(
    option: str, look_up: Callable[[str], str | None], wanted: type[ModelError]
) -> None:
    model = RemoteModel("azure:m", PROVIDERS["azure"], Http(), look_up, Accounts())
    with pytest.raises(wanted) as caught:
        await ask(model, base_url="http://127.0.0.1:9", **{option: Secret("T")})
    assert "ya29" not in f"{caught.value} {caught.value.__cause__}"
