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
        with visitor.page("/figures?per=session&what=input") as page:
            titled, untold = (page.locator("tr", has_text=f"you.{session}") for session in ("titled", "untold"))
            until(page, lambda: words(titled.locator("a")) == ["The rent"])
            assert words(titled.locator("td.amount")) == ["1,000"]
            for what in ("input", "output", "cost", "responses"):
                page.select_option("main select >> nth=0", what)
                until(page, lambda what=what: f"what={what}" in page.url)  # type: ignore[misc] # mypy infers no default
                until(page, lambda: words(untold.locator("td.amount")) == ["unknown"])
            page.select_option("main select >> nth=0", "turns")
            until(page, lambda: words(untold.locator("td.amount")) == ["1"])
