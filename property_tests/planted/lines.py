"""Bugs in the line of a client to a host, chosen from the specification before its tests were read."""

from __future__ import annotations

from typing import Final

from agentrail.remote.transport.host_connection import HostConnection
from agentrail.remote.transport.host_subscription import HostSubscription
from property_tests.planted.change import Change
from property_tests.planted.host import broken
from tests.host.model.cut_lines import cut
from tests.host.model.expecting import ModelError

# ruff: noqa: SLF001 - private parts are what is broken here

CHANGES: Final = (
    Change(
        "resent_without_command_id",
        "what is sent again after a cut has no command id",
        HostConnection._resume,
        "connection.post(call.text)",
        """connection.post(call.text.replace('"command":"', '"nothing":"'))""",
        "lines",
    ),
    Change(
        "line_goes_on_from_its_first_event",
        "a subscription that goes on after a cut has events again",
        HostSubscription.offer,
        "case EventFrame(cursor=cursor):\n                self.cursor = cursor",
        "case EventFrame(cursor=cursor):\n                self.cursor = self.cursor or cursor",
        "lines",
    ),
    Change(
        "event_given_to_another_subscription",
        "all events go to the subscription that began first",
        HostConnection._dispatch,
        "subscription = self._subscriptions.get(frame.id)",
        "subscription = next(iter(self._subscriptions.values()), None)",
        "lines",
    ),
)

LINES: Final = {"lines": broken(cut, ModelError)}
"""The search: a client whose connections are cut."""
