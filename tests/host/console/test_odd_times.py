"""A stored time that no browser can write, as a journal of somebody else may say: the page says so in words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.host.console.visiting import Visitor, needs_browser, until

if TYPE_CHECKING:
    from playwright.sync_api import WebSocketRoute

pytestmark = [needs_browser, pytest.mark.long]


@pytest.mark.parametrize(
    ("name", "time"), [("late", "1000000000000000000"), ("early", "-1000000000000000000"), ("none", "null")]
)
def test_a_time_that_no_browser_can_write_is_called_unknown(visitor: Visitor, name: str, time: str) -> None:
    visitor.open(name, "Who are you?")
    visitor.rest(name)

    def change(socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()
        server.on_message(lambda text: socket.send(re.sub(r'"active":\d+', f'"active":{time}', str(text))))

    with visitor.page("/now") as page:
        page.route_web_socket("**/v1/ws*", change)
        page.reload()
        page.get_by_text("Search the stored ones").click()
        until(page, lambda: "active unknown time" in page.inner_text("main"))
        assert "Invalid" not in page.inner_text("body")
        assert "1970" not in page.inner_text("body")
    visitor.end(name)
