"""A host that is told to end: a real process, real signals, turns under way."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any, Final

import httpx
import pytest
import trio
from attrs import frozen

from agentrail.app.process import GAVE_UP

APP: Final = '''
from pathlib import Path

import trio

from agentrail import SessionSpec, tool
from agentrail.host.host_server import Host
from agentrail.host.plugins.host_plugin import HostPlugin
from agentrail.host.profiles import Profile
from agentrail.testing import ScriptedModel, call, say
from agentrail.wire.limits import HostLimits


@tool(timeout=600)
async def wait() -> str:
    """Wait for a file."""
    note("waits")
    while not Path("go").exists():
        await trio.sleep(0.02)
    return "went"


def note(text):
    with Path("notes").open("a") as file:
        file.write(f"{text}\\n")


class Notes(HostPlugin):
    def __init__(self, name, priority):
        self.name, self.priority = name, priority

    def start(self, host):
        note(f"{self.name} starts")

    def stop(self):
        note(f"{self.name} stops")


class Ends(Notes):
    def on_turn_persisted(self, context):
        note(f"{context.session_id} persisted")

    def on_request_end(self, context):
        note(f"{context.session_id} {context.outcome}")


def spec(_):
    return SessionSpec(model=ScriptedModel([say(calls=[call("wait")]), "done"]), tools=[wait])


host = Host(
    [Profile("waits", spec)], [Ends("first", 1), Notes("last", 0)], limits=HostLimits(drain_seconds=DRAIN)
)
'''


@frozen
class Serving:
    """A process that serves, and a client of it."""

    process: trio.Process
    client: httpx.AsyncClient
    folder: Path

    def notes(self) -> list[str]:
        path = self.folder / "notes"
        return path.read_text().splitlines() if path.exists() else []

    async def noted(self, text: str, times: int = 1) -> None:
        with trio.fail_after(30):
            while self.notes().count(text) < times:  # noqa: ASYNC110 - the other process writes it
                await trio.sleep(0.02)


@asynccontextmanager
async def serving(folder: Path, drain: float) -> AsyncGenerator[Serving, None]:
    (folder / "app.py").write_text(APP.replace("DRAIN", str(drain)), encoding="utf-8")
    command = [sys.executable, "-m", "agentrail", "serve", "app.py", "--port", "0"]
    with trio.fail_after(90):
        async with trio.open_nursery() as nursery:
            started = partial(trio.run_process, cwd=folder, stdout=PIPE, stderr=DEVNULL, check=False)
            process: trio.Process = await nursery.start(started, command)
            assert process.stdout is not None
            said = b""
            while b"Ctrl-C" not in said:
                piece = await process.stdout.receive_some()
                assert piece, said
                said += piece
            found = re.search(r"at (\S+)/#token=(\S+)", said.decode())
            assert found is not None
            headers = {"authorization": f"Bearer {found[2]}"}
            async with httpx.AsyncClient(base_url=found[1], headers=headers, timeout=60, trust_env=False) as client:
                try:
                    yield Serving(process, client, folder)
                finally:
                    if process.returncode is None:
                        process.kill()


async def test_a_host_that_is_told_to_end_finishes_its_turns(tmp_path: Path) -> None:
    answers: list[Any] = []
    async with serving(tmp_path, 60) as one, trio.open_nursery() as nursery:

        async def chat() -> None:
            answers.append((await one.client.post("/v1/chat", json={"message": "go", "session": "chat"})).json())

        async def stream() -> None:
            async with one.client.stream("GET", "/v1/sessions/prompt/events") as response:
                answers.append(response.status_code)
                async for _ in response.aiter_raw():
                    heard.set()
            over.set()

        heard, over = trio.Event(), trio.Event()
        told = await one.client.post("/v1/sessions", json={"session": "prompt"})
        assert told.status_code == 201
        assert (await one.client.post("/v1/sessions/prompt/prompt", json={"message": "go"})).status_code == 202
        nursery.start_soon(chat)
        nursery.start_soon(stream)
        await one.noted("waits", 2)
        await heard.wait()
        one.process.send_signal(signal.SIGTERM)
        await over.wait()
        with pytest.raises(httpx.TransportError):
            await one.client.get("/healthz")
        assert one.process.returncode is None
        (tmp_path / "go").touch()
        assert await one.process.wait() == 0
    assert answers[0] == 200
    assert (answers[1]["text"], answers[1]["stop_reason"]) == ("done", "end")
    notes = one.notes()
    assert (notes[:2], notes[-2:]) == (["first starts", "last starts"], ["last stops", "first stops"])
    assert sorted(notes[2:-2]) == sorted(
        ["you.prompt started", "waits", "waits", "you.prompt persisted", "you.chat persisted", "you.chat finished"]
    )


async def test_a_turn_that_does_not_end_in_time_is_parked(tmp_path: Path) -> None:
    async with serving(tmp_path, 0.3) as one:
        body = {"message": "go", "session": "trip"}
        async with trio.open_nursery() as nursery:

            async def chat() -> None:
                with pytest.raises(httpx.RemoteProtocolError):
                    await one.client.post("/v1/chat", json=body)

            nursery.start_soon(chat)
            await one.noted("waits")
            one.process.send_signal(signal.SIGTERM)
        assert await one.process.wait() == 0
    assert one.notes() == ["first starts", "last starts", "waits", "you.trip refused", "last stops", "first stops"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_host_that_is_told_twice_ends_at_once(number: signal.Signals, tmp_path: Path) -> None:
    async with serving(tmp_path, 60) as one:
        await one.client.post("/v1/sessions", json={"session": "trip"})
        await one.client.post("/v1/sessions/trip/prompt", json={"message": "go"})
        await one.noted("waits")
        one.process.send_signal(number)
        with suppress(httpx.TransportError):
            while True:  # until it accepts no more
                await one.client.get("/healthz", headers={"connection": "close"})
        one.process.send_signal(number)
        assert await one.process.wait() == GAVE_UP
    assert one.notes() == ["first starts", "last starts", "you.trip started", "waits"]
