"""A service on FastAPI and uvicorn, as the guide has it: it streams, ends at SIGTERM, and survives a kill."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.docs.pages import programs_of
from tests.docs.sources import ROOT
from tests.patience import PATIENCE

LINES: Final = 25
"""The most lines that a service may take: so many were agreed."""


def service() -> str:
    """Return the service of the guide."""
    (program,) = (each for each in programs_of(ROOT / "docs" / "guide" / "asyncio.md") if "FastAPI" in each.text)
    return program.parts[0][0].text


@contextmanager
def serving(folder: Path, port: int) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """Run the service in a process of its own; yield it when it answers."""
    command = [sys.executable, "-m", "uvicorn", "service:app", "--port", str(port), "--timeout-graceful-shutdown", "1"]
    with (
        subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process,  # noqa: S603
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as client,
    ):
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if "Uvicorn running" in line:
                    break
            yield process, client
        finally:
            process.kill()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def read(lines: Iterator[str], last: str) -> tuple[list[str], str]:
    """Read server-sent events up to one called *last*; return their texts, and the id of the last one."""
    texts: list[str] = []
    event = ident = ""
    for line in lines:
        field, _, value = line.partition(": ")
        match field:
            case "event":
                event = value
            case "id":
                ident = value
            case "data":
                texts.append(json.loads(value))
            case "" if event == last:
                return texts, ident
            case _:
                pass
    raise AssertionError(texts)


@pytest.mark.long
def test_the_service_of_the_guide_streams_survives_a_kill_and_ends_at_sigterm(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(service(), "utf-8")
    port = free_port()
    with serving(tmp_path, port) as (process, client):
        assert client.post("/chats/a", params={"text": "hi"}).json() == "p1"
        with client.stream("GET", "/chats/a/events") as response:
            texts, last = read(response.iter_lines(), "AgentEnd")
        assert len(texts) > 5
        assert client.post("/chats/a", params={"text": "and now"}).status_code == 200
        process.kill()
        process.wait(PATIENCE)
    with serving(tmp_path, port) as (process, client):
        with client.stream("GET", "/chats/a/events", headers={"Last-Event-ID": last}) as response:
            texts, ident = read(response.iter_lines(), "AgentEnd")
            assert tuple(map(int, ident.split("."))) > tuple(map(int, last.split(".")))
        with client.stream("GET", "/chats/a/events", headers={"Last-Event-ID": ident}):
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) in (0, -signal.SIGTERM)


def test_the_service_is_short_and_has_no_word_of_threads() -> None:
    lines = [line for line in service().splitlines() if line.strip()]
    assert len(lines) <= LINES
    assert re.search("thread|trio", service(), re.IGNORECASE) is None
