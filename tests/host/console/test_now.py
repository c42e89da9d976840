"""What runs now: the rows as they change, search and filter, what went wrong, and each action."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.host.console.visiting import Visitor, needs_browser, until, words

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [needs_browser, pytest.mark.long]


def cells(page: Page, column: int = 1) -> list[str]:
    rows = page.locator(f"[role=row][data-id] [role=gridcell]:nth-child({column})")
    return [text.strip() for text in rows.all_inner_texts()]


def row(page: Page, session: str) -> str:
    """Return what the row of a session says."""
    return "".join(page.locator("[role=row][data-id]", has_text=f"you.{session}").all_inner_texts())


def choose(page: Page, session: str) -> None:
    """Choose the row of a session with the keyboard, as a click opens it."""
    page.focus("[role=treegrid]")
    page.keyboard.press("Home")
    row = page.locator("[role=row][data-id]", has_text=f"you.{session}").first
    for _ in range(20):
        if row.get_attribute("aria-selected") == "true":
            return
        page.keyboard.press("ArrowDown")
    until(page, lambda: row.get_attribute("aria-selected") == "true")


def act(page: Page, session: str, item: str) -> None:
    """Choose *item* in the menu of a row."""
    page.locator("[role=row][data-id]", has_text=f"you.{session}").first.hover()
    page.click(f"role=button[name='More about you.{session}']")
    page.click(f"role=menuitem[name='{item}']")


CUT: Final = """its => its.filter(it => it.offsetParent && it.scrollWidth > it.clientWidth).map(it => it.textContent)"""
"""The texts that have no room."""


def test_a_window_of_middle_width_has_the_columns_for_which_there_is_room(visitor: Visitor) -> None:
    visitor.open("narrow", "hello")
    with visitor.page("/now", width=960) as page:
        until(page, lambda: "Idle" in row(page, "narrow"))
        assert page.locator("[role=columnheader]").evaluate_all(CUT) == []
        assert page.locator("[role=gridcell]:nth-child(2) bdi").evaluate_all(CUT) == []
        assert "Agent" in page.locator("[role=columnheader]").all_inner_texts()
    visitor.end("narrow")


def test_rows_come_change_and_go_by_themselves(visitor: Visitor) -> None:
    with visitor.page("/now") as page:
        visitor.open("live", "count")
        until(page, lambda: "count_slowly" in row(page, "live"))
        until(
            page, lambda: page.locator("[role=columnheader]").nth(-2).inner_text() == "Cost"
        )  # there is one host, so none is named
        visitor.post("/v1/sessions/live/abort", {"kill_tools": "all"})
        until(page, lambda: "Idle" in row(page, "live"))
        visitor.post("/v1/sessions/live/prompt", {"message": "pay"})
        until(page, lambda: "Transfer Bob" in row(page, "live"))
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
        page.click("role=button[name=/^Need you/]")
        until(page, lambda: [text.removeprefix("you.") for text in cells(page)] == ["apple"])
        page.reload()
        until(page, lambda: [text.removeprefix("you.") for text in cells(page)] == ["apple"])
        assert page.get_by_role("group", name="Show").inner_text().split() == [
            "All",
            "2",
            "Need",
            "you",
            "1",
            "Working",
            "0",
            "In",
            "trouble",
            "0",
            "Idle",
            "1",
        ]
        page.click("role=button[name=/^Working/]")
        page.wait_for_selector("text=No session here is “Working”")
        page.click("role=button[name='Clear']")
        until(page, lambda: len(cells(page)) == 2)
        page.keyboard.press("/")
        until(page, lambda: page.evaluate("document.activeElement.type") == "search")
        page.keyboard.type("nordwnd")
        page.wait_for_selector("text=No session matches “nordwnd”")
    visitor.end("apple", "pear")


@pytest.mark.campaign
def test_a_session_is_suspended_resumed_aborted_forked_and_stopped(visitor: Visitor) -> None:
    visitor.open("acted", "count")
    with visitor.page("/now") as page:
        until(page, lambda: row(page, "acted") != "")
        act(page, "acted", "Suspend")
        until(page, lambda: "Suspended" in row(page, "acted"))
        act(page, "acted", "Resume")
        until(page, lambda: "Suspended" not in row(page, "acted"))
        act(page, "acted", "Stop the turn")
        until(page, lambda: "Idle" in row(page, "acted"))
        act(page, "acted", "Stop for good…")
        page.click("role=button[name='No']")
        act(page, "acted", "Stop for good…")
        until(page, lambda: page.evaluate("document.activeElement.textContent") == "No")
        page.click("role=button[name='Stop it']")
        until(page, lambda: row(page, "acted") == "")
    visitor.open("forked", "hello")
    with visitor.page("/now") as page:
        until(page, lambda: row(page, "forked") != "")
        act(page, "forked", "Fork")
        page.wait_for_selector("text=A fork, with the past")
        page.go_back()
        until(page, lambda: len(cells(page)) == 2)
    visitor.end(*[text.strip() for text in visitor_sessions(visitor)])


def visitor_sessions(visitor: Visitor) -> list[str]:
    items = visitor.calls.get("/v1/sessions?ended=false").json()["items"]
    return [item["session"] for item in items]


def test_a_session_is_opened_and_stored_ones_are_found(visitor: Visitor) -> None:
    with visitor.page("/now") as page:
        page.click("role=button[name='New session']")
        page.fill("text=Name, if it is to have one", "fresh")
        page.click("role=button[name='Begin']")
        page.wait_for_selector("h1:has-text('fresh')")
        assert page.url.endswith("#/s/you.fresh")
        page.click("nav >> text=Now")
        page.click("text=Search the stored ones")
        page.click(".stored >> text=fresh")
        page.wait_for_selector("h1:has-text('fresh')")
    visitor.end("fresh")


def test_a_session_without_a_name_is_called_by_what_was_said_first(visitor: Visitor) -> None:
    with visitor.page("/now") as page:
        page.click("role=button[name='New session']")
        page.click("role=button[name='Begin']")
        page.wait_for_url("**/s/*")
        session = page.url.rpartition("/")[2]
        page.wait_for_selector("dt:text-is('Agent')")
        for text in ("Which of the\n November  invoices are due, and which of them have a discount?", "another thing"):
            page.fill("#say", text)
            page.press("#say", "Enter")
            page.wait_for_selector(f".asked >> text={text[:5]}")
        title = "Which of the November invoices are due, and which of them h…"
        page.wait_for_selector(f"h1 >> text={title}")
        page.click("nav >> text=Now")
        page.wait_for_selector(f"[role=gridcell] >> text={title}")
    visitor.end(session)


def test_what_was_said_is_searched_and_leads_to_where_it_was_said(visitor: Visitor) -> None:
    visitor.open("quoted", "the Eiffel tower", "another thing")
    visitor.open("unquoted", "hello")
    for session in ("quoted", "unquoted"):
        visitor.rest(session)
    with visitor.page("/now") as page:
        page.click("text=Search the stored ones")
        page.fill("role=searchbox[name='What was said']", "eiffel TOWER")
        page.keyboard.press("Enter")
        page.wait_for_selector("[role=status] >> text=1 session has")
        assert words(page.locator(".stored > li > a")) == ["you.quoted"]
        page.click(".passage:has-text('the Eiffel tower') a")
        page.wait_for_selector("[data-meant] >> text=the Eiffel tower")
        page.go_back()
        page.click("text=Search the stored ones")
        page.fill("role=searchbox[name='What was said']", "nobody says that")
        page.keyboard.press("Enter")
        page.wait_for_selector("[role=status] >> text=0 sessions have")
    visitor.end("quoted", "unquoted")


@pytest.mark.campaign
def test_what_went_wrong_is_told_and_leads_to_its_session(visitor: Visitor) -> None:
    visitor.open("broken")
    with visitor.page("/now") as page:
        page.wait_for_selector("main >> text=nothing went wrong in the last hour")
        visitor.post("/v1/sessions/broken/prompt", {"message": "break"})
        page.wait_for_selector("[aria-label='Look here first'] >> text=you.broken")
        until(page, lambda: "this will never work" in row(page, "broken"))
        page.click("[aria-label='Look here first'] a")
        page.wait_for_selector("[data-meant]")
    visitor.end("broken")
