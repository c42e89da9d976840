"""A connection that is lost, a host that is killed and comes back, many pages at once, and what goes over the wire."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.host.browser.browsing import SECONDS, Wire
from tests.host.console.visiting import SCENES, Visitor, items, needs_browser, until

pytestmark = [needs_browser, pytest.mark.long]

MOST_BYTES: Final = 120_000
PAGES: Final = 20


def test_a_lost_connection_is_told_and_nothing_is_missed_or_doubled(visitor: Visitor) -> None:
    visitor.open("cut", "hello")
    with visitor.page("/s/cut") as page:
        until(page, lambda: len(items(page)) == 3)
        visitor.wire.cut()
        page.wait_for_selector("text=The connection is lost")
        for number in range(5):
            visitor.post("/v1/chat", {"session": "cut", "message": f"unseen {number}"})
        page.fill("#say", "written without a connection")
        page.click("role=button[name='Send']")
        visitor.wire.mend()
        # All at once: the page connects again by itself, and its button may go while it is aimed at.
        page.locator("text=Connect now").evaluate_all("buttons => buttons.forEach(button => button.click())")
        until(page, lambda: items(page)[-1:] == ["The turn is over."] and len(items(page)) == 21)
        assert [item for item in items(page) if item.startswith("you ")] == [
            "you hello",
            *[f"you unseen {number}" for number in range(5)],
            "you written without a connection",
        ]
        page.wait_for_selector("text=The connection is lost", state="detached")
    visitor.end("cut")


def test_a_reload_in_mid_stream_shows_the_same(visitor: Visitor) -> None:
    visitor.open("reloaded", "hello", "wait")
    with visitor.page("/s/reloaded") as page:
        until(page, lambda: items(page)[-1:] == ["one two three"])
        former_items = items(page)
        page.reload()
        until(page, lambda: items(page) == former_items)
    visitor.end("reloaded")


@contextmanager
def kept_host(folder: Path) -> Generator[tuple[subprocess.Popen[bytes], int]]:
    """Serve the scenes with a journal and a file of keys, and yield the process and its port."""
    command = [sys.executable, "-m", "agentrail", "serve", f"{SCENES}:profile", "--port", "0"]
    command += ["--journal", str(folder / "journal.db"), "--keys", str(folder / "keys")]
    with (folder / "log").open("ab") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log) as process:  # noqa: S603 - ours
        assert process.stdout is not None
        match = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline().decode())
        assert match is not None, (folder / "log").read_text()
        try:
            yield process, int(match[1])
        finally:
            process.kill()


def made_key(folder: Path) -> str:
    command = [sys.executable, "-m", "agentrail", "serve", "keys", "make", str(folder / "keys"), "acme", "you"]
    command += ["--scopes", "talk,decide,observe,admin"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]  # noqa: S603 - ours


@pytest.mark.campaign
def test_a_host_that_is_killed_and_comes_back_loses_nothing_of_an_open_page(visitor: Visitor, tmp_path: Path) -> None:
    key = made_key(tmp_path)
    with ExitStack() as stack:
        process, port = stack.enter_context(kept_host(tmp_path))
        wire = Wire(port)
        stack.callback(wire.close)
        calls = stack.enter_context(visitor.calls_to(wire.beside, key))
        second = Visitor(visitor.browser, wire, key, calls)
        second.open("kept", "hello", "pay")
        page = stack.enter_context(second.page("/s/kept"))
        page.wait_for_selector("[data-state=held]")
        former_items = items(page)
        process.send_signal(signal.SIGKILL)
        process.wait(SECONDS)
        page.wait_for_selector("text=The connection is lost")
        assert items(page) == former_items
        _, again = stack.enter_context(kept_host(tmp_path))
        wire.lead_to(again)
        page.wait_for_selector("[data-state=open]", state="attached")
        inbox = stack.enter_context(second.page("/inbox"))
        inbox.click("role=button[name='Approve']")
        until(page, lambda: items(page)[-2:] == ["Done.", "The turn is over."])
        other = stack.enter_context(second.page("/s/kept"))
        until(other, lambda: items(other)[-2:] == ["Done.", "The turn is over."])
        assert items(page) == items(other)


@pytest.mark.campaign
def test_twenty_pages_show_the_same_at_once(visitor: Visitor) -> None:
    visitor.open("many")
    with ExitStack() as stack:
        pages = [stack.enter_context(visitor.page("/s/many")) for _ in range(PAGES)]
        for number in range(5):
            visitor.post("/v1/chat", {"session": "many", "message": f"word {number}"})
        for page in pages:
            until(page, lambda page=page: len(items(page)) == 15)  # type: ignore[misc]
        assert all(items(page) == items(pages[0]) for page in pages)
    visitor.end("many")


def test_the_first_room_is_small_on_the_wire(visitor: Visitor) -> None:
    sizes: dict[str, float] = {}
    with visitor.browser.new_context() as context:
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.loadingFinished", lambda it: sizes.__setitem__(it["requestId"], it["encodedDataLength"]))
        page.goto(f"{visitor.url}/#token={visitor.token}")
        page.wait_for_selector("h1:text-is('Now')")
        page.wait_for_load_state("networkidle")
        first = sum(sizes.values())
        assert 10_000 < first < MOST_BYTES
        page.goto(f"{visitor.url}/#/inbox")
        page.wait_for_selector("h1:text-is('Inbox')")
        page.goto(f"{visitor.url}/#/s/nobody")
        page.wait_for_selector("main [role=alert]")
        assert sum(sizes.values()) < MOST_BYTES
