"""The key of the page: whose it is, and what an address with another one, or with none that can be read, does."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.host.console.test_looks import AXE, RUN
from tests.host.console.visiting import Visitor, needs_browser, visiting
from tests.host.hosted import KEYS, LINES

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    needs_browser,
    pytest.mark.skipif(not AXE.exists(), reason="NOT PROVED: axe is not installed: run `make console-tools` first"),
    pytest.mark.long,
]


@pytest.fixture(scope="module")
def guests(tmp_path_factory: pytest.TempPathFactory) -> Generator[Visitor]:
    """A host at which each user has a key, those of `tests.host.hosted`."""
    folder = tmp_path_factory.mktemp("guests")
    keys = folder / "keys.txt"
    keys.touch(0o600)
    keys.write_text(LINES, encoding="utf-8")
    with visiting(folder, str(Path(__file__).with_name("guest_scenes.py"))) as opened:
        yield opened


def stored_key(page: Page) -> str:
    return str(page.evaluate("sessionStorage.getItem('agentrail.key')"))


@pytest.mark.campaign
def test_the_page_says_whose_its_key_is(guests: Visitor) -> None:
    with guests.browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{guests.url}/#token={KEYS['ann']}")
        page.wait_for_selector("header >> text=ann of acme")
        assert stored_key(page) == KEYS["ann"]


@pytest.mark.parametrize("is_new", [False, True], ids=["given to the open page", "loaded"])
def test_a_link_does_not_take_the_place_of_a_key_that_is_there(guests: Visitor, is_new: bool) -> None:
    with guests.browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{guests.url}/#token={KEYS['bob']}")
        page.wait_for_selector("header >> text=bob of acme")
        for decision, user, owner in (("Stay as you are", "bob", "bob of acme"), ("Use the key", "eve", "ann of evil")):
            if is_new:
                page.goto("about:blank")
            page.goto(f"{guests.url}/#token={KEYS['eve']}")
            page.wait_for_selector("h1:text-is('Another key')")
            assert stored_key(page) == KEYS["bob"]
            assert KEYS["eve"] not in page.url
            page.wait_for_selector("dd >> text=bob of acme")
            page.wait_for_selector("dd >> text=ann of evil")
            page.evaluate(AXE.read_text("utf-8"))
            assert page.evaluate(RUN) == []
            if decision.startswith("Stay"):
                page.keyboard.press("Enter")  # it is chosen already
            else:
                page.click(f"text={decision}")
            page.wait_for_selector(f"header >> text={owner}")
            assert stored_key(page) == KEYS[user]
        page.goto(f"{guests.url}/#token={KEYS['eve']}")  # its own one again
        page.wait_for_selector("h1:text-is('Now')")


@pytest.mark.parametrize("token", ["%", "%E0%A4%A", "abc%zz", ""])
def test_a_key_in_the_address_that_cannot_be_read_is_told(guests: Visitor, token: str) -> None:
    wrong: list[str] = []
    with guests.browser.new_context() as context:
        context.on("weberror", lambda event: wrong.append(str(event.error)))
        page = context.new_page()
        page.goto(f"{guests.url}/#token={token}")
        page.wait_for_selector("[role=alert] >> text=has a key that cannot be read")
        assert "token" not in page.url
        page.fill("#key", KEYS["ann"])
        page.keyboard.press("Enter")
        page.wait_for_selector("header >> text=ann of acme")
        page.goto(f"{guests.url}/#token={token}")
        page.wait_for_selector("[role=alert] >> text=has a key that cannot be read")
        page.click("text=Stay as you are")
        page.wait_for_selector("h1:text-is('Now')")
        assert stored_key(page) == KEYS["ann"]
    assert wrong == []
