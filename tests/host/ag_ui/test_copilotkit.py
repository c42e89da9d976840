"""The example with CopilotKit, under uvicorn and in Debian's chromium: it talks, and asks about a call."""

from __future__ import annotations

import socket
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest
import trio

from tests.docs.sources import ROOT
from tests.host.asgi.processes import process
from tests.host.browser.browsing import CHROMIUM, FLAGS, SECONDS

pytestmark = pytest.mark.long

EXAMPLE: Final = ROOT / "docs" / "examples" / "copilotkit"
PAGE: Final = ROOT / "build" / "copilotkit" / "page" / "page.js"


def talk(url: str) -> str:
    """Talk on the page at *url*, approve a call, and return what the page shows then."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it need not be installed

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.goto(url)
        for words in ("hello", "pay eve"):
            page.fill("textarea", words)
            page.press("textarea", "Enter")
            page.wait_for_function("document.body.innerText.includes('You said: hello')")
        page.click("text=Approve")
        page.wait_for_function("document.body.innerText.includes('It is paid eve.')")
        text = page.inner_text("body")
        browser.close()
    return text


@pytest.mark.skipif(
    not CHROMIUM.exists() or not PAGE.exists() or find_spec("playwright") is None,
    reason="CopilotKit is not tested: run `make browser-tools` and `make copilotkit` first",
)
async def test_copilotkit_talks_and_asks(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        async with process("uvicorn", tmp_path, bound, "service:app", PYTHONPATH=str(EXAMPLE)):
            text = await trio.to_thread.run_sync(talk, f"http://127.0.0.1:{bound.getsockname()[1]}")
    assert text.count("You said: hello") == 1
    assert text.count("It is paid eve.") == 1
