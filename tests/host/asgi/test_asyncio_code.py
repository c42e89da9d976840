"""Code of an asyncio program in its host: it runs in the loop of the server, marked or not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import httpx
import pytest

from agentrail import Ask, Context, Plugin, ReplacePrompt, SessionSpec, aio
from agentrail.host import Host, Identity, Profile, RequestContext
from agentrail.models import EmitChunk, Json, Message, ModelRequest, Response, Text
from agentrail.plugins import BeforePrompt, CallService
from agentrail.testing import ScriptedModel, call, say
from tests.host.asgi.servers import on_uvicorn
from tests.host.hosted import LIMITS
from tests.patience import PATIENCE

pytestmark = pytest.mark.long

HI = {"message": "hi", "session": "trip"}

SERVER = "server"
"""Name of the thread in which the server has its loop."""


async def where(label: str) -> str:
    """Return *label*, and the name of the thread; fail if no asyncio loop is here."""
    await asyncio.sleep(0)
    return f"{label} in {threading.current_thread().name}"


@aio.tool
async def marked() -> str:
    """Say where it runs."""
    return await where("marked")


async def plain() -> str:
    """Say where it runs."""
    return await where("plain")


async def lookup(payload: Json) -> Json:
    return await where(f"{payload}")


class AsksTheService(Plugin):
    """Asks a service before each prompt."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Ask | ReplacePrompt:
        return Ask(CallService("lookup", "service")) if hook.answer is None else ReplacePrompt(f"{hook.answer}")


class Model:
    """A model on asyncio."""

    name = "own"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        return Response((Text(await where("model")),))


class Users:
    """An authenticator on asyncio."""

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        return Identity("acme", await where("ann"), frozenset({"talk"}))


async def build(_: RequestContext) -> SessionSpec:
    assert await where("profile") == f"profile in {SERVER}"
    model = ScriptedModel([say(calls=[call("marked"), call("plain")]), "finished"])
    return SessionSpec(model=model, tools=[marked, plain], services={"lookup": lookup}, plugins=[AsksTheService()])


async def provide(_: RequestContext, messages: Sequence[Message]) -> str:  # noqa: ARG001 - a provider has both
    return await where("provider")


async def test_code_of_the_program_runs_in_the_loop_of_the_server() -> None:
    checked: list[str] = []

    async def check() -> None:
        checked.append(await where("check"))

    profiles = [
        Profile("desk", build, context_providers=[provide]),
        Profile("other", SessionSpec(model=Model())),
    ]
    app = Host(profiles, authenticator=Users(), checks={"own": check}, limits=LIMITS).asgi()
    async with on_uvicorn(app) as url, httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as client:
        assert (await client.post("/v1/chat", json=HI)).json()["text"] == "finished"
        text = (await client.get("/v1/sessions/trip/messages")).text
        for label in ("marked", "plain", "service"):
            assert f"{label} in {SERVER}" in text
        other = await client.post("/v1/chat", json={**HI, "session": "s", "agent": "other"})
        assert other.json()["text"] == f"model in {SERVER}"
        assert (await client.get("/readyz")).status_code == 200
    assert checked == [f"check in {SERVER}"]
