"""Which of several hosts runs a session, and which of them does not answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import trio

from agentrail.journals import Claim, Lease, PostgresJournal
from agentrail.ports.journal import slot_claim
from agentrail.runtime.shared.clock import Clock
from tests.adapters.journals.postgres.conftest import server, url
from tests.adapters.journals.postgres.server import needs_postgres
from tests.free_port import free_port
from tests.host.console.test_now import row
from tests.host.console.visiting import needs_browser, until, visiting

pytestmark = [needs_browser, needs_postgres, pytest.mark.long]

__all__ = ["server", "url"]

SEVERAL = Path(__file__).with_name("several_scenes.py")
GONE = "http://127.0.0.1:1"


async def claim_slot(url: str) -> Claim:
    """Let a host that nobody reaches look after a slot."""
    journal = PostgresJournal(url)
    try:
        return await journal.claim(slot_claim(0), GONE, Lease(Clock().now_ms(), 60_000))
    finally:
        await journal.close()


async def release(url: str, claim: Claim) -> None:
    journal = PostgresJournal(url)
    await journal.release([claim])
    await journal.close()


@pytest.mark.campaign
def test_each_session_has_its_host_and_one_that_is_silent_is_named(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = trio.run(claim_slot, url)
    port = str(free_port())
    address = f"http://127.0.0.1:{port}"
    monkeypatch.setenv("JOURNAL", url)
    monkeypatch.setenv("ADDRESS", address)
    with visiting(tmp_path, f"{SEVERAL}:host", "--port", port) as visitor, visitor.page("/now") as page:
        visitor.open("placed", "hello")
        until(page, lambda: address in row(page, "placed"))
        until(page, lambda: page.locator("[role=columnheader]").nth(-2).inner_text() == "Host")
        page.locator("[role=row][data-id]", has_text="you.placed").hover()
        page.click("role=button[name='More about you.placed']")
        page.wait_for_selector(f".menu >> text=, at {address}")
        page.keyboard.press("Escape")
        silent = f"[role=alert]:has-text('{GONE} does not answer')"
        page.wait_for_selector(silent)
        with ThreadPoolExecutor() as beside:  # the browser's driver has an event loop in this thread
            beside.submit(trio.run, release, url, claim).result()
        page.wait_for_selector(silent, state="detached")
        visitor.end("placed")
