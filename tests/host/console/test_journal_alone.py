"""`agentrail console` in a browser: the sessions of a stored journal, each with its rooms."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from agentrail.journals import SqliteJournal
from tests.cli.test_console_page import HOSTED, fill
from tests.host.browser.browsing import CHROMIUM, FLAGS, SECONDS
from tests.host.console.visiting import needs_browser

pytestmark = [needs_browser, pytest.mark.long]

ROOMS = {
    f"/s/{HOSTED}": "text=Yes.",
    "/s/plain": "text=Hello.",
    "/s/plain/record/2": ".record >> text=idle",
    "/s/plain/why/1": ".story-title >> text=The turn ended",
    "/s/plain/seen": "text=Round 1 of 1",
    "/s/cut/timeline": "[role=row] >> text=said",
}
"""What each address shows."""


@pytest.mark.campaign
def test_a_journal_alone_is_shown_in_each_room(tmp_path: Path) -> None:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it need not be installed

    file = tmp_path / "j.db"
    trio.run(_fill, file)
    command = [sys.executable, "-m", "agentrail", "console", str(file), "--port", "0"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process,  # noqa: S603 - ours
        sync_playwright() as playwright,
    ):
        assert process.stdout is not None
        match = re.search(r"http://\S+", process.stdout.readline())
        assert match is not None
        url = match[0].partition("/#")[0]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            page = browser.new_page()
            page.set_default_timeout(SECONDS * 1000)
            page.goto(match[0])
            page.wait_for_selector(".stored a >> text=plain")
            page.click(f".stored a >> text={HOSTED}")
            page.wait_for_url(f"**/#/s/{HOSTED}")
            for path, heading in ROOMS.items():
                page.goto(f"{url}/#{path}")
                page.wait_for_selector(heading)
                assert [text for text in page.locator("[role=alert]").all_inner_texts() if text] == []
            page.goto(f"{url}/#/s/plain/record/3")
            page.click("text=Fork here")
            page.wait_for_selector(".told.bad >> text=the key has no scope")
        finally:  # else a test that fails waits for the console for ever
            browser.close()
            process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 0


async def _fill(file: Path) -> None:
    journal = SqliteJournal(file)
    await fill(journal)
    await journal.close()
