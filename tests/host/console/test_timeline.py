"""The timeline: every record as a row, the chosen one whole, and what can be done from there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.host.console.hostile import TEXTS
from tests.host.console.visiting import Visitor, needs_browser, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [needs_browser, pytest.mark.long]


def rows(page: Page) -> list[str]:
    """Return the rows of the list that are in the page, as texts, without the one of the titles."""
    return page.locator("[role=row][data-id]").all_inner_texts()


def heading(page: Page) -> str:
    """Return which record is shown whole."""
    return page.locator(".record").get_attribute("aria-label") or ""


@pytest.mark.campaign
def test_each_record_is_a_row_and_the_chosen_one_is_shown_whole(visitor: Visitor) -> None:
    visitor.open("rows", "hello")
    head = visitor.rest("rows")
    with visitor.page("/s/you.rows/timeline") as page:
        until(page, lambda: len(rows(page)) == head)
        until(page, lambda: "you said: hello" in rows(page)[1])
        until(page, lambda: any("The model answered: You said: hello" in row for row in rows(page)))
        assert "PromptSent" not in page.inner_text("main")
        until(page, lambda: heading(page) == f"Record {head}")
        page.locator("[role=row][data-id]").nth(1).click()
        until(page, lambda: heading(page) == "Record 2")
        assert page.url.endswith("#/s/you.rows/record/2")
        page.click(".record summary:has-text('As JSON')")
        page.wait_for_selector(".record >> text=Came in: PromptSent")
        until(page, lambda: '"text": "hello"' in page.locator("pre[aria-label=input]").inner_text())
        assert "hello" in page.locator("pre[aria-label=event] >> nth=0").inner_text()


@pytest.mark.campaign
def test_an_address_leads_to_its_record(visitor: Visitor) -> None:
    visitor.open("address", "hello")
    visitor.rest("address")
    with visitor.page("/s/you.address/record/3") as page:
        until(page, lambda: heading(page) == "Record 3")
        until(page, lambda: page.locator("[aria-selected=true]").get_attribute("data-id") == "3")
        page.reload()
        until(page, lambda: heading(page) == "Record 3")
    for odd in ("999999", "0", "-1", "x", "%3Cb%3E"):
        with visitor.page(f"/s/you.address/record/{odd}") as page:
            until(page, lambda: re.fullmatch(r"Record \d+", heading(page)) is not None)


def test_the_lanes_and_the_keyboard_go_through_the_records(visitor: Visitor) -> None:
    visitor.open("keys", "hello")
    head = visitor.rest("keys")
    with visitor.page("/s/you.keys/timeline") as page:
        lanes = page.get_by_role("group", name="Lanes from")
        lanes.press("Home")
        until(page, lambda: heading(page) == "Record 1")
        lanes.press("ArrowRight")
        until(page, lambda: heading(page) == "Record 2")
        page.locator("[role=grid]").press("End")
        until(page, lambda: heading(page) == f"Record {head}")
        page.locator("[role=grid]").press("ArrowUp")
        until(page, lambda: heading(page) == f"Record {head - 1}")
        page.click("role=button[name='Record after']")
        until(page, lambda: heading(page) == f"Record {head}")
        until(page, lambda: page.locator("role=button[name='Record after']").is_disabled())
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press("k")
        until(page, lambda: heading(page) == f"Record {head - 1}")


def test_new_records_come_by_themselves(visitor: Visitor) -> None:
    visitor.open("grows", "hello")
    head = visitor.rest("grows")
    with visitor.page("/s/you.grows/record/1") as page:
        until(page, lambda: len(rows(page)) == head)
        visitor.post("/v1/sessions/grows/prompt", {"message": "more"})
        until(page, lambda: len(rows(page)) > head)
        assert heading(page) == "Record 1"


def test_the_host_tells_of_new_records_and_is_not_asked_for_them(visitor: Visitor) -> None:
    visitor.open("quiet", "hello")
    head = visitor.rest("quiet")
    with visitor.page("/s/you.quiet/timeline") as page:
        texts: list[str] = []
        page.on("websocket", lambda socket: socket.on("framesent", lambda frame: texts.append(str(frame))))
        page.clock.install()
        page.reload()
        until(page, lambda: len(rows(page)) == head)
        page.wait_for_selector("rect.span")
        page.wait_for_selector(".lanes-part[aria-busy=false]")
        page.wait_for_selector(".record[aria-busy=false]")
        count = len(texts)
        page.clock.fast_forward(600_000)
        page.wait_for_timeout(200)
        assert texts[count:] == []
        visitor.post("/v1/sessions/quiet/prompt", {"message": "more"})
        until(page, lambda: len(rows(page)) > head)
        assert any('"call":"records"' in frame for frame in texts[count:])
    visitor.end("quiet")


def test_a_session_is_forked_at_a_record(visitor: Visitor) -> None:
    visitor.open("origin", "hello", "again")
    visitor.rest("origin")
    with visitor.page("/s/you.origin/record/4") as page:
        page.click("text=Fork here")
        page.wait_for_url("**/#/s/you.s-*")
        fork = page.url.rpartition("/")[2]
    first = visitor.calls.get(f"/v1/sessions/{fork}/records").json()["records"][0]
    assert first["input"]["data"]["at"] == 4
    assert first["input"]["data"]["origin"] == "you.origin"


def test_a_session_that_is_not_there_is_told(visitor: Visitor) -> None:
    with visitor.page("/s/you.nobody/timeline") as page:
        page.wait_for_selector("[role=alert] >> text=there is no such session")


def test_texts_of_others_stay_texts(visitor: Visitor) -> None:
    visitor.open("hostile", *TEXTS[::40])
    head = visitor.rest("hostile")
    with visitor.page("/s/you.hostile/timeline") as page:
        until(page, lambda: len(rows(page)) >= min(head, 10))
        for number in range(1, min(head, 12)):
            page.evaluate(f"location.hash = '#/s/you.hostile/record/{number}'")
            until(page, lambda number=number: heading(page) == f"Record {number}")  # type: ignore[misc]
            page.wait_for_selector(".record[aria-busy=false]")
            page.evaluate("document.querySelectorAll('.record details').forEach(one => one.open = true)")
        assert page.locator(".record :is(img, script, iframe, svg:not(.icon), style, form)").count() == 0


@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_is_wider_than_the_page(visitor: Visitor, width: int) -> None:
    visitor.open(f"wide-{width}", "hello", "pay")
    with visitor.page(f"/s/you.wide-{width}/record/2", width=width) as page:
        until(page, lambda: heading(page) == "Record 2")
        page.click(".record summary:has-text('As JSON')")
        page.wait_for_selector("pre[aria-label=input]")
        until(page, lambda: bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth")))
    visitor.end(f"wide-{width}")
