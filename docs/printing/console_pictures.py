"""The pictures of the console: each room, with a story that scripted models play, in a browser.

`python -m docs.printing.console_pictures` writes them into `docs/pictures/console`. They show times and ids, so they
are made anew only when a room has changed.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import httpx
import trio

from docs.printing.console_experiments import write_experiments
from docs.printing.small_png import small_png
from tests.host.browser.browsing import CHROMIUM, FLAGS, SECONDS, host_process

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from playwright.sync_api import Browser

FOLDER: Final = Path(__file__).parents[1] / "pictures" / "console"
STORY: Final = Path(__file__).with_name("console_story.py")

MOST_BYTES: Final = 60_000
"""The most bytes of a picture."""

WIDTH: Final = 1000
HEIGHT: Final = 640
"""Of the page, in pixels."""

PAUSE: Final = 0.1
"""Seconds between two looks at a session."""

SETTLED_MS: Final = 1_200
"""After so long a room has all that it asks for."""


HANDBOOK: Final[Mapping[str, str]] = {
    "payments.md": (
        "# Payments\n\n## Who decides\n\nA payment of more than 1,000 EUR needs the approval of a second person.\n\n"
        "## When\n\nInvoices are paid two days before they are due. A discount for early payment is taken.\n"
    ),
    "suppliers/nordwind.md": "# Nordwind GmbH\n\nPayment is due within 14 days; 2 % discount within 7 days.\n",
    "travel.md": "# Travel\n\nTrains are second class. A payment in cash needs a receipt.\n",
}
"""What the agent may look up."""


class Story:
    """What is told to the agent, and what a person decides."""

    def __init__(self, calls: httpx.Client) -> None:
        self._calls = calls

    def play(self) -> Mapping[str, str]:
        """Play it to where a second payment waits; return the address of each room, by the name of its picture."""
        for session, prompts in (
            ("november", ["Good morning", "Which invoices are open?", "Pay 2026-118"]),
            ("october", ["Good morning", "Which invoices are open?", "Thank you"]),
            ("petty-cash", ["Good morning"]),
        ):
            self._post("/v1/sessions", {"session": session})
            for prompt in prompts:
                self._post(f"/v1/sessions/{session}/prompt", {"message": prompt})
                self._rest(session)
        paid = self._held()
        self._post("/v1/sessions/november/approve", {"approval": paid})
        self._rest("november")
        self._post("/v1/sessions/october/prompt", {"message": "Pay 2026-118"})
        self._rest("october")
        self._held()
        for name, text in HANDBOOK.items():
            path = f"/v1/knowledge/handbook/documents/{name}"
            self._calls.put(path, content=text.encode()).raise_for_status()
        return {
            "now": "/now",
            "inbox": "/inbox",
            "conversation": "/s/you.november",
            "timeline": f"/s/you.november/record/{self._record_of_approval()}",
            "why": f"/s/you.november/why/{self._call()}",
            "seen": "/s/you.november/seen/4",
            "evaluations": "/evaluations/Prompt%20v14%2C%20shorter",
            "knowledge": "/knowledge/handbook?query=who+approves+a+payment",
            "figures": "/figures?per=session&what=cost&span=15+min",
        }

    def _post(self, path: str, body: object) -> None:
        self._calls.post(path, json=body).raise_for_status()

    def _rest(self, session: str) -> None:
        """Wait until a session has nothing to do but to wait for a person."""
        while True:
            time.sleep(PAUSE)
            status = self._calls.get(f"/v1/sessions/{session}").json()["status"]
            if status["phase"] == "idle" or status["held"]:
                return

    def _held(self) -> str:
        """Return the id of the approval that waits."""
        while not (items := self._calls.get("/v1/approvals").json()["items"]):
            time.sleep(PAUSE)
        return str(items[0]["id"])

    def _record_of_approval(self) -> int:
        records = self._calls.get("/v1/sessions/november/records").json()["records"]
        return next(int(record["number"]) for record in records if record["input"]["kind"] == "ApproveSent")

    def _call(self) -> str:
        """Return the id of the call that paid."""
        messages = self._calls.get("/v1/sessions/november/messages").json()["items"]
        return next(str(message["call_id"]) for message in messages if message.get("name") == "pay")


def host_with_experiments(place: Path) -> AbstractContextManager[tuple[str, str]]:
    """Serve the story in *place*, with the results of experiments."""
    results = place / "results"
    results.mkdir()
    trio.run(write_experiments, results)
    return host_process(STORY, place, "--evals", str(results))


def make(folder: Path) -> None:
    """Write the pictures into *folder*; raise if one is too large."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it need not be installed

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, host_with_experiments(Path(place)) as (port, token):
        url, headers = f"http://127.0.0.1:{port}", {"authorization": f"Bearer {token}"}
        with httpx.Client(base_url=url, headers=headers, timeout=SECONDS, trust_env=False) as calls:
            rooms = Story(calls).play()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            for name, at in rooms.items():
                _picture(browser, f"{url}/#{at}", token, folder / f"{name}.png")
            browser.close()


def _picture(browser: Browser, url: str, token: str, file: Path) -> None:
    with browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light") as context:
        context.add_init_script(f"sessionStorage.setItem('agentrail.key', {token!r})")
        page = context.new_page()
        page.goto(url)
        page.wait_for_selector("h1")
        page.wait_for_timeout(SETTLED_MS)
        content = small_png(page.screenshot())
    if len(content) > MOST_BYTES:
        problem = f"{file.name} has {len(content)} bytes, and may have {MOST_BYTES}: make the page smaller"
        raise ValueError(problem)
    file.write_bytes(content)


if __name__ == "__main__":
    make(FOLDER)
