"""A browser as tools: `@playwright/mcp` from npm with Debian's chromium, as the guide starts it."""

import shutil
from pathlib import Path
from typing import Final

import pytest

from agentrail.mcp import McpServer
from tests.docs.sources import ROOT
from tests.host.browser.browsing import CHROMIUM, static_site
from tests.mcp.rig import NO_EXTRA, Marked, obedient, until, use
from tests.runtime.world import open_world

pytest.importorskip("mcp", reason=NO_EXTRA)

SERVER: Final = ROOT / "build" / "mcp" / "node_modules" / "@playwright" / "mcp" / "cli.js"

PAGE: Final = """\
<!doctype html><title>Tea</title>
<button onclick="document.querySelector('p').textContent = 'poured'">Pour</button><p>waiting</p>
"""


@pytest.mark.campaign
@pytest.mark.long
@pytest.mark.skipif(
    not SERVER.is_file() or not CHROMIUM.exists(),
    reason="`@playwright/mcp` or chromium is not installed: run `make mcp-servers` and `make browser-tools`",
)
async def test_a_browser_opens_a_page_and_presses_a_button(tmp_path: Path, marked: Marked) -> None:
    node = shutil.which("node")
    assert node is not None
    (tmp_path / "index.html").write_text(PAGE)
    options = ("--headless", "--isolated", "--no-sandbox", "--executable-path", str(CHROMIUM))
    command = [node, str(SERVER), *options, "--output-dir", str(tmp_path / "out")]
    browser = marked.server(command, name="browser")
    assert isinstance(browser, McpServer)
    with static_site(tmp_path) as site:
        async with open_world() as world:
            session = await world.spawn(obedient(), tools=[browser])
            assert "Page URL: " + site in (await use(session, "browser__browser_navigate", url=site)).text
            page = (await use(session, "browser__browser_snapshot")).text
            ref = page.partition('button "Pour" [ref=')[2].partition("]")[0]
            clicked = await use(session, "browser__browser_click", element="Pour", target=ref)
            assert not clicked.is_error, clicked.text
            assert "poured" in (await use(session, "browser__browser_snapshot")).text
    await until(lambda: not marked.alive())
