"""The credentials of the machine's own service account, from a metadata server of ours; google-auth itself asks it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import trio
from attrs import define, field

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.models.clouds.accounts import Accounts
from agentrail.adapters.models.http import Http
from agentrail.adapters.models.remote_model import RemoteModel
from agentrail.errors import CredentialsMissing, ModelError, ProviderNotReached, TurnAborted
from agentrail.journals import MemoryJournal
from agentrail.models import PROVIDERS, Json
from tests.adapters.models import gemini_events as gemini
from tests.adapters.models.histories import asked, user
from tests.adapters.models.server import Asked, Mark, Play, Server, Stall, refusing, serving, streaming
from tests.kit import freeze_object
from tests.patience import PATIENCE

pytestmark = pytest.mark.long

MODEL: Final = "vertex:gemini-3-flash-preview"
NOTHING: Final[dict[str, str]] = {}
"""An environment without any variable."""

TEXT: Final = "application/text"
HOST: Final = "google.auth.compute_engine._metadata._GCE_METADATA_HOST"
"""google-auth's constant with the address, which it reads from `GCE_METADATA_HOST` when it is imported."""


@define
class Metadata:
    """A metadata server. Each token has a number."""

    seconds: object = 3600
    """How long a token holds, as the server says."""
    answers: dict[str, Play] = field(factory=dict[str, Play])
    """What it answers instead, by the end of the path."""
    tokens: int = 0

    def __call__(self, request: Asked) -> Play:
        path = request.target.partition("?")[0]
        assert path == "/" or request.headers["metadata-flavor"] == "Google"
        for end, play in self.answers.items():
            if path.endswith(end):
                return play
        if path.endswith("/project-id"):
            return refusing(200, b"lamps-1", "metadata-flavor: Google", kind=TEXT)
        if path.endswith("/token"):
            self.tokens += 1
            return self.token(f"ya29.secret-{self.tokens:08}")
        about = {"email": "lamp@lamps-1.iam.gserviceaccount.com", "scopes": [], "aliases": ["default"]}
        return refusing(200, json.dumps(about).encode(), "metadata-flavor: Google")

    def token(self, text: object) -> Play:
        token = {"access_token": text, "expires_in": self.seconds, "token_type": "Bearer"}
        return refusing(200, json.dumps(token).encode(), "metadata-flavor: Google")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without files of Google Cloud; google-auth waits for nothing."""
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_APPLICATION_CREDENTIALS", "NO_GCE_CHECK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setattr("google.auth._exponential_backoff.time.sleep", lambda _: None)
    return monkeypatch


@asynccontextmanager
async def on_machine(
    machine: pytest.MonkeyPatch, metadata: Metadata
) -> AsyncIterator[tuple[Server, Server, RemoteModel]]:
    """Serve *metadata* and a model; yield both servers and the model."""
    async with serving(metadata) as server, serving(streaming(gemini.saying("well"))) as vertex:
        at = server.url.removeprefix("http://")
        machine.setenv("GCE_METADATA_HOST", at)
        machine.setattr(HOST, at)
        machine.setenv("GCE_METADATA_IP", at)
        machine.setenv("GOOGLE_VERTEX_BASE_URL", vertex.url)
        http = Http()
        yield server, vertex, RemoteModel(MODEL, PROVIDERS["vertex"], http, NOTHING.get, Accounts())
        await http.close()


async def ask(model: RemoteModel, **options: Json) -> None:
    await model.stream(asked(user("hello"), model=MODEL).but(options=freeze_object(options)), lambda _: None)


def sent(server: Server) -> list[str]:
    return [request.headers["authorization"] for request in server.asked]


async def test_a_token_is_fetched_and_kept_and_the_project_is_the_machine_s(machine: pytest.MonkeyPatch) -> None:
    metadata = Metadata()
    async with on_machine(machine, metadata) as (server, vertex, model):
        for _ in range(3):
            await ask(model)
    assert (metadata.tokens, sent(vertex)) == (1, ["Bearer ya29.secret-00000001"] * 3)
    assert "/projects/lamps-1/locations/global/" in vertex.asked[0].target
    assert len([request for request in server.asked if "/token" in request.target]) == 1


@pytest.mark.parametrize("seconds", [3600, 60])
async def test_a_token_is_renewed_once_for_fifty_who_wait(machine: pytest.MonkeyPatch, seconds: int) -> None:
    metadata = Metadata(60)  # it ends at once, as google-auth counts
    async with on_machine(machine, metadata) as (_, vertex, model):
        await ask(model)
        metadata.seconds = seconds
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(ask, model)
    assert (metadata.tokens, sent(vertex)[1:]) == (2, ["Bearer ya29.secret-00000002"] * 50)


async def test_a_failure_is_that_of_all_who_wait(machine: pytest.MonkeyPatch) -> None:
    failures: list[ModelError] = []

    async def fail() -> None:
        with pytest.raises(CredentialsMissing) as caught:
            await ask(model)
        failures.append(caught.value)

    no_account = refusing(404, b"no service account: secret-0123456789", kind=TEXT)
    async with on_machine(machine, Metadata(answers={"/token": no_account})) as (server, _, model):
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(fail)
        assert len(server.asked) == 4
        assert len({id(failure) for failure in failures}) == 50
        assert "secret-0123456789" not in str(failures[0])
        assert "Status: 404" in str(failures[0])
        await fail()  # whoever comes later asks again
        assert len(server.asked) == 6


async def test_a_server_that_hangs_is_left_with_the_session(machine: pytest.MonkeyPatch) -> None:
    asked_for = trio.Event()
    hanging = Metadata(answers={"/token": Play((Mark(asked_for), Stall()))})
    async with on_machine(machine, hanging), open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=MODEL))
        await session.prompt("hello")
        with trio.fail_after(PATIENCE):
            await asked_for.wait()
            await session.abort()
            await session.stop()


async def test_a_server_that_hangs_is_an_error_in_time(machine: pytest.MonkeyPatch) -> None:
    async with on_machine(machine, Metadata(answers={"/token": Play((Stall(),))})) as (_, __, model):
        for _ in range(2):
            with pytest.raises(ProviderNotReached, match=r"no credentials of the cloud came for 0\.2 seconds"):
                await ask(model, first_byte_timeout=0.2)


LIES: Final = {
    "no token": b"{}",
    "a number": b'{"access_token": 5, "expires_in": 3600}',
    "an empty token": b'{"access_token": "", "expires_in": 3600}',
    "two lines": b'{"access_token": "ya29.secret-0123456789\\r\\nx: y", "expires_in": 3600}',
    "not ASCII": '{"access_token": "ya29.secret-0123456789é", "expires_in": 3600}'.encode(),
    "no time": b'{"access_token": "ya29.secret-0123456789"}',
    "a text as time": b'{"access_token": "ya29.secret-0123456789", "expires_in": "soon"}',
    "no such time": b'{"access_token": "ya29.secret-0123456789", "expires_in": 1e30}',
    "a list": b'["ya29.secret-0123456789"]',
    "nothing": b"null",
    "no JSON": b'ya29.secret-0123456789{"',
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_server_that_lies_is_a_clear_error_without_what_it_said(machine: pytest.MonkeyPatch, lie: str) -> None:
    answer = refusing(200, LIES[lie], "metadata-flavor: Google")
    journal = MemoryJournal()
    async with on_machine(machine, Metadata(answers={"/token": answer})) as (_, vertex, model):
        with pytest.raises((CredentialsMissing, ProviderNotReached), match=r"credential|token") as caught:
            await ask(model)
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.open("s", SessionSpec(model=MODEL, max_retries=0))
            with pytest.raises(TurnAborted):
                await session.ask("hello")
        assert vertex.asked == []
    assert "ya29.secret-0123456789" not in f"{caught.value} {caught.value!r} {caught.value.__cause__}"
    assert "ya29.secret" not in str(await journal.read("s"))


@pytest.mark.parametrize(
    ("path", "answer", "wanted"),
    [
        ("/token", refusing(503, b"later", kind=TEXT), ProviderNotReached),
        ("/token", refusing(403, b"no", kind=TEXT), CredentialsMissing),
        ("/default/", refusing(200, b"[]", "metadata-flavor: Google"), CredentialsMissing),
        ("/default/", refusing(200, b'{"email": 5}', "metadata-flavor: Google"), None),
        ("/project-id", refusing(200, b"<html>evil.example/", kind="text/html"), ModelError),
        ("/project-id", refusing(500, b"no", kind=TEXT), ModelError),
    ],
    ids=["later", "not allowed", "no account", "odd account", "odd project", "no project"],
)
async def test_what_else_a_metadata_server_may_answer(
    machine: pytest.MonkeyPatch, path: str, answer: Play, wanted: type[ModelError] | None
) -> None:
    async with on_machine(machine, Metadata(answers={path: answer})) as (_, vertex, model):
        if wanted is None:
            await ask(model)
        else:
            with pytest.raises(wanted):
                await ask(model)
        assert len(vertex.asked) == (wanted is None)


async def test_another_server_at_that_address_is_no_metadata_server(machine: pytest.MonkeyPatch) -> None:
    async with on_machine(machine, Metadata(answers={"/": refusing(200, b"<html>", kind="text/html")})) as (
        _,
        v,
        model,
    ):
        with pytest.raises(CredentialsMissing, match=r"[^.]; sign in by `gcloud auth application-default login"):
            await ask(model)
        assert v.asked == []
