"""The room What if: sessions and a candidate are chosen, and where they part is told with both reasons."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.host.console.test_looks import AXE, RUN, WIDE
from tests.host.console.visiting import Visitor, needs_browser, until, visiting

pytestmark = [
    needs_browser,
    pytest.mark.skipif(not AXE.exists(), reason="NOT PROVED: axe is not installed: run `make console-tools` first"),
    pytest.mark.long,
]

MARKED = "<img src=x onerror=alert(1)>\u202e"


@pytest.fixture(scope="module")
def clerk(tmp_path_factory: pytest.TempPathFactory) -> Generator[Visitor]:
    """A host of an agent that writes files, with a candidate."""
    folder = tmp_path_factory.mktemp("what-if")
    with visiting(folder, str(Path(__file__).with_name("file_scenes.py"))) as opened:
        for session, *messages in (("open", "a.txt x"), ("secret", "a.txt x", "secret.txt x", "secret.txt y")):
            for message in messages:
                opened.post("/v1/chat", {"session": session, "message": message})
        opened.post("/v1/sessions/secret/label", {"title": MARKED})
        opened.post("/v1/chat", {"session": "redacted", "message": "secret.txt x"})
        opened.calls.delete("/v1/sessions/redacted", params={"redact": "true"}).raise_for_status()
        yield opened


def test_where_sessions_part_is_told_with_both_reasons_and_leads_to_the_record(clerk: Visitor) -> None:
    with clerk.page("/what-if") as page:
        attempt = page.locator("role=button[name=/^Try it/]")
        page.click("role=button[name='All']")
        assert attempt.is_disabled(), "nothing is to be tried"
        page.click("text=The plugins that each session had")
        page.click("role=menuitemradio[name='strict']")
        attempt.click()
        page.wait_for_selector("text=1 of 2 would have gone otherwise")
        page.wait_for_selector(".card header >> text=1 ruling differs")
        page.check("text=Go on behind the first difference")
        attempt.click()
        parting = page.locator(".card", has_text="2 rulings differ")
        assert "Then" in parting.inner_text()
        assert "secret.txt is closed" in parting.inner_text()
        assert parting.locator("text=a guess").count() == 1, "the first difference alone is exact"
        page.wait_for_selector(".card header >> text=as it was")
        page.wait_for_selector(".card:has-text('is redacted') header >> text=not compared to its end")
        assert "candidate=strict" in page.url
        parting.locator("a", has_text="record").first.click()
        page.wait_for_url("**/#/s/you.secret/record/*")
        page.click("nav >> text=Why")
        page.click(".story a >> text=What if")
        page.wait_for_url("**/#/what-if?session=*secret")
        until(page, lambda: page.locator("input:checked").count() == 1)


def test_what_cannot_be_tried_is_told(clerk: Visitor) -> None:
    with clerk.page("/what-if?session=you.open") as page:
        page.fill("textarea", '{"Nobody": {"most": 1}}')
        page.click("role=button[name=/^Try it/]")
        page.wait_for_selector("main .notes >> text=it has no plugin `Nobody`")
        page.fill("textarea", "{")
        page.click("role=button[name=/^Try it/]")
        page.wait_for_selector("main .is-bad.what-if-words >> text=options")
        page.wait_for_selector("text=None was compared")


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1600, False)])
def test_it_is_for_everybody(clerk: Visitor, width: int, *, dark: bool) -> None:
    with clerk.page("/what-if?candidate=strict", width=width, dark=dark) as page:
        page.click("role=button[name='All']")
        page.click("role=button[name=/^Try it/]")
        page.wait_for_selector(".card >> text=as it was")
        page.evaluate(AXE.read_text("utf-8"))
        assert page.evaluate(RUN) == []
        assert page.evaluate(WIDE) == []
        assert page.locator("main :is(img, script, iframe)").count() == 0
