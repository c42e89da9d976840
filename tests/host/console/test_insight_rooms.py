"""Lanes and states in the timeline, two sessions side by side, what the model saw, and figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.host.console.hostile import TEXTS
from tests.host.console.test_timeline import heading, rows
from tests.host.console.visiting import Visitor, needs_browser, until, words
from tests.testing.test_as_test import ran

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [needs_browser, pytest.mark.long]


@pytest.mark.campaign
def test_lanes_show_what_ran_when_and_can_be_zoomed(visitor: Visitor) -> None:
    visitor.open("lanes", "hello", "todo", "draw")
    visitor.rest("lanes")
    with visitor.page("/s/you.lanes/record/2") as page:
        page.wait_for_selector(".lanes-part[aria-busy=false]")
        until(page, lambda: page.locator("rect.span").count() > 3)
        label = page.locator(".lanes svg").get_attribute("aria-label") or ""
        assert "model: " in label
        assert "tools: " in label
        until(page, lambda: page.locator("role=button[name='Zoom out']").is_disabled())
        page.click("role=button[name='Zoom in']")
        until(page, lambda: page.locator("role=button[name='Zoom out']").is_enabled())
        page.click("role=button[name='Later']")
        page.click("role=button[name='Zoom out']")
        until(page, lambda: page.locator("role=button[name='Zoom out']").is_disabled())
        page.locator("rect.span[data-lane=tools]").first.click()
        until(page, lambda: heading(page) != "Record 2")


def test_the_state_at_a_record_is_shown_with_what_changed(visitor: Visitor) -> None:
    visitor.open("states", "hello")
    visitor.rest("states")
    with visitor.page("/s/you.states/record/2") as page:
        page.click(".record summary:has-text('What changed in the state')")
        page.wait_for_selector(".changes dt >> text=phase")
        change = page.locator("del[aria-label='phase before']").inner_text()
        assert "idle" in change
        page.click("text=The state after record 2")
        assert '"phase"' in page.locator("pre[aria-label=state]").inner_text()


def test_two_sessions_with_a_common_past_are_side_by_side(visitor: Visitor) -> None:
    visitor.open("trunk", "hello", "again")
    visitor.rest("trunk")
    visitor.post("/v1/sessions/trunk/fork", {"at": 3, "session": "branch"})
    with visitor.page("/s/you.trunk/record/3") as page:
        until(page, lambda: heading(page) == "Record 3")
        page.fill("text=Beside it", "you.branch")
        page.click("text=Show beside")
        page.wait_for_selector("text=you.branch was forked from you.trunk after record 3")
        until(page, lambda: any("forked from you.trunk after record 3" in row for row in rows(page)))
        assert "with=you.branch" in page.url
        page.reload()
        page.wait_for_selector("text=you.branch was forked from you.trunk after record 3")
        page.click("text=Show alone")
        until(page, lambda: heading(page) == "Record 3")


@pytest.mark.campaign
def test_the_request_of_a_round_is_shown_with_the_difference_to_the_one_before(visitor: Visitor) -> None:
    visitor.open("seen", "hello", "again", TEXTS[0])
    visitor.rest("seen")
    with visitor.page("/s/you.seen/seen/2") as page:
        page.wait_for_selector("text=Round 2 of 3")
        assert page.locator("td", has_text="transfer").count() >= 1
        fresh = page.get_by_role("region", name="Parts that are new")
        until(page, lambda: all(text in fresh.inner_text() for text in ("You said: hello", "again")))
        page.click("role=button[name='Round before']")
        page.wait_for_selector("text=It is the first request.")
        page.evaluate("location.hash = '#/s/you.seen/seen/3'")
        page.wait_for_selector("text=Round 3 of 3")
        page.evaluate("document.querySelectorAll('td details').forEach(one => one.open = true)")
        assert page.locator("main :is(img, script, iframe)").count() == 0
        page.click("text=Show it whole")
        page.wait_for_selector("text=The model is of no provider.")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.click("text=Copy as a test")
        page.wait_for_selector(".told >> text=Copied")
        copied = page.evaluate("navigator.clipboard.readText()")
        ran(copied, 3)
        with pytest.raises(AssertionError):
            ran(copied.replace('say("You said', 'say("They said'), 3)
        page.evaluate("location.hash = '#/s/you.seen/seen/99'")
        page.wait_for_selector("[role=alert]")


def test_figures_are_plotted_and_told_in_a_table(visitor: Visitor) -> None:
    visitor.open("figures", "hello", "draw")
    visitor.rest("figures")
    with visitor.page("/figures?per=session") as page:
        page.wait_for_selector(".plot canvas")
        for title in ("Cost", "Tokens", "Time to the first word", "Turns, by how they ended"):
            assert page.get_by_role("region", name=title, exact=True).locator(".plot-total").inner_text() != ""
        until(page, lambda: page.locator("tbody tr", has_text="you.figures").count() == 1)
        page.click("role=button[name='By session']")
        page.click("role=menuitemradio[name='tool']")
        until(page, lambda: "per=tool" in page.url)
        until(page, lambda: page.locator("th").first.inner_text() == "Tool")
        page.click("role=button[name='By tool']")
        page.click("role=menuitemradio[name='session']")
        until(page, lambda: page.locator("tbody tr", has_text="you.figures").count() == 1)
        box = page.locator(".plot .u-over").first.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 2, box["y"] + 50)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] - 2, box["y"] + 50, steps=4)
        page.mouse.move(box["x"] + box["width"] + 9, box["y"] + 50)  # to the end: the minute may just have begun
        page.mouse.up()
        page.wait_for_selector(".chosen-sessions >> text=you.figures")
        assert "from=" in page.url
        page.click("text=Choose no time")
        until(page, lambda: "from=" not in page.url)


def test_a_stretch_of_a_plot_is_chosen_with_the_keyboard(visitor: Visitor) -> None:
    visitor.open("pressed", "hello")
    visitor.rest("pressed")
    with visitor.page("/figures?per=session") as page:
        page.wait_for_selector(".plot canvas")
        plot = page.locator(".plot").first
        plot.press("End")
        plot.press("ArrowLeft")  # the last stretch
        plot.press("Shift+ArrowLeft")
        plot.press("Enter")
        page.wait_for_selector(".chosen-sessions >> text=you.pressed")
        assert "from=" in page.url


def cost(page: Page, session: str) -> list[str]:
    return words(page.locator("tr", has_text=f"you.{session}").locator("td.amount").last)


def test_figures_never_take_an_unknown_price_for_nothing(visitor: Visitor) -> None:
    prompts = {"unpriced": ["unpriced"], "priced": ["paid"], "mixed": ["paid", "paid", "unpriced"]}
    for session, prompt in prompts.items():
        visitor.open(session, *prompt)
        visitor.rest(session)
    prices = {"unpriced": "no price", "priced": "$0.25", "mixed": "$0.50 and 1 response of unknown price"}
    with visitor.page("/figures?per=session") as page:
        for session, price in prices.items():
            until(page, lambda session=session, price=price: cost(page, session) == [price])  # type: ignore[misc] # mypy infers no default
        legend = page.get_by_role("region", name="Cost", exact=True)
        assert "you.mixed $0.50" in words(legend)[0]


def test_waits_for_people_are_told_apart_from_the_tool(visitor: Visitor) -> None:
    visitor.open("decided", "pay")
    visitor.post("/v1/sessions/decided/approve", {"approval": visitor.held("decided")})
    visitor.rest("decided")
    with visitor.page("/figures?per=tool") as page:
        page.wait_for_selector("th >> text=Until people decided")
        row = page.locator("tr", has_text="transfer").locator("td.amount")
        until(page, lambda: len(words(row)) == 4 and words(row)[2].endswith("s"))


@pytest.mark.parametrize("path", ["/s/you.narrow/record/2", "/s/you.narrow/seen/1", "/figures"])
def test_on_a_telephone_nothing_is_wider_than_the_page(visitor: Visitor, path: str) -> None:
    if visitor.calls.get("/v1/sessions/narrow").status_code == 404:
        visitor.open("narrow", "hello")
        visitor.rest("narrow")
    with visitor.page(path, width=360) as page:
        page.wait_for_selector("h1")
        until(page, lambda: page.locator("text=Loading").count() == 0)
        until(page, lambda: bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth")))
