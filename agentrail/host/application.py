"""`Application`: the one handler of a host: finds the call of a request, and who makes it, and carries it out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from agentrail.api.operation_table import CALLS, match
from agentrail.errors import AgentrailError, UsageError
from agentrail.errors.agentrail_error import cut
from agentrail.host.authentication.identity import NOBODY, Authenticator, ForwardedIdentity, identified, take_place
from agentrail.host.error_responses import refusal
from agentrail.host.operations.call import http_call, http_response
from agentrail.host.operations.host_operations import HostOperations
from agentrail.host.requests.http_messages import Handler, HttpRequest, HttpResponse

ATTEMPT: Final = "answer the request"


class Application:
    """Answers each request by the operation that its route names.

    *pages* answer what there is over HTTP alone: they take the request itself. *names* are those of what is answered.
    """

    def __init__(
        self,
        operations: HostOperations,
        pages: Mapping[str, Handler],
        authenticator: Authenticator,
        names: Collection[str] = CALLS,
    ) -> None:
        self.operations = operations
        """What it answers with."""
        self._pages = pages
        self._authenticator = authenticator
        self._names = names

    def with_routes(self, names: Collection[str]) -> Application:
        """Return the application that answers only the calls of these *names*."""
        return Application(self.operations, self._pages, self._authenticator, names)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Return the answer to a request: what its call gives, or a problem document."""
        attempt, who = ATTEMPT, NOBODY
        try:
            matched = match(request.method, request.path)
            row = matched.route.call
            request.note.route = matched.route.method, matched.route.path
            attempt = row.attempt
            if row.name not in self._names:
                raise UsageError("unknown-route", cut(request.path))
            if row.name in self._pages:
                return await self._pages[row.name](request)
            if row.scope is not None:
                self.operations.check_open()
                who = await identified(self._authenticator, request)
                request.note.tenant, request.note.user = who.tenant, who.user
                # the host in front has counted what it passes on
                self.operations.admit(row, who, is_counted=isinstance(who, ForwardedIdentity))
                take_place(request, who)
            call = await http_call(request, row, who, matched.session, self.operations.limits)
            return http_response(await self.operations.carry_out(call))
        except AgentrailError as error:
            return refusal(error, attempt, who.tenant, request.note.id)
