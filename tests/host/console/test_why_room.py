"""Why: each plugin that was asked about a call, a turn or an end, what it answered, and the rule that decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agentrail.insight import FoldingRule
from docs.printing.console_pictures import WIDTH
from tests.host.console.visiting import Visitor, needs_browser, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [needs_browser, pytest.mark.long]


def held(visitor: Visitor, session: str) -> str:
    """Prompt a session so that it has a call that waits for a person; return the id of that call."""
    visitor.open(session, "pay")
    visitor.held(session)
    records = visitor.calls.get(f"/v1/sessions/{session}/records").json()["records"]
    events = [stored["event"] for record in records for stored in record["events"]]
    return str([event["call_id"] for event in events if "call_id" in event][-1])


def entries(page: Page) -> list[str]:
    return page.locator(".story-steps > li").all_inner_texts()


def test_a_call_is_explained_plugin_by_plugin(visitor: Visitor) -> None:
    call = held(visitor, "why-call")
    with visitor.page(f"/s/you.why-call/why/{call}") as page:
        until(page, lambda: "HumanApproval held" in page.inner_text("main"))
        decided = page.locator(".decided").first.inner_text()
        assert "HumanApproval" in decided
        page.locator(".rule summary", has_text="hold").first.click()
        page.wait_for_selector(f".rule >> text={FoldingRule.HOLD.value}")
        page.locator(".story-steps a:has-text('record')").first.click()
        page.wait_for_url("**/record/*")
        page.wait_for_selector(".record h2")
        page.locator(f"a:has-text('call {call}')").first.click()
        page.wait_for_url(f"**/why/{call}")
    visitor.end("why-call")


def test_it_says_who_approved(visitor: Visitor) -> None:
    call = held(visitor, "why-who")
    visitor.post("/v1/sessions/why-who/reject", {"approval": visitor.held("why-who"), "reason": "too dear"})
    with visitor.page(f"/s/you.why-who/why/{call}") as page:
        page.wait_for_selector(".story-steps >> text=Transfer was rejected by you: too dear")
    visitor.end("why-who")


def test_the_headline_says_what_came_of_a_call_and_who_decided(visitor: Visitor) -> None:
    call = held(visitor, "why-headline")
    visitor.post("/v1/sessions/why-headline/approve", {"approval": visitor.held("why-headline")})
    visitor.rest("why-headline")
    with visitor.page(f"/s/you.why-headline/why/{call}") as page:
        answer = "Transfer ended with a result: approved by you, after HumanApproval had held it"
        page.wait_for_selector(f".story-title >> text={answer}")
    visitor.end("why-headline")


@pytest.mark.campaign
def test_a_turn_and_an_end_are_asked_for_in_the_room(visitor: Visitor) -> None:
    visitor.open("why-end", "hello", "again")
    with visitor.page("/s/you.why-end/why") as page:
        until(
            page, lambda: page.locator(".story-title").count() == 1 and "turn ended" in page.inner_text(".story-title")
        )
        page.keyboard.press("/")
        page.keyboard.type("1")
        page.keyboard.press("Enter")
        page.wait_for_url("**/why/1")
        until(page, lambda: len(entries(page)) >= 1)
        page.click("text=Turn 2")
        page.wait_for_url("**/why/2")
        page.fill("role=searchbox", "no-such-call")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=There is no call no-such-call in these records")


def test_it_opens_on_what_waits_and_lists_the_calls(visitor: Visitor) -> None:
    held(visitor, "why-opens")
    with visitor.page("/s/you.why-opens/why") as page:
        page.wait_for_selector(".subjects [aria-current] >> text=waits for you")
        page.wait_for_selector(".story-title >> text=Transfer waited for a person")
        page.click(".subjects >> text=How it ended last")
        page.wait_for_url("**/why/end")
    visitor.end("why-opens")


@pytest.mark.parametrize("width", [360, WIDTH, 1200])
def test_nothing_is_wider_than_the_page(visitor: Visitor, width: int) -> None:
    name = f"why-{width}"
    held(visitor, name)
    with visitor.page(f"/s/you.{name}/why/1", width=width) as page:
        until(page, lambda: len(entries(page)) >= 1)
        until(page, lambda: bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth")))
        cut = page.locator(".stay").evaluate("it => it.scrollWidth - it.clientWidth")
        assert cut == 0, "the list is as wide as its column"
        assert page.locator("main b:not(.strong)").count() == 0
    visitor.end(name)
