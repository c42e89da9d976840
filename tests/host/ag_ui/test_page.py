"""The example of a front end, in Debian's chromium: it talks, approves, stops, and is reloaded in the middle."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.cli.acp.test_foreign_editors import node
from tests.docs.sources import ROOT
from tests.host.browser.browsing import CHROMIUM, FLAGS, SECONDS, Wire, host_process, static_site

if TYPE_CHECKING:
    from playwright.sync_api import Page

MODULES: Final = ROOT / "build" / "ag_ui" / "node_modules"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not CHROMIUM.exists() or not (MODULES / "esbuild").exists() or find_spec("playwright") is None,
        reason="the page is not tested: run `make browser-tools` and `make ag-ui-client` first",
    ),
]

DESK: Final = "from tests.host.ag_ui.desk import build_spec\n\ndesk = build_spec(None)\n"
COUNTED: Final = " ".join(f"n{number}" for number in range(150))


@pytest.fixture(scope="module")
def page_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the page, made as the guide says."""
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(ROOT / "docs" / "examples" / "ag-ui", folder, dirs_exist_ok=True)
    (folder / "node_modules").symlink_to(MODULES)
    bundle = ["page.js", "--bundle", "--format=esm", "--outfile=page.bundle.js"]
    subprocess.run(  # noqa: S603 - a pinned package
        [node(20), "node_modules/esbuild/bin/esbuild", *bundle], cwd=folder, check=True, capture_output=True
    )
    return folder


@pytest.fixture
def opened(page_files: Path, tmp_path: Path) -> Generator[tuple[Page, Wire]]:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it need not be installed

    (tmp_path / "app.py").write_text(DESK, encoding="utf-8")
    with (
        static_site(page_files) as site,
        host_process(tmp_path / "app.py", tmp_path, "--origin", site) as (port, token),
        sync_playwright() as playwright,
    ):
        wire = Wire(int(port))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page()
        page.set_default_timeout(SECONDS * 1000)
        page.goto(f"{site}/#host={wire.address}&token={token}&thread=trip")
        page.wait_for_function("document.getElementById('state').textContent === ''")
        yield page, wire
        browser.close()
        wire.close()


def say(page: Page, text: str) -> None:
    page.fill("#text", text)
    page.click("text=Send")


def wait_for(page: Page, *lines: str) -> None:
    """Wait until no run is under way; then the page shows exactly these lines."""
    page.wait_for_function("document.getElementById('state').textContent === ''")
    page.wait_for_function("text => document.body.textContent.includes(text)", arg=lines[-1])
    assert page.locator("#messages p").all_text_contents() == [*lines]


@pytest.mark.campaign
def test_a_page_talks_and_approves_and_stops(opened: tuple[Page, Wire]) -> None:
    page, _ = opened
    say(page, "add 2 3")
    added = ("add 2 3", "I add.", 'add {"a":2,"b":3}', "5", "It is 5.")
    wait_for(page, *added)
    say(page, "pay eve")
    page.click("text=Approve")
    paid = ("pay eve", "I pay.", 'pay {"to":"eve"}', "paid eve", "It is paid eve.")
    wait_for(page, *added, *paid)
    say(page, "count 5000")
    page.wait_for_function("document.body.textContent.includes('n5 ')")
    page.click("#stop")
    page.wait_for_function("document.getElementById('state').textContent === ''")
    page.reload()
    page.wait_for_function("document.body.textContent.includes('n5 ')")


def test_a_page_that_is_reloaded_and_cut_shows_each_word_once(opened: tuple[Page, Wire]) -> None:
    page, wire = opened
    say(page, "count 150")
    page.wait_for_function("document.body.textContent.includes('n9 ')")
    page.reload()
    page.wait_for_function("document.body.textContent.includes('n30 ')")
    wire.cut()
    wire.is_cut = False
    wait_for(page, "count 150", COUNTED)
