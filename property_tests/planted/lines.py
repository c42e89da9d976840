"""Bugs in the line of a client to a host, chosen from the specification before its tests were read."""

from __future__ import annotations

from typing import Final

from agentrail.remote.transport.host_connection import Line
from agentrail.remote.transport.host_subscription import LineSubscription
from property_tests.planted.change import Change
from property_tests.planted.host import broken
from tests.host.model.cut_lines import cut
from tests.host.model.expecting import ModelError

# ruff: noqa: SLF001 - private parts are what is broken here

CHANGES: Final = (
    Change(
        "resent_without_command_id",
        "what is sent again after a cut has no command id",
        Line._resume,
        "connection.post(call.text)",
        """connection.post(call.text.replace('"command":"', '"nothing":"'))""",
        "lines",
    ),
    Change(
        "line_goes_on_from_its_first_event",
        "a subscription that goes on after a cut has events again",
        LineSubscription.offer,
        "case EventFrame(cursor=cursor):\n                self.cursor = cursor",
        "case EventFrame(cursor=cursor):\n                self.cursor = self.cursor or cursor",
        "lines",
    ),
    Change(
        "event_given_to_another_subscription",
        "all events go to the subscription that began first",
        Line._take,
        "listening = self._listenings.get(frame.id)",
        "listening = next(iter(self._listenings.values()), None)",
        "lines",
    ),
)

LINES: Final = {"lines": broken(cut, ModelError)}
"""The search: a client whose connections are cut."""
