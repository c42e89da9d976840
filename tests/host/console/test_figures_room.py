"""Figures of a host with few sessions: of many, those that cost nothing are not shown."""

from __future__ import annotations

from pathlib import Path

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
