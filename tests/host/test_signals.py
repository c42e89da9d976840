"""A host that is told to end: a real process, real signals, turns under way."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any, Final

import httpx
import pytest
import trio
from attrs import frozen

from agentrail.app.process import GAVE_UP
from tests.host.commanded import SERVE, Served, commanded
from tests.host.hosted import frames
from tests.patience import PATIENCE

pytestmark = pytest.mark.long

APP: Final = '''
from pathlib import Path

import trio

from agentrail import SessionSpec, tool
from agentrail.journals import SqliteJournal
from agentrail.host.host_server import Host
from agentrail.host.plugins.host_plugin import HostPlugin
from agentrail.host.profiles import Profile
from agentrail.testing import ScriptedModel, call, say
from agentrail.api.limits import HostLimits


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


def answer(request):
    return say("done" if len(request.messages) > 1 else "", calls=[] if len(request.messages) > 1 else [call("wait")])


def spec(_):
    return SessionSpec(model=ScriptedModel([answer, answer]), tools=[wait])


host = Host(
    [Profile("waits", spec)],
    [Ends("first", 1), Notes("last", 0)],
    limits=HostLimits(drain_seconds=DRAIN),
    journal=JOURNAL,
)
'''


@frozen
class Serving:
    """A process that serves, and a client of it."""

    served: Served
    client: httpx.AsyncClient

    @property
    def process(self) -> trio.Process:
        return self.served.process

    def notes(self) -> list[str]:
        path = self.served.folder / "notes"
        return path.read_text().splitlines() if path.exists() else []

    async def noted(self, text: str, times: int = 1) -> None:
        with trio.fail_after(30):
            while self.notes().count(text) < times:  # noqa: ASYNC110 - the other process writes it
                await trio.sleep(0.02)

    async def refuses(self) -> None:
        """Wait until the host says that it is not ready."""
        while (response := await self.client.get("/readyz")).status_code == 200:
            pass
        checks = {check["name"]: check["ok"] for check in response.json()["checks"]}
        assert checks == {
            "journal": True,
            "disk": True,
            "loop": True,
            "plugins": True,
            "profiles": True,
            "accepting": False,
        }


@asynccontextmanager
async def serving(folder: Path, drain: float, journal: str = "None") -> AsyncGenerator[Serving, None]:
    app = APP.replace("DRAIN", str(drain)).replace("JOURNAL", journal)
    (folder / "app.py").write_text(app, encoding="utf-8")
    with trio.fail_after(90):
        async with commanded([*SERVE, "app.py", "--port", "0"], folder) as process:
            headers = {"authorization": f"Bearer {process.token}"}
            async with httpx.AsyncClient(base_url=process.url, headers=headers, timeout=60, trust_env=False) as client:
                yield Serving(process, client)


async def test_a_host_that_is_told_to_end_finishes_its_turns(tmp_path: Path) -> None:
    answers: list[Any] = []
    async with serving(tmp_path, 60) as process, trio.open_nursery() as nursery:

        async def chat() -> None:
            answers.append((await process.client.post("/v1/chat", json={"message": "go", "session": "chat"})).json())

        async def stream() -> None:
            async with process.client.stream("GET", "/v1/sessions/prompt/events") as response:
                answers.append(response.status_code)
                async for _ in response.aiter_raw():
                    heard.set()
            over.set()

        heard, over = trio.Event(), trio.Event()
        refusal = await process.client.post("/v1/sessions", json={"session": "prompt"})
        assert refusal.status_code == 201
        assert (await process.client.post("/v1/sessions/prompt/prompt", json={"message": "go"})).status_code == 202
        nursery.start_soon(chat)
        nursery.start_soon(stream)
        await process.noted("waits", 2)
        await heard.wait()
        process.process.send_signal(signal.SIGTERM)
        await process.refuses()
        assert (process.process.returncode, over.is_set()) == (None, False)
        (tmp_path / "go").touch()
        await over.wait()
        assert await process.process.wait() == 0
    assert answers[0] == 200
    assert (answers[1]["text"], answers[1]["stop_reason"]) == ("done", "end")
    notes = process.notes()
    assert (notes[:2], notes[-2:]) == (["first starts", "last starts"], ["last stops", "first stops"])
    assert sorted(notes[2:-2]) == sorted(
        ["you.prompt started", "waits", "waits", "you.prompt persisted", "you.chat persisted", "you.chat finished"]
    )


async def test_a_turn_that_does_not_end_in_time_is_parked(tmp_path: Path) -> None:
    async with serving(tmp_path, 0.3) as process:
        body = {"message": "go", "session": "trip"}
        answers: list[httpx.Response] = []
        async with trio.open_nursery() as nursery:

            async def chat() -> None:
                answers.append(await process.client.post("/v1/chat", json=body))

            nursery.start_soon(chat)
            await process.noted("waits")
            process.process.send_signal(signal.SIGTERM)
        assert await process.process.wait() == 0
    assert [answer.status_code for answer in answers] == [503]
    assert process.notes() == ["first starts", "last starts", "waits", "you.trip refused", "last stops", "first stops"]


KEPT: Final = "SqliteJournal('kept.db')"


async def test_with_a_journal_a_call_ends_and_the_turn_goes_on_in_the_next_process(tmp_path: Path) -> None:
    answers: list[httpx.Response] = []
    key = {"idempotency-key": "one"}
    body = {"message": "go", "session": "chat"}
    async with serving(tmp_path, 60, KEPT) as process, trio.open_nursery() as nursery:

        async def chat() -> None:
            answers.append(await process.client.post("/v1/chat", json=body, headers=key))

        async def stream() -> None:
            body = {"message": "go", "session": "stream"}
            async with process.client.stream("POST", "/v1/stream", json=body) as response:
                streamed.append((await response.aread()).decode())

        streamed: list[str] = []
        nursery.start_soon(chat)
        nursery.start_soon(stream)
        await process.noted("waits", 2)
        process.process.send_signal(signal.SIGTERM)
        await process.refuses()
        refused = await process.client.post("/v1/sessions/chat/prompt", json={"message": "and now?"})
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["type"] == "urn:agentrail:problem:host-closing"
        assert (process.process.returncode, answers) == (None, [])
        (tmp_path / "go").touch()
        assert await process.process.wait() == 0
    assert [(answer.status_code, answer.headers["retry-after"]) for answer in answers] == [(503, "1")]
    last = frames(streamed[0])[-1]
    assert (last["event"], json.loads(last["data"])["status"]) == ("problem", 503)
    assert process.notes()[-2:] == ["last stops", "first stops"]
    (tmp_path / "notes").unlink()
    async with serving(tmp_path, 60, KEPT) as process:
        answer = await process.client.post("/v1/chat", json=body, headers=key)
        assert (answer.status_code, answer.json()["text"]) == (200, "done")
        await process.noted("you.stream persisted")
        text = (await process.client.get("/v1/sessions/stream/messages")).text
        assert (text.count('"went"'), text.count('"done"')) == (1, 1)
    assert "waits" not in process.notes()


async def test_a_call_that_does_not_end_in_time_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path, 0.3, KEPT) as process:
        await process.client.post("/v1/sessions", json={"session": "trip"})
        await process.client.post("/v1/sessions/trip/prompt", json={"message": "go"})
        await process.noted("waits")
        process.process.send_signal(signal.SIGTERM)
        assert await process.process.wait() == 0
    text = r"session h\.\S+\.trip is parked while its call (\S+) of `wait` runs, which cannot be repeated"
    assert re.search(text, process.served.log) is not None, process.served.log


async def test_a_host_that_timeout_tells_to_end_finishes_its_turns(tmp_path: Path) -> None:
    """The program `timeout` sends its signal to the process, and then to the group of the process."""
    async with serving(tmp_path, 60) as process:
        await process.client.post("/v1/sessions", json={"session": "trip"})
        await process.client.post("/v1/sessions/trip/prompt", json={"message": "go"})
        await process.noted("waits")
        process.process.send_signal(signal.SIGTERM)
        process.process.send_signal(signal.SIGTERM)
        await process.refuses()
        (tmp_path / "go").touch()
        assert await process.process.wait() == 0
    assert "you.trip persisted" in process.notes()
    assert "Traceback" not in process.served.log


def test_a_host_that_is_told_to_end_while_it_starts_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n", encoding="utf-8")
    with Popen([*SERVE, "app.py"], cwd=tmp_path, stdout=PIPE, stderr=PIPE) as process:  # noqa: S603 - our own program
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=PATIENCE) == (b"", b"")
    assert process.returncode == -signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_host_that_is_told_twice_ends_at_once(number: signal.Signals, tmp_path: Path) -> None:
    async with serving(tmp_path, 60) as process:
        await process.client.post("/v1/sessions", json={"session": "trip"})
        await process.client.post("/v1/sessions/trip/prompt", json={"message": "go"})
        await process.noted("waits")
        process.process.send_signal(number)
        await process.refuses()
        while process.process.returncode is None:  # one that comes at once is the same signal
            process.process.send_signal(number)
            await trio.sleep(0.02)
        assert process.process.returncode == GAVE_UP
    assert process.notes() == ["first starts", "last starts", "you.trip started", "waits"]
