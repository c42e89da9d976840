"""Figures of a host with few sessions: of many, those that cost nothing are not shown."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.host.console.visiting import needs_browser, until, visiting, words

pytestmark = [needs_browser, pytest.mark.long]


def test_figures_have_titles_and_no_zeros_that_nobody_has_measured(tmp_path: Path) -> None:
    with visiting(tmp_path) as visitor:
        for session, prompt in (("titled", "paid"), ("untold", "hello")):
            visitor.open(session, prompt)
            visitor.rest(session)
        visitor.post("/v1/sessions/titled/label", {"title": "The rent"})
        with visitor.page("/figures?per=session") as page:
            titled, untold = (page.locator("tr", has_text=f"you.{session}") for session in ("titled", "untold"))
            until(page, lambda: words(titled.locator("a")) == ["The rent"])
            # turns, not answered, responses, tokens read and written, cached, cost
            assert words(titled.locator("td.amount")) == ["1", "0", "1", "1,000", "10", "0 %", "$0.25"]
            assert words(untold.locator("td.amount")) == ["1", "0", "unknown", "unknown", "unknown", "–", "no price"]
            together = page.locator("tfoot td.amount")
            assert words(together)[:2] == ["2", "0"]


WRITTEN: Final = """() => {
  window.written = []
  const { fillText } = CanvasRenderingContext2D.prototype
  CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    if (this.canvas.closest('[aria-label^=Turns]')) window.written.push(text)
    fillText.call(this, text, ...place)
  }
}"""
"""Notes what is written beside the plot of the turns from now on."""


def test_what_is_counted_has_whole_numbers_beside_its_plot(tmp_path: Path) -> None:
    with visiting(tmp_path) as visitor:
        visitor.open("counted", "hello")
        visitor.rest("counted")
        with visitor.page("/figures") as page:
            page.wait_for_selector("[aria-label^=Turns] canvas")
            page.evaluate(WRITTEN)
            page.click("text='6 h'")
            until(page, lambda: "1" in page.evaluate("window.written"))
            assert page.evaluate("window.written.filter(it => it.includes('.'))") == []
