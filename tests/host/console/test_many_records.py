"""A session of very many records: the page has those alone that are in sight."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.journals import SqliteJournal
from agentrail.testing import ScriptedModel
from tests.host.console.many_records import fill
from tests.host.console.scenes import KEPT
from tests.host.console.test_timeline import heading, rows
from tests.host.console.visiting import needs_browser, until, visiting

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [needs_browser, pytest.mark.long]

MANY: Final = 50_000
MOST_NODES: Final = 2_500
"""The most elements of a page that shows a session, of any length."""


async def _talk(path: Path, turns: int) -> None:
    """Store a session of so many turns."""
    journal = SqliteJournal(path, sync="normal")
    async with open_supervisor(journal=journal) as supervisor:
        spec = SessionSpec(model=ScriptedModel(["Yes."], repeat_last=True))
        session = await supervisor.spawn(spec, "h.local.you.talk", tenant="local", owner="you")
        for turn in range(turns):
            await session.ask(f"Is it {turn}?")
    await journal.close()


def _shown(page: Page) -> tuple[int, ...]:
    """Return the numbers of the first and the last record that the lanes show, and of the last one that there is."""
    page.wait_for_selector(".lanes-part[aria-busy=false]")
    words = page.inner_text(".lanes-part [role=status]").replace(",", "")
    return tuple([int(number) for number in re.findall(r"\d+", words)[:3]])


@pytest.mark.campaign
def test_lanes_load_what_is_zoomed_and_panned_to_within_a_bound(tmp_path: Path) -> None:
    trio.run(_talk, tmp_path / KEPT, 1_300)
    with visiting(tmp_path) as visitor, visitor.page("/s/you.talk/record/2") as page:
        until(page, lambda: _shown(page)[:2] == (1, 500))
        head = _shown(page)[2]
        assert head > 2_500
        page.click("role=button[name='Zoom in']")
        until(page, lambda: "of these a part" in page.inner_text(".lanes-part [role=status]"))
        page.click("role=button[name='Zoom out']")
        for last in (1_000, 1_500, 2_000):
            page.click("role=button[name='Zoom out']")
            until(page, lambda last=last: _shown(page)[:2] == (1, last))  # type: ignore[misc]
            assert page.evaluate("document.querySelectorAll('*').length") < MOST_NODES
        until(page, lambda: page.locator("role=button[name='Zoom out']").is_disabled())
        until(page, lambda: page.locator("role=button[name='Earlier']").is_disabled())
        page.click("role=button[name='Later']")
        until(page, lambda: _shown(page)[:2] == (501, 2_500))
        page.click("role=button[name='Earlier']")
        until(page, lambda: _shown(page)[:2] == (1, 2_000))
        page.evaluate(f"location.hash = '#/s/you.talk/record/{head}'")
        until(page, lambda: _shown(page)[1] == head)


WATCH: Final = """() => {
  window.made = 0
  const count = node => 1 + (node.querySelectorAll?.('*').length ?? 0)
  new MutationObserver(changes => {
    for (const { addedNodes } of changes) for (const node of addedNodes) made += count(node)
  }).observe(document.getElementById('main'), { childList: true, subtree: true })
  for (const row of document.querySelectorAll('[role=grid] tr[data-id]')) row.dataset.used = ''
}"""
"""Counts the elements that are made from now on, and marks the rows that are there."""

MOST_MADE: Final = 900
"""The most elements that are made for a jump or for another record, of any number."""

MOST_CALLS: Final = 4
"""The most calls that the page makes for it."""


def _jump_and_choose(page: Page, calls: list[str]) -> None:
    """Check what a jump and another chosen record cost, in counts: the rows are used again."""
    page.evaluate(WATCH)
    for part in (0.3, 0.8, 0.1):
        calls.clear()
        page.evaluate("part => { made = 0; scrollTo(0, document.documentElement.scrollHeight * part) }", part)
        until(page, lambda: (visible_rows := rows(page)) != [] and all("Session woke" in row for row in visible_rows))
        assert page.locator("[role=grid] tr[data-id]:not([data-used])").count() == 0
        assert page.evaluate("made") < MOST_MADE
        assert len(calls) <= MOST_CALLS
        calls.clear()
        page.evaluate("made = 0")
        page.mouse.click(600, 500)
        until(page, lambda: heading(page) == f"Record {page.get_attribute('[aria-selected=true]', 'data-id')}")
        page.wait_for_selector(".record[aria-busy=false]")
        assert page.locator("[role=grid] tr[data-id]:not([data-used])").count() == 0
        assert page.evaluate("made") < MOST_MADE
        assert len(calls) <= MOST_CALLS


def test_fifty_thousand_records_cost_what_is_in_sight(tmp_path: Path) -> None:
    trio.run(fill, tmp_path / KEPT, MANY)
    calls: list[str] = []
    with visiting(tmp_path) as visitor, visitor.page("/s/you.many/timeline") as page:
        page.on("websocket", lambda socket: socket.on("framesent", lambda frame: calls.append(str(frame))))
        page.reload()
        until(page, lambda: heading(page) == f"Record {MANY}")
        until(page, lambda: any("Session woke" in row for row in rows(page)))
        grid = page.locator("[role=grid]")
        assert grid.get_attribute("aria-rowcount") == str(MANY + 1)
        for part in range(20):
            page.evaluate("part => scrollTo(0, document.documentElement.scrollHeight * part / 20)", part)
            page.wait_for_timeout(20)
            assert page.evaluate("document.querySelectorAll('*').length") < MOST_NODES
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight / 2)")
        until(page, lambda: (visible_rows := rows(page)) != [] and all("Session woke" in row for row in visible_rows))
        _jump_and_choose(page, calls)
        grid.press("Home")
        until(page, lambda: any("session began" in row.lower() or "Session opened" in row for row in rows(page)))
        assert page.evaluate("document.querySelectorAll('*').length") < MOST_NODES
