"""Servers as processes of their own, which are told to end while a stream is open."""

from __future__ import annotations

import signal
import socket
from pathlib import Path
from typing import Final, cast

import pytest
import trio

from agentrail import Supervisor
from agentrail.host import Serving
from tests.host.asgi.processes import COMMANDS, process
from tests.host.hosted import LINES, Desk, frames, listening

pytestmark = pytest.mark.long

APP: Final = """
import os

from agentrail import SessionSpec
from agentrail.host import ApiKeys, Host, HostLimits, Profile
from agentrail.journals import SqliteJournal
from agentrail.testing import ScriptedModel, stall

script = ["four five six"] if "SECOND" in os.environ else [stall(after=2, text="one two three")]
host = Host(
    [Profile("desk", SessionSpec(model=ScriptedModel(script)))],
    authenticator=ApiKeys("keys.txt"),
    journal=SqliteJournal("desk.db"),
    limits=HostLimits(drain_seconds=0.5),
)
app = host.asgi()
"""


@pytest.mark.parametrize("server", list(COMMANDS))
async def test_a_stream_goes_on_at_the_next_process(server: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    keys = tmp_path / "keys.txt"
    keys.write_text(LINES)
    keys.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        desk = Desk(Serving(url, url, cast("Supervisor", None)), {})
        talk = listening(desk, "POST", "/v1/stream", message="hi")
        async with process(server, tmp_path, bound) as first, talk as listener:
            seen = frames(await listener.until(lambda text: "MessageDelta" in text))
            first.send_signal(signal.SIGTERM)
            with trio.fail_after(60):
                await first.wait()
        last = next(frame["id"] for frame in reversed(seen) if "id" in frame)
        back = listening(desk, "GET", "/v1/sessions/trip/events", since=last)
        async with process(server, tmp_path, bound, SECOND="1"), back as listener:
            text = await listener.until(lambda text: "event: AgentEnd" in text)
    assert "four five six" in text
    assert "event: PromptReceived" not in text


MOUNTED: Final = """
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import Mount


@asynccontextmanager
async def opened(_):
    async with inner:
        yield


inner = app
app = Starlette(routes=[Mount("/agents", inner)], lifespan=opened)
"""


async def test_an_open_stream_of_events_does_not_hold_up_the_server_of_a_mounted_app(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP + MOUNTED)
    keys = tmp_path / "keys.txt"
    keys.write_text(LINES)
    keys.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        desk = Desk(Serving(url, url, cast("Supervisor", None)), {})
        async with process("uvicorn", tmp_path, bound) as first:
            async with listening(desk, "POST", "/agents/v1/stream", message="hi") as talk:
                await talk.until(lambda text: "MessageDelta" in text)
            async with listening(desk, "GET", "/agents/v1/sessions/trip/events") as listener:
                await listener.until(lambda text: ":\n\n" in text)
                first.send_signal(signal.SIGTERM)
                with trio.fail_after(4):  # sooner than the server would cut it
                    await listener.until(lambda _: False)
                assert listener.over
                with trio.fail_after(60):
                    await first.wait()
