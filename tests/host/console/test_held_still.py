"""A card that waits for a person stays where it is while a sub-agent, a tool and other people write beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.host.console.test_looks import COVERED
from tests.host.console.visiting import Visitor, needs_browser, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [needs_browser, pytest.mark.long]

WATCH: Final = """() => {
  const card = document.querySelector('.held')
  window.tops = []
  const look = () => {
    const painted = new IntersectionObserver(([{ boundingClientRect }]) => {
      painted.disconnect()
      if (card.isConnected) window.tops.push(boundingClientRect.top)
      requestAnimationFrame(look)
    })
    painted.observe(card)
  }
  look()
}"""
"""Notes where the card is in each frame that is painted, from now on."""

WATCH_FOCUS: Final = f"""() => {{
  window.covered = []
  const look = () => {{
    window.covered.push(({COVERED})())
    requestAnimationFrame(look)
  }}
  look()
}}"""
"""Notes in each frame whether the element with the focus is covered."""

PIXELS: Final = 0.1
"""Fractions of a pixel that rounding makes."""


def _watch(page: Page) -> None:
    page.wait_for_timeout(400)  # what was opened is open, and may push the card away no more
    page.locator(".held-do").scroll_into_view_if_needed()
    page.evaluate(WATCH)


def _moved(page: Page) -> float:
    """Return by how many pixels the card has moved while what is beside it came to its end."""
    until(page, lambda: page.locator(".call[data-state=done]").count() == 2)
    return float(page.evaluate("Math.max(...window.tops) - Math.min(...window.tops)"))


@pytest.mark.parametrize("width", [1200, 390])
@pytest.mark.parametrize("before", ["", "markdown"], ids=["room to spare", "at the end"])
def test_streams_beside_a_held_call_do_not_move_it(visitor: Visitor, before: str, width: int) -> None:
    session = f"still-{before}-{width}"
    visitor.open(session, *[before] * 4 if before else [])
    with visitor.page(f"/s/{session}", width=width) as page:
        visitor.post(f"/v1/sessions/{session}/prompt", {"message": "beside"})
        page.wait_for_selector(".held")
        page.eval_on_selector(".branch > summary", "it => it.click()")
        _watch(page)
        assert _moved(page) < PIXELS
        assert len(page.evaluate("window.tops")) > 10
    visitor.end(session)


def test_it_goes_along_with_what_a_person_scrolls_and_opens_and_with_nothing_else(visitor: Visitor) -> None:
    visitor.open("scrolled", "markdown", "markdown", "beside")
    with visitor.page("/s/scrolled") as page:
        page.wait_for_selector(".branch")
        page.wait_for_selector(".held")
        page.wait_for_timeout(400)  # what came with it, such as who holds the call, is there
        top = "document.querySelector('.held').getBoundingClientRect().top"
        at_end = page.evaluate(top)
        page.locator(".held").hover()
        page.mouse.wheel(0, -150)
        until(page, lambda: abs(page.evaluate(top) - at_end - 150) < 1)
        page.locator("summary", has_text="transfer").click()
        page.wait_for_selector("pre[aria-label=arguments]")
        until(page, lambda: page.evaluate(top) > at_end + 150 + 40)
        _watch(page)
        assert _moved(page) < PIXELS
    visitor.end("scrolled")


def test_what_has_the_focus_of_the_keyboard_stays_in_sight_while_the_card_is_kept(visitor: Visitor) -> None:
    visitor.open("read", "markdown")
    with visitor.page("/s/read", width=320, height=600) as page:
        visitor.post("/v1/sessions/read/prompt", {"message": "beside"})
        page.wait_for_selector(".held")
        page.eval_on_selector(".branch > summary", "it => it.click()")
        page.focus("#say")
        while "branch" not in str(page.evaluate("document.activeElement.parentElement.className")):
            page.keyboard.press("Shift+Tab")
        page.wait_for_timeout(400)  # what came into sight with the focus is there
        page.evaluate(WATCH_FOCUS)
        until(page, lambda: page.locator(".call[data-state=done]").count() == 2)
        assert len(page.evaluate("window.covered")) > 10
        assert page.evaluate("window.covered.filter(it => it)") == []
    visitor.end("read")
