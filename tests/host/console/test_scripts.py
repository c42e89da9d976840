"""Texts of other scripts: what is written from right to left, and letters of the font that only some languages need."""

from __future__ import annotations

from typing import Final

import pytest

from tests.host.console.visiting import Visitor, needs_browser, until

pytestmark = [needs_browser, pytest.mark.long]

HEBREW: Final = "חשבוניות של נובמבר, כל הספקים והסניפים בצפון ובדרום " * 3

BEGINNING_IS_SEEN: Final = """its => its.map(it => {
  const text = document.createTreeWalker(it, NodeFilter.SHOW_TEXT).nextNode()
  const range = document.createRange()
  range.setStart(text, 0)
  range.setEnd(text, 1)
  const [letter, box] = [range.getBoundingClientRect(), (it.closest('td, h1, .to') ?? it).getBoundingClientRect()]
  return letter.left >= box.left - 1 && letter.right <= box.right + 1
})"""
"""Whether the first letter of each text is where it can be seen, and not the one that is cut off."""

DIRECTION: Final = "it => getComputedStyle(it).direction"


def test_of_a_right_to_left_title_the_end_is_cut_and_not_the_beginning(visitor: Visitor) -> None:
    visitor.post("/v1/sessions", {"session": "hebrew", "title": HEBREW})
    visitor.post("/v1/sessions/hebrew/prompt", {"message": "pay"})
    visitor.held("hebrew")
    for width in (1200, 360):
        with visitor.page("/s/hebrew", width=width) as page:
            seen = {"/s/hebrew": "h1 bdi", "/now": "[role=gridcell] bdi", "/inbox": ".held-session bdi"}
            for path, texts in seen.items():
                page.goto(f"{visitor.url}/#{path}")
                until(page, lambda texts=texts: HEBREW[:8] in page.inner_text(texts))  # type: ignore[misc]
                title = page.locator(texts, has_text=HEBREW[:8])
                assert all(title.evaluate_all(BEGINNING_IS_SEEN)), (width, path)
            if width == 1200:
                assert all(page.locator(".recent bdi").evaluate_all(BEGINNING_IS_SEEN))
    visitor.end("hebrew")


def test_what_people_write_stands_as_their_script_does(visitor: Visitor) -> None:
    visitor.post("/v1/sessions", {"session": "arabic", "title": "\u202eneddih"})
    visitor.post("/v1/sessions/arabic/prompt", {"message": "مرحبا (hello)"})
    with visitor.page("/s/arabic") as page:
        page.wait_for_selector(".answer")
        assert page.eval_on_selector(".asked-words pre", DIRECTION) == "rtl"
        page.fill("#say", "شكرا")
        assert page.eval_on_selector("#say", DIRECTION) == "rtl"
        assert page.title().startswith("\u2068neddih\u2069 · "), "nothing turns what stands after it"
        page.goto(f"{visitor.url}/#/now")
        page.fill("role=searchbox", "مرحبا")
        assert page.eval_on_selector("[type=search]", DIRECTION) == "rtl"
    visitor.end("arabic")


def test_letters_that_few_need_are_loaded_where_they_are_shown(visitor: Visitor) -> None:
    visitor.post("/v1/sessions", {"session": "plain", "title": "Façade, naïve, 12 €"})
    fonts: list[str] = []
    with visitor.page() as page:
        page.on("request", lambda request: fonts.append(request.url) if request.url.endswith(".woff2") else None)
        page.reload()
        page.wait_for_selector("[role=gridcell] >> text=Façade")
        page.evaluate("document.fonts.ready.then(() => true)")
        assert len(fonts) == 1
        visitor.post("/v1/sessions", {"session": "polish", "title": "Zażółć gęślą jaźń, příliš žluťoučký, İğneli"})
        page.wait_for_selector("[role=gridcell] >> text=Zażółć")
        page.evaluate("document.fonts.ready.then(() => true)")
        until(page, lambda: len(fonts) == 2)
        loaded = "[...document.fonts].map(font => font.status)"
        until(page, lambda: page.evaluate(loaded) == ["loaded", "loaded"])
    visitor.end("plain", "polish")
