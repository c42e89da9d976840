"""`McpCalls`: the calls of a host that the tool of the MCP server makes; in a host, `HostedCalls` carries them out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from attrs import frozen

from agentrail.api.operation_table import CALLS
from agentrail.errors import AgentrailError
from agentrail.host.authentication.identity import Identity
from agentrail.host.faces.face_calls import FaceCalls
from agentrail.host.mcp_server.call_failed import CallFailedError
from agentrail.host.operations.call import OperationCall
from agentrail.host.operations.host_operations import HostOperations
from agentrail.host.operations.view_calls import ViewCalls
from agentrail.host.requests.access_log import RequestNote
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.tools import ToolExecutionStart
from agentrail.values.json import EMPTY, JsonObject


class McpCalls(Protocol):
    """Makes calls of a host, by their names in its table, for one client."""

    async def call(self, name: str, *, session: str = "", body: JsonObject | None = None, ref: str = "") -> JsonObject:
        """Make a call, with a query that names the prompt *ref* if one is given; raise `CallFailedError`."""
        ...

    async def starts(self, session: str) -> AbstractAsyncContextManager[AsyncIterator[Envelope]]:
        """Return the starts of tools in a session from now on; raise `AgentrailError` if they are not told."""
        ...


@frozen
class HostedCalls:
    """Makes calls of the host itself, for the caller of one request."""

    calls: FaceCalls
    operations: HostOperations
    views: ViewCalls
    who: Identity
    note: RequestNote

    async def call(self, name: str, *, session: str = "", body: JsonObject | None = None, ref: str = "") -> JsonObject:
        """Carry out a call as one over HTTP: with the scopes of the key, the rules of the host, and its plugins."""
        query: JsonObject = {"ref": ref} if ref else EMPTY
        try:
            return await self.calls.call(name, session=session, body=body or EMPTY, query=query)
        except AgentrailError as error:
            raise CallFailedError(str(error)) from None

    async def starts(self, session: str) -> AbstractAsyncContextManager[AsyncIterator[Envelope]]:
        """Return the starts of tools in a session that runs here."""
        call = OperationCall(CALLS["events"], self.who, session, self.operations.limits, note=self.note)
        return await self.views.subscribed(call, None, (ToolExecutionStart,))
