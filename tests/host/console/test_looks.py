"""Every room is for everybody: axe finds nothing, from 320 px to 1,600 px, light and dark, at 200 % zoom."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from agentrail.host.operations.host_calls import STATIC
from tests.host.console.visiting import Visitor, needs_browser, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

AXE: Final = STATIC.parent / "web" / "node_modules" / "axe-core" / "axe.min.js"

pytestmark = [
    needs_browser,
    pytest.mark.skipif(not AXE.exists(), reason="NOT PROVED: axe is not installed: run `make console-tools` first"),
    pytest.mark.long,
]

RUN: Final = """async () => {
  const rules = { 'target-size': { enabled: true } }
  const { violations } = await axe.run(document, { resultTypes: ['violations'], rules })
  return violations.map(found => [found.id, found.nodes.map(node => node.html + ' ' + node.failureSummary)])
}"""

WIDE: Final = """() => [...document.querySelectorAll('body *')].filter(
  it => it.getBoundingClientRect().right > innerWidth + 1
    && !it.closest('.list, .table, .choice, .tabs, .cut, pre, .skip, [hidden]')
).map(it => it.outerHTML.slice(0, 100))"""

SMALL: Final = """() => {
  const isSmall = it => it.checkVisibility() && it.getBoundingClientRect().height < 40
    && !it.closest('.item-at, .only-read, .skip')
  const controls = 'button:not(.link), .button, summary:not(.rule > *), .tabs a, .rooms a, .field'
  return [...document.querySelectorAll(controls)].filter(isSmall).map(it => it.outerHTML.slice(0, 100))
}"""
"""Controls that are lower than a finger wants; times and what stands beside a prompt are text."""

PHONE: Final = 320

EVERY_LOOK: Final = [(PHONE, False), (PHONE, True), (1600, False), (1600, True)]
"""Widths, and whether it is dark."""

ROOMS: Final = {
    "now": ("/now", "[role=gridcell] >> text=you.calm"),
    "inbox": ("/inbox", "role=button[name='Approve']"),
    "question": ("/inbox/you.asking", "text=Which colour?"),
    "conversation": ("/s/calm", "text=Heading"),
    "held": ("/s/paying", "[data-state=held]"),
    "timeline": ("/s/calm/record/2", "rect.span"),
    "beside": ("/s/calm/record/2?with=you.paying", ".beside [role=row][data-id]"),
    "why": ("/s/calm/why/1", ".story-steps li"),
    "seen": ("/s/calm/seen/2", "main td"),
    "figures": ("/figures?per=session", ".plot canvas"),
    "nobody": ("/s/nobody", "main [role=alert]"),
}

LOOKS: Final = [
    pytest.param(*look, room, marks=() if look == EVERY_LOOK[1 + number % 2] else pytest.mark.campaign)
    for number, room in enumerate(ROOMS)
    for look in EVERY_LOOK
]
"""Each room in every look; in CI each room has one, narrow and dark by turns with wide and light."""


@pytest.fixture(scope="module", autouse=True)
def _sessions(visitor: Visitor) -> Generator[None]:
    visitor.open("paying", "pay")
    visitor.open("asking", "ask options")
    visitor.open("calm", "todo", "markdown", "draw", "delegate hello", "break")
    visitor.rest("calm")
    for session in ("paying", "asking"):
        visitor.held(session)
    yield
    visitor.end("paying", "asking", "calm")


@pytest.mark.parametrize(("width", "dark", "room"), LOOKS)
def test_a_room_is_for_everybody(visitor: Visitor, room: str, width: int, *, dark: bool) -> None:
    path, heading = ROOMS[room]
    if room == "question":
        held = visitor.calls.get("/v1/approvals").json()["items"]
        path = f"{path}/{next(item['id'] for item in held if item['kind'] == 'question')}"
    with visitor.page(path, width=width, dark=dark) as page:
        page.wait_for_selector(heading)
        for summary in page.locator("main summary").all():
            summary.click()
        page.evaluate(AXE.read_text("utf-8"))
        violations = page.evaluate(RUN)
        assert violations == [], json.dumps(violations, indent=1)
        until(page, lambda: page.evaluate(WIDE) == [])
        assert width > PHONE or page.evaluate(SMALL) == []
        assert page.evaluate("document.getAnimations().length") == 0


@pytest.mark.parametrize("width", [360, 1600])
def test_what_opens_above_the_page_is_for_everybody(visitor: Visitor, width: int) -> None:
    """Menus, dialogs and what a held card asks for, each opened and left with the keyboard."""
    with visitor.page("/inbox", width=width, dark=width == 360) as page:
        page.evaluate(AXE.read_text("utf-8"))
        page.focus("role=button[name='Settings']")
        page.keyboard.press("ArrowDown")
        page.wait_for_selector("role=menu")
        assert page.evaluate(RUN) == []
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.innerText.trim()") != ""
        page.keyboard.press("Escape")
        page.wait_for_selector("role=menu", state="hidden")
        assert page.evaluate("document.activeElement.ariaLabel") == "Settings"
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("?")
        page.wait_for_selector("dialog >> text=Approve, when the whole call is in sight")
        assert page.evaluate(RUN) == []
        page.keyboard.press("Escape")
        for mode in ("Edit", "Reject…", "Always…"):
            page.click(f"role=button[name='{mode}']")
            assert page.evaluate(RUN) == [], mode
            page.keyboard.press("Escape")
            page.wait_for_selector("role=button[name='Approve']")


COVERED: Final = """() => {
  const it = document.activeElement
  if (it === document.body || it.closest('.rail') || it.role === 'grid') return ''
  const { left, top, bottom } = it.getBoundingClientRect()
  const isSeen = [top + 2, bottom - 2].some(y => {
    const hit = document.elementFromPoint(Math.max(0, left) + 4, y)
    return hit && (it.contains(hit) || hit.contains(it))
  })
  return isSeen ? '' : it.outerHTML.slice(0, 100)
}"""
"""The element with the focus, if it is out of sight, or something that sticks covers it.

