"""A service on FastAPI and uvicorn, as the guide has it: it streams, ends at SIGTERM, and survives a kill."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.docs.pages import blocks_of, programs_of
from tests.docs.sources import ROOT
from tests.free_port import free_port
from tests.host.browser.browsing import CHROMIUM, FLAGS
from tests.patience import PATIENCE

GUIDE: Final = ROOT / "docs" / "guide" / "asyncio.md"

LINES: Final = 25
"""The most lines that a service may take: so many were agreed."""

DEMO: Final = '"demo"'
SPY: Final = """
const seen = [];
for (const kind of ["MessageStart", "MessageDelta", "ResponseComplete"])
  source.addEventListener(kind, (event) => seen.push(event.lastEventId.split(".").map(Number)));
"""
"""Notes the position of each event."""

COUNTED: Final = " ".join(f"n{number}" for number in range(100))


def service() -> str:
    """Return the service of the guide."""
    (program,) = (candidate for candidate in programs_of(GUIDE) if "FastAPI" in candidate.text)
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


def slow_service() -> str:
    """Return the service of the guide with a model that counts slowly."""
    counts = f'ScriptedModel([say("{COUNTED}", delay=0.02)], repeat_last=True)'
    return f"from agentrail.testing import ScriptedModel, say\n{service().replace(DEMO, counts)}"


def page_of_guide() -> str:
    """Return the script of the page in the guide."""
    (script,) = [block.text for block in blocks_of(GUIDE) if block.language == "js"]
    return script.replace("/chats/a/", "/chats/trip/")


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
            texts, last = read(response.iter_lines(), "ResponseComplete")
        assert len(texts) > 5
        assert client.post("/chats/a", params={"text": "and now"}).status_code == 200
        process.kill()
        process.wait(PATIENCE)
    with serving(tmp_path, port) as (process, client):
        with client.stream("GET", "/chats/a/events", headers={"Last-Event-ID": last}) as response:
            texts, ident = read(response.iter_lines(), "ResponseComplete")
            assert tuple(map(int, ident.split("."))) > tuple(map(int, last.split(".")))
        with client.stream("GET", "/chats/a/events", headers={"Last-Event-ID": ident}):
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) in (0, -signal.SIGTERM)


@pytest.mark.campaign
@pytest.mark.long
@pytest.mark.skipif(
    not CHROMIUM.exists() or find_spec("playwright") is None,
    reason="the event source of a browser is not tested: run `make browser-tools` first",
)
def test_the_page_of_the_guide_shows_each_message_once_although_the_service_is_killed(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it need not be installed

    (tmp_path / "service.py").write_text(slow_service(), "utf-8")
    port = free_port()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        with serving(tmp_path, port) as (process, client):
            page.goto(f"http://127.0.0.1:{port}/nothing")
            page.evaluate("document.body.textContent = ''")
            page.add_script_tag(content=page_of_guide() + SPY)
            client.post("/chats/trip", params={"text": "count"})
            page.wait_for_function("document.body.textContent.includes('n20 ')")
            process.kill()
            process.wait(PATIENCE)
        with serving(tmp_path, port) as (process, client):
            page.wait_for_function(f"document.body.textContent.includes('{COUNTED}')")
            client.post("/chats/trip", params={"text": "again"})
            page.wait_for_function("document.querySelectorAll('p').length === 2 && line === undefined")
            assert page.locator("p").all_text_contents() == [COUNTED, COUNTED]
            seen = [tuple(row) for row in page.evaluate("seen")]
            assert seen == sorted(set(seen))
        browser.close()


def test_the_service_is_short_and_has_no_word_of_threads() -> None:
    lines = [line for line in service().splitlines() if line.strip()]
    assert len(lines) <= LINES
    assert re.search("thread|trio", service(), re.IGNORECASE) is None
