"""Calls that list what is not of one session: commands."""

from __future__ import annotations

import trio

from agentrail.host.answering.call_request import CallRequest
from agentrail.host.http11.http_messages import HttpResponse
from agentrail.host.plugins.command_plugin import commands_for
from agentrail.host.plugins.rows import HostPluginRow
from agentrail.wire.views import CommandsView, CommandView, view


class ListingCalls:
    """Carries out the calls that list what is not of one session."""

    def __init__(self, rows: HostPluginRow) -> None:
        self._rows = rows

    async def commands(self, exchange: CallRequest) -> HttpResponse:
        """List the commands of host plugins."""
        await trio.lowlevel.checkpoint()
        found = await commands_for(self._rows, exchange.who)
        return exchange.given(CommandsView(tuple([view(CommandView, command) for command in found])))