Behind the last one Tab reaches the page itself, which is wherever it was scrolled to.
"""


@pytest.mark.parametrize("room", ["conversation", "held", "timeline"])
def test_what_sticks_covers_nothing_that_has_the_focus(visitor: Visitor, room: str) -> None:
    path, heading = ROOMS[room]
    with visitor.page(path, width=320, height=600) as page:
        page.wait_for_selector(heading)
        if room == "conversation":
            page.fill("#say", "A line.\n" * 20)
            page.evaluate("document.activeElement.blur()")
        for key, times in (("Tab", 40), ("Shift+Tab", 30)):
            for _ in range(times):
                page.keyboard.press(key)
                until(page, lambda: page.evaluate(COVERED) == "")


def choose_colours(page: Page, name: str) -> None:
    page.click("role=button[name='Settings']")
    page.click(f"role=menuitemradio[name='{name}']")


@pytest.mark.campaign
def test_the_colours_are_chosen_and_kept(visitor: Visitor) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with visitor.page("/now") as page:
        light = page.evaluate(ground)
        choose_colours(page, "Dark")
        until(page, lambda: page.evaluate(ground) != light)
        dark = page.evaluate(ground)
        page.reload()
        page.wait_for_selector("h1")
        assert page.evaluate(ground) == dark
    with visitor.page("/now", dark=True) as page:
        assert page.evaluate(ground) == dark
        choose_colours(page, "Light")
        until(page, lambda: page.evaluate(ground) == light)


@pytest.mark.campaign
def test_at_twice_the_size_all_is_there(visitor: Visitor) -> None:
    for path, heading in ROOMS.values():
        with visitor.page(path if path != "/inbox/you.asking" else "/inbox", width=1280, height=900) as page:
            page.wait_for_selector(heading if path != "/inbox/you.asking" else "role=button[name='Approve']")
            page.evaluate("document.documentElement.style.fontSize = '200%'")
            until(page, lambda: page.evaluate(WIDE) == [])


def test_the_key_is_asked_for_and_a_wrong_one_is_told(visitor: Visitor) -> None:
    with visitor.browser.new_context() as context:
        page = context.new_page()
        page.goto(visitor.url)
        page.wait_for_selector("#key")
        page.evaluate(AXE.read_text("utf-8"))
        assert page.evaluate(RUN) == []
        page.fill("#key", "wrong")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=The host does not take this key")
        page.fill("#key", visitor.token)
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:text-is('Now')")
        assert visitor.token not in page.url
        assert page.evaluate("Object.keys(localStorage)") == []
        assert context.cookies() == []
        page.click("role=button[name='Settings']")
        page.click("role=menuitem[name='Sign out']")
        page.wait_for_selector("#key")
        assert page.evaluate("sessionStorage.length") == 0
        page.goto(f"{visitor.url}/#token={visitor.token}")
        page.wait_for_selector("h1:text-is('Now')")
        assert visitor.token not in page.url


def test_axe_is_of_the_version_that_the_lock_names() -> None:
    lock = json.loads((AXE.parents[2] / "package-lock.json").read_text("utf-8"))
    installed = json.loads(Path(AXE.with_name("package.json")).read_text("utf-8"))
    assert installed["version"] == lock["packages"]["node_modules/axe-core"]["version"]
