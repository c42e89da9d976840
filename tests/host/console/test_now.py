"""What runs now: the rows as they change, search and filter, what went wrong, and each action."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.host.console.visiting import Visitor, needs_browser, until, words

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [needs_browser, pytest.mark.long]


def cells(page: Page, column: int = 1) -> list[str]:
    rows = page.locator(f"[role=rowgroup] [role=row] [role=gridcell]:nth-child({column})")
    return [text.strip() for text in rows.all_inner_texts()]


def row(page: Page, session: str) -> str:
    """Return what the row of a session says."""
    return "".join(page.locator("[role=rowgroup] [role=row]", has_text=f"you.{session}").all_inner_texts())


def choose(page: Page, session: str) -> None:
    page.locator("[role=rowgroup] [role=row]", has_text=f"you.{session}").first.click()
    page.wait_for_selector(f".row-actions h2:has-text('you.{session}')")


def test_rows_come_change_and_go_by_themselves(visitor: Visitor) -> None:
    with visitor.page("/now") as page:
        visitor.open("live", "count")
        until(page, lambda: "count_slowly" in row(page, "live"))
        until(
            page, lambda: page.locator("[role=columnheader]").last.inner_text() == "Cost"
        )  # there is one host, so none is named
        visitor.post("/v1/sessions/live/abort", {"kill_tools": "all"})
        until(page, lambda: "idle" in row(page, "live"))
        visitor.post("/v1/sessions/live/prompt", {"message": "pay"})
        until(page, lambda: "1 for a person" in row(page, "live"))
        visitor.end("live")
        until(page, lambda: row(page, "live") == "")


def test_sub_agents_are_below_their_session_and_can_be_folded(visitor: Visitor) -> None:
    visitor.open("boss", "delegate pay")
    with visitor.page("/now") as page:
        until(page, lambda: len(cells(page)) == 2)
        until(page, lambda: page.locator("[role=row][aria-level='2']").count() == 1)
        choose(page, "boss")
        page.locator("[role=treegrid]").press("ArrowLeft")
        until(page, lambda: len(cells(page)) == 1)
        page.locator("[role=treegrid]").press("ArrowRight")
        until(page, lambda: len(cells(page)) == 2)
    visitor.end("boss")


def test_one_searches_and_filters_and_the_address_has_both(visitor: Visitor) -> None:
    visitor.open("apple", "pay")
    visitor.open("pear", "hello")
    with visitor.page("/now") as page:
        until(page, lambda: len(cells(page)) == 2)
        page.fill("input[type=search]", "PEA")
        until(page, lambda: [text.removeprefix("you.") for text in cells(page)] == ["pear"])
        until(page, lambda: "1 of 2 sessions fit" in page.inner_text("main"))
        page.fill("input[type=search]", "")
        page.select_option("text=Only", "held")
        until(page, lambda: [text.removeprefix("you.") for text in cells(page)] == ["apple"])
        page.reload()
        until(page, lambda: [text.removeprefix("you.") for text in cells(page)] == ["apple"])
        page.select_option("text=Only", "")
        page.select_option("text=Phase", "streaming")
        until(page, lambda: cells(page) == [])
    visitor.end("apple", "pear")


@pytest.mark.campaign
def test_a_session_is_suspended_resumed_aborted_forked_and_stopped(visitor: Visitor) -> None:
    visitor.open("acted", "count")
    with visitor.page("/now") as page:
        until(page, lambda: row(page, "acted") != "")
        choose(page, "acted")
        page.click("button:text-is('Suspend')")
        until(page, lambda: "suspended" in row(page, "acted"))
        page.click("button:text-is('Resume')")
        until(page, lambda: "suspended" not in row(page, "acted"))
        page.click("button:text-is('Abort the turn')")
        until(page, lambda: "idle" in row(page, "acted"))
        page.click("button:text-is('Stop for good')")
        page.click("button:text-is('No')")
        page.click("button:text-is('Stop for good')")
        until(page, lambda: page.evaluate("document.activeElement.textContent") == "No")
        page.click("button:has-text('Yes')")
        until(page, lambda: row(page, "acted") == "")
    visitor.open("forked", "hello")
    with visitor.page("/now") as page:
        until(page, lambda: row(page, "forked") != "")
        choose(page, "forked")
        page.click("button:text-is('Fork')")
        page.wait_for_selector("text=A fork, with the past")
        page.go_back()
        until(page, lambda: len(cells(page)) == 2)
    visitor.end(*[text.strip() for text in visitor_sessions(visitor)])


def visitor_sessions(visitor: Visitor) -> list[str]:
    items = visitor.calls.get("/v1/sessions?ended=false").json()["items"]
    return [item["session"] for item in items]


def test_a_session_is_opened_and_stored_ones_are_found(visitor: Visitor) -> None:
    with visitor.page("/now") as page:
        page.click("text=Open a session")
        page.fill("text=Name, if it is to have one", "fresh")
        page.click("button:text-is('Open')")
        page.wait_for_selector("h1:has-text('fresh')")
        assert page.url.endswith("#/s/you.fresh")
        page.click("nav >> text=Now")
        page.click("text=Stored sessions")
        page.click(".stored >> text=you.fresh")
        page.wait_for_selector("h1:has-text('fresh')")
    visitor.end("fresh")


def test_what_was_said_is_searched_and_leads_to_where_it_was_said(visitor: Visitor) -> None:
    visitor.open("quoted", "the Eiffel tower", "another thing")
    visitor.open("unquoted", "hello")
    for session in ("quoted", "unquoted"):
        visitor.rest(session)
    with visitor.page("/now") as page:
        page.click("text=Stored sessions")
        page.fill("label:has-text('What was said') input", "eiffel TOWER")
        page.keyboard.press("Enter")
        page.wait_for_selector("[role=status] >> text=1 session has")
        assert words(page.locator(".stored > li > a")) == ["you.quoted"]
        page.click(".passage:has-text('the Eiffel tower') a")
        page.wait_for_selector("[data-meant] >> text=the Eiffel tower")
        page.go_back()
        page.click("text=Stored sessions")
        page.fill("label:has-text('What was said') input", "nobody says that")
        page.keyboard.press("Enter")
        page.wait_for_selector("[role=status] >> text=0 sessions have")
    visitor.end("quoted", "unquoted")


@pytest.mark.campaign
def test_what_went_wrong_is_told_and_leads_to_its_session(visitor: Visitor) -> None:
    visitor.open("broken")
    with visitor.page("/now") as page:
        page.wait_for_selector("main >> text=Nothing went wrong")
        visitor.post("/v1/sessions/broken/prompt", {"message": "break"})
        page.wait_for_selector(".trouble >> text=you.broken")
        until(page, lambda: "!" in row(page, "broken"))
        page.click(".trouble a")
        page.wait_for_selector("[data-meant]")
    visitor.end("broken")
