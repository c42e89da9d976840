"""What an agent, a tool or a user writes stays text: no script runs, nothing is loaded, no link leads to a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.host.console.hostile import MARKED_NAME, TEXTS
from tests.host.console.visiting import Visitor, items, needs_browser, until, words

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [needs_browser, pytest.mark.long]

FORBIDDEN: Final = (
    "script, iframe, object, embed, style, link, meta, base, svg:not(.icon), math, video, audio, "
    "form:not(.say, .filter, .stack), img"
)
"""Elements that no text may become."""

LINKS: Final = """() => [...document.querySelectorAll('main a[href]')].map(link => link.protocol)"""

UNFOLD: Final = """() => {
  for (const summary of document.querySelectorAll('.session-items details:not([open]) > summary')) summary.click()
}"""

MORE: Final = "() => document.querySelector('.session-items > button')?.click()"


def are_all_there(page: Page) -> bool:
    """Ask for what was before, if there is any; return whether the call of each text is there."""
    page.evaluate(MORE)
    return page.locator(".session-items .item-call").count() == len(TEXTS)


def check(page: Page) -> None:
    assert page.locator("main").locator(FORBIDDEN).count() == 0
    assert set(page.evaluate(LINKS)) <= {"http:", "https:", "mailto:"}
    assert page.evaluate("document.title").endswith("agentrail")


def test_two_hundred_texts_of_models_tools_and_users_stay_texts(visitor: Visitor) -> None:
    assert len(TEXTS) >= 200
    visitor.open("hostile")
    for number in range(len(TEXTS)):
        visitor.post("/v1/chat", {"session": "hostile", "message": f"read {number}"})
    drawn_texts: list[str] = []
    with visitor.page("/s/hostile") as page:
        page.on("request", lambda request: drawn_texts.append(request.url))
        until(page, lambda: are_all_there(page))
        page.evaluate(UNFOLD)
        until(page, lambda: page.locator("pre[aria-label=result]").count() == len(TEXTS))
        check(page)
        texts = page.locator("pre[aria-label=result]").all_text_contents()
        assert texts[: len(TEXTS) - 16] == [text.replace("\x01", "U+0001") for text in TEXTS[: len(TEXTS) - 16]]
        assert "U+001B[2J" in texts[-16]
        assert "U+202E" in texts[-13]
    assert [url for url in drawn_texts if not url.startswith(visitor.url)] == []
    visitor.end("hostile")


def test_what_people_write_and_names_of_tools_stay_text(visitor: Visitor) -> None:
    visitor.post("/v1/sessions", {"session": "named", "title": MARKED_NAME})
    for text in (MARKED_NAME, "\u202eneddih", "a\x1b[2Jb", "marked"):
        visitor.post("/v1/chat", {"session": "named", "message": text})
    visitor.post("/v1/sessions/named/label", {"add": [MARKED_NAME]})
    with visitor.page("/s/named") as page:
        page.wait_for_selector(".call >> text=unknown tool")
        until(page, lambda: MARKED_NAME in page.inner_text("h1"))
        assert words(page.locator(".call-name")) == [MARKED_NAME]
        until(page, lambda: MARKED_NAME in page.inner_text(".side"))
        assert any("U+202Eneddih" in item for item in items(page))
        check(page)
        page.goto(f"{visitor.url}/#/now")
        page.wait_for_selector("[role=gridcell] >> text=onerror")
        check(page)
        page.goto(f"{visitor.url}/#/s/{MARKED_NAME}")
        page.wait_for_selector("main [role=alert]")
        check(page)
    visitor.end("named")


@pytest.mark.campaign
def test_the_longest_line_does_not_hold_up_the_page(visitor: Visitor) -> None:
    visitor.open("long", "read 9999")
    with visitor.page("/s/long") as page:
        page.locator("summary", has_text="read_page").click()
        page.wait_for_selector("text=Show more of the result")
        assert len(page.text_content("main") or "") < 20_000
        page.click("text=Show more of the result")
        page.fill("#say", "still here")
        assert len(page.text_content("main") or "") < 100_000
    visitor.end("long")
