"""A session that has waited long: its waits are folded in the lanes, and told apart from the work between them."""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
import trio
from trio.testing import MockClock

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.journals import MemoryJournal, Record, SqliteJournal
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from tests.host.console.scenes import KEPT
from tests.host.console.visiting import needs_browser, until, visiting, words

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [needs_browser, pytest.mark.long]

NAME: Final = "h.local.you.patient"
HOUR: Final = 3_600
WORK: Final = 45
"""Seconds that the tool works."""

TICK_ROOM: Final = 64
"""Pixels that the time of a tick takes."""


@tool
async def dig() -> str:
    """Dig for a while."""
    await trio.sleep(WORK)
    return "dug"


async def _waited() -> tuple[Record, ...]:
    """Return the records of a session in virtual time: a call waits an hour for a person, and a prompt two more."""
    journal = MemoryJournal()
    spec = SessionSpec(
        model=ScriptedModel([say(calls=[call("dig")]), "Dug.", "Again."]),
        tools=[dig],
        plugins=[HumanApproval(tools=["dig"], timeout=None)],
    )
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, NAME, tenant="local", owner="you")
        reply = await session.ask("dig")
        await trio.sleep(HOUR)
        await session.approve(reply.held[0].id)
        await trio.sleep(WORK + 2 * HOUR)
        await session.ask("again")
    return await journal.read(NAME)


async def _store(path: Path, records: tuple[Record, ...]) -> None:
    journal = SqliteJournal(path, sync="normal")
    await journal.append(await journal.claim(NAME, "test"), 0, records)
    await journal.close()


def _numbers(locator: Locator, name: str) -> list[float]:
    return [float(element.get_attribute(name) or "nan") for element in locator.all()]


def _times(page: Page) -> str:
    return " ".join(words(page.locator(".lane-times")))


def test_long_waits_are_folded_and_work_is_told_apart_from_them(tmp_path: Path) -> None:
    records = trio.run(_waited, clock=MockClock(autojump_threshold=0))
    trio.run(partial(_store, tmp_path / KEPT, records))
    with visiting(tmp_path) as visitor, visitor.page("/s/you.patient/timeline") as page:
        page.wait_for_selector(".lanes-part[aria-busy=false]")
        folds = page.locator("rect.lane-fold")
        until(page, lambda: folds.count() == 2)
        assert words(page.locator("rect.lane-fold title")) == ["Nothing worked for 1 h", "Nothing worked for 2 h"]
        assert re.fullmatch(r"3 h 4\d s|3 h: model \S+ m?s · tools 45 s · waited for people 1 h", _times(page))
        narrow, wide = (page.locator("rect.span[data-lane=people]"), page.locator("rect.span[data-lane=tools]"))
        assert max(_numbers(wide, "width")) > max(_numbers(narrow, "width")), "the work has the room"

        ticks = page.locator(".lanes svg text:has(title)")
        places = _numbers(ticks, "x")
        assert len(places) >= 3, "each stretch says when it is"
        assert all(right - former >= TICK_ROOM for former, right in pairwise(places))
        page.click("role=button[name='Zoom in']")
        until(page, lambda: _times(page) != "" and folds.count() < 2)
