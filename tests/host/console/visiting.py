"""The console in Debian's chromium, with a host of scenes: what the tests of the rooms share."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

import httpx
import pytest
from attrs import frozen

from tests.host.browser.browsing import CHROMIUM, FLAGS, SECONDS, Wire, host_process

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

SCENES: Final = Path(__file__).with_name("scenes.py")

needs_browser: Final = pytest.mark.skipif(
    not CHROMIUM.exists() or find_spec("playwright") is None,
    reason="NOT PROVED: the console is not tried in a browser: run `make browser-tools` first",
)
"""Skips a test where there is no browser."""

CANARY: Final = "window.owned === undefined"
"""What holds while no text has become a script."""


WORDS: Final = """its => {
  const said = (it) => {
    if (it.nodeType === Node.TEXT_NODE) return it.data
    const parts = it.localName === 'details' && !it.open ? it.querySelectorAll(':scope > summary') : it.childNodes
    const text = [...parts].map(said).join('')
    return getComputedStyle(it).display === 'inline' ? text : ` ${text} `
  }
  return its.map(it => said(it).replace(/\\s+/g, ' ').trim())
}"""
"""What elements say, blank by blank as inner text has it, whether they are in sight or not."""


@frozen
class Visitor:
    """A browser, a host with the console, and the wire between them."""

    browser: Browser
    wire: Wire
    token: str
    calls: httpx.Client
    """Calls the host beside the wire."""

    @property
    def url(self) -> str:
        return self.wire.address

    @staticmethod
    def calls_to(address: str, key: str) -> httpx.Client:
        """Return a client of the host at *address*."""
        headers = {"authorization": f"Bearer {key}"}
        return httpx.Client(base_url=address, headers=headers, timeout=60, trust_env=False)

    @contextmanager
    def page(self, path: str = "/", *, width: int = 1200, height: int = 900, dark: bool = False) -> Generator[Page]:
        """Open the console at an address behind its `#`, as somebody who has the token.

        Whatever the page throws, logs as an error or is refused by its policy fails the test.
        """
        wrong: list[str] = []
        scheme: Literal["dark", "light"] = "dark" if dark else "light"
        with self.browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce"
        ) as context:
            key = f"sessionStorage.setItem('agentrail.key', {self.token!r})"
            context.add_init_script(f"if (origin === {self.url!r}) {key}")
            context.add_init_script(
                "addEventListener('securitypolicyviolation', e => console.error('refused: ' + e.violatedDirective))"
            )
            context.on("weberror", lambda event: wrong.append(str(event.error)))
            context.on("console", lambda event: wrong.append(event.text) if event.type == "error" else None)
            page = context.new_page()
            page.set_default_timeout(SECONDS * 1000)
            page.goto(f"{self.url}/#{path}")
            page.wait_for_selector("[data-state=open]", state="attached")
            yield page
            assert page.evaluate(CANARY), "a text has become a script"
            wrong = [text for text in wrong if "net::ERR" not in text and "WebSocket connection" not in text]
            assert wrong == [], wrong

    def open(self, session: str, *prompts: str) -> None:
        """Open a session and prompt it; each prompt waits for the end of the turn before it, if that comes."""
        self.post("/v1/sessions", {"session": session})
        for prompt in prompts:
            self.post(f"/v1/sessions/{session}/prompt", {"message": prompt})

    def post(self, path: str, body: object) -> object:
        answer = self.calls.post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None

    def rest(self, session: str) -> int:
        """Wait until no turn of a session is open and no prompt is queued; return the number of its last record."""

        def is_at_rest() -> bool:
            status = self.calls.get(f"/v1/sessions/{session}").json()["status"]
            return not status["turn_open"] and not status["queued"]

        wait_for(is_at_rest)
        head: int = self.calls.get(f"/v1/sessions/{session}/records").json()["head"]
        return head

    def held(self, session: str) -> str:
        """Wait until something of a session waits for a person; return the id of its approval or question."""
        held: list[str] = []

        def is_held() -> bool:
            status = self.calls.get(f"/v1/sessions/{session}").json()["status"]
            held.extend(item["id"] for item in status["held"])
            return held != []

        wait_for(is_held)
        return held[0]

    def end(self, *sessions: str) -> None:
        """Stop sessions, so that they are in no later test."""
        for session in sessions:
            self.post(f"/v1/sessions/{session}/stop", {})


@contextmanager
def visiting(folder: Path, program: str = str(SCENES), *options: str) -> Generator[Visitor]:
    """Start a host of scenes and a browser, and yield them."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it need not be installed

    with host_process(program, folder, *options) as (port, token):
        wire = Wire(int(port))
        with Visitor.calls_to(wire.beside, token) as calls, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            yield Visitor(browser, wire, token, calls)
            browser.close()
        wire.close()


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until *condition* holds at the host; fail if it does not within the time of a step."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def until(page: Page, condition: Callable[[], bool]) -> None:
    """Wait until *condition* holds; fail if it does not within the time of a step."""
    for _ in range(SECONDS * 20):
        if condition():
            return
        page.wait_for_timeout(50)
    assert condition(), page.inner_text("main")


def words(event: Locator) -> list[str]:
    """Return what elements say, without what is folded.

    A browser has no inner text for items that are out of sight: they have `content-visibility: auto`.
    """
    return cast("list[str]", event.evaluate_all(WORDS))


def items(page: Page) -> list[str]:
    """Return what the items of the conversation say, without their times."""
    return words(page.locator(".session-items > .conversation > .item > :nth-child(2)"))
