"""A tree of many sessions: the page has the rows alone that are in sight, and is sent few of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pytest

from tests.host.console.visiting import Visitor, needs_browser, until

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [needs_browser, pytest.mark.long]

MANY: Final = 400
MOST_NODES: Final = 1_400
"""The most elements of the page, however many sessions there are."""

MOST_BYTES: Final = 120_000
"""The most bytes that the page is sent until its first room is there: its files, and all messages."""

MOST_REQUESTS: Final = 15


class Wire:
    """Counts the requests of a page, and the bytes that it is sent."""

    def __init__(self, page: Page) -> None:
        self.requests = 0
        self.bytes = 0
        client = page.context.new_cdp_session(page)
        client.send("Network.enable")
        client.on("Network.loadingFinished", self._loaded)
        client.on("Network.webSocketFrameReceived", self._received)

    def _loaded(self, event: Mapping[str, float]) -> None:
        self.requests += 1
        self.bytes += int(event["encodedDataLength"])

    def _received(self, event: Mapping[str, Mapping[str, str]]) -> None:
        self.bytes += len(event["response"]["payloadData"].encode())


IN_SIGHT: Final = "() => document.elementFromPoint(500, 300)?.closest('tr')?.dataset.id ?? null"
"""The row in the middle of the window."""


def rows(page: Page) -> int:
    """Return how many rows the list says that it has."""
    return int(page.locator("[role=treegrid]").get_attribute("aria-rowcount") or 0) - 1


def nodes(page: Page) -> int:
    return int(page.evaluate("document.querySelectorAll('*').length"))


@pytest.mark.campaign
def test_of_many_sessions_the_first_are_sent_and_the_others_once_somebody_scrolls(visitor: Visitor) -> None:
    names = [f"many-{number}" for number in range(MANY)]
    for name in names:
        visitor.open(name)
    with visitor.page() as page:
        wire = Wire(page)
        page.reload()
        until(page, lambda: rows(page) == 100)
        until(page, lambda: "400 sessions run; the first 100 are shown" in page.inner_text("#main [role=status].hint"))
        assert wire.bytes < MOST_BYTES
        assert wire.requests <= MOST_REQUESTS
        assert nodes(page) < MOST_NODES
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        until(page, lambda: page.evaluate(IN_SIGHT) is not None)
        seen = page.evaluate(IN_SIGHT)
        until(page, lambda: rows(page) == MANY)
        assert page.evaluate(IN_SIGHT) == seen, "the place of the reader is kept"
        page.locator("[role=row] a").first.evaluate("it => it.focus({ preventScroll: true })")
        page.evaluate("scrollTo(0, 0)")
        until(page, lambda: page.evaluate("document.activeElement.role") == "treegrid")
        assert page.locator("[role=row][data-id]").first.get_attribute("aria-rowindex") == "2"
        assert nodes(page) < MOST_NODES
    visitor.end(*names)
