"""Files of an agent: what it wrote is saved, and comes back before a prompt, but not over what a person edited."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.host.console.test_looks import AXE, RUN
from tests.host.console.visiting import Visitor, needs_browser, until, visiting

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    needs_browser,
    pytest.mark.skipif(not AXE.exists(), reason="NOT PROVED: axe is not installed: run `make console-tools` first"),
    pytest.mark.long,
]

MARKED: Final = "<img src=x onerror=alert(1)>.html"


@pytest.fixture(scope="module")
def clerk(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Visitor, Path]]:
    """A host of an agent that writes files, and the folder of the agent."""
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTRAIL_HOME", str(folder / "home"))
        with visiting(folder, str(Path(__file__).with_name("file_scenes.py"))) as opened:
            yield opened, folder / "work"


def _ask(visitor: Visitor, session: str, *messages: str) -> None:
    for message in messages:
        visitor.post("/v1/chat", {"session": session, "message": message})


def _go_back(page: Page, prompt: str) -> None:
    """Open the dialog about a prompt, with the keyboard."""
    page.locator(".item-prompt", has_text=prompt).locator("button").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog >> text=Go back before this prompt")


def test_what_the_agent_wrote_is_listed_and_saved(clerk: tuple[Visitor, Path]) -> None:
    visitor, _ = clerk
    _ask(visitor, "writes", "a.txt first", f"{MARKED.replace(' ', '_')} second")
    with visitor.page("/s/writes") as page:
        page.click(".side summary:text-is('Files')")
        page.wait_for_selector("[aria-label='Files that the agent wrote'] >> text=a.txt")
        with page.expect_download() as download:
            page.click("role=button[name='Save a.txt']")
        assert download.value.suggested_filename == "a.txt"
        assert Path(download.value.path()).read_text() == "first"
        page.wait_for_selector(".told >> text=Saved")
        assert page.locator(".side img").count() == 0
        _ask(visitor, "writes", "c.txt third")
        page.wait_for_selector("[aria-label='Files that the agent wrote'] >> text=c.txt")
        page.set_viewport_size({"width": 1200, "height": 1600})  # a link that is half scrolled away is no small target
        page.evaluate(AXE.read_text("utf-8"))
        assert page.evaluate(RUN) == []
    visitor.end("writes")


def test_files_go_back_but_not_over_what_a_person_edited(clerk: tuple[Visitor, Path]) -> None:
    visitor, work = clerk
    (work / "old.txt").write_text("mine")
    _ask(visitor, "back", "old.txt agent", "new.txt agent", "edited.txt agent")
    (work / "edited.txt").write_text("a person's")
    with visitor.page("/s/back") as page:
        until(page, lambda: page.locator(".item-prompt").count() == 3)
        _go_back(page, "old.txt")
        page.wait_for_selector("section[aria-label='Come back'] >> text=old.txt")
        assert "as it was" in page.inner_text("section[aria-label='Come back']")
        assert "gone, as it was new" in page.inner_text("section[aria-label='Come back']")
        assert "edited.txt" in page.inner_text("section[aria-label^='Stay']")
        page.evaluate(AXE.read_text("utf-8"))
        assert page.evaluate(RUN) == []
        page.click("dialog >> role=button[name='Files']")
        page.wait_for_selector("dialog >> text=The files are back")
        assert (work / "old.txt").read_text() == "mine"
        assert not (work / "new.txt").exists()
        assert (work / "edited.txt").read_text() == "a person's"
        page.keyboard.press("Escape")
        page.wait_for_selector("dialog", state="detached")
    visitor.end("back")


def test_words_and_files_go_back_together(clerk: tuple[Visitor, Path]) -> None:
    visitor, work = clerk
    _ask(visitor, "both", "one.txt 1", "two.txt 2")
    with visitor.page("/s/both") as page:
        until(page, lambda: page.locator(".item-prompt").count() == 2)
        _go_back(page, "two.txt")
        page.wait_for_selector("section[aria-label='Come back'] >> text=two.txt")
        (work / "two.txt").write_text("edited since it was shown")
        page.click("dialog >> role=button[name='Both']")
        page.wait_for_selector("dialog .told.bad")
        assert (work / "two.txt").read_text() == "edited since it was shown"
        assert page.url.endswith("#/s/both")
        (work / "two.txt").write_text("2")
        page.click("dialog >> role=button[name='Both']")
        page.wait_for_url("**/#/s/you.s-*")
        assert not (work / "two.txt").exists()
        assert (work / "one.txt").exists()
    visitor.end("both")
