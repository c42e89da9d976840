"""`McpCalls`: the calls of a host that the tool of the MCP server makes; in a host, `HostedCalls` carries them out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, cast

from attrs import frozen

from agentrail.api.body_parsing import body_of, query_of
from agentrail.api.operation_table import CALLS
from agentrail.api.problems import Problem
from agentrail.errors import AgentrailError
from agentrail.host.authentication.identity import Identity
from agentrail.host.mcp_server.call_failed import CallFailedError
from agentrail.host.operations.call import OperationCall, Shown
from agentrail.host.operations.host_operations import HostOperations
from agentrail.host.operations.view_calls import ViewCalls
from agentrail.host.requests.access_log import RequestNote
from agentrail.host.requests.http_messages import Headers
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.tools import ToolExecutionStart
from agentrail.values.json import EMPTY, Json, JsonObject, freeze_object


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

    operations: HostOperations
    views: ViewCalls
    who: Identity
    headers: Headers
    note: RequestNote

    def _call(self, name: str, session: str) -> OperationCall:
        limits = self.operations.limits
        return OperationCall(CALLS[name], self.who, session, limits, headers=self.headers, note=self.note)

    async def call(self, name: str, *, session: str = "", body: JsonObject | None = None, ref: str = "") -> JsonObject:
        """Carry out a call as one over HTTP: with the scopes of the key, the rules of the host, and its plugins."""
        row, call = CALLS[name], self._call(name, session)
        try:
            self.operations.check_open()
            self.operations.admit(row, self.who, is_counted=True)
            content = None if row.body is None else body_of(row, freeze_object(body or EMPTY))
            query = query_of(row, (("ref", ref),) if ref else ())
            limits = self.operations.limits
            call = OperationCall(
                row, self.who, session, limits, body=content, query=query, headers=self.headers, note=self.note
            )
            answer = await self.operations.carry_out(call)
        except AgentrailError as error:
            answer = call.problem(error)
        if isinstance(answer, Problem):
            raise CallFailedError(answer.detail)
        if not isinstance(answer, Shown):
            raise CallFailedError(name)
        plain = answer.plain if answer.content else EMPTY
        if answer.is_problem:  # of another host, to which the call was passed on
            raise CallFailedError(str(cast("Mapping[str, Json]", plain).get("detail", name)))
        return cast("JsonObject", plain)

    async def starts(self, session: str) -> AbstractAsyncContextManager[AsyncIterator[Envelope]]:
        """Return the starts of tools in a session that runs here."""
        return await self.views.subscribed(self._call("events", session), None, (ToolExecutionStart,))
