"""`Application`: the one handler of a host: finds the call of a request, and who makes it, and carries it out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from agentrail.api.limits import HostLimits
from agentrail.api.routes import match
from agentrail.errors import AgentrailError, HostClosing, UsageError
from agentrail.errors.agentrail_error import cut
from agentrail.host.authentication.identity import NOBODY, Authenticator, ForwardedIdentity
from agentrail.host.authentication.request_places import identified, take_place
from agentrail.host.authentication.request_rates import Rates
from agentrail.host.error_responses import refusal
from agentrail.host.host_drain import HostDrain
from agentrail.host.hosted_sessions import check_scope
from agentrail.host.operations.answers import http_response
from agentrail.host.operations.call import CallFunction, http_call
from agentrail.host.requests.http_messages import Handler, HttpRequest, HttpResponse

ATTEMPT: Final = "answer the request"


class Application:
    """Answers each request with the function of the operation that its route names; over HTTP, those are *functions*.

    *pages* answer what there is over HTTP alone: they take the request itself.
    """

    def __init__(
        self,
        functions: Mapping[str, CallFunction],
        pages: Mapping[str, Handler],
        authenticator: Authenticator,
        rates: Rates,
        limits: HostLimits,
        drain: HostDrain,
    ) -> None:
        self._functions = functions
        self._pages = pages
        self._authenticator = authenticator
        self._limits = limits
        self._rates = rates
        self._drain = drain

    def with_routes(self, names: Collection[str]) -> Application:
        """Return the application that answers only the calls of these *names*."""
        functions = {name: function for name, function in self._functions.items() if name in names}
        pages = {name: page for name, page in self._pages.items() if name in names}
        return Application(functions, pages, self._authenticator, self._rates, self._limits, self._drain)

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Return the answer to a request: what its call gives, or a problem document."""
        attempt, who = ATTEMPT, NOBODY
        try:
            matched = match(request.method, request.path)
            row = matched.route.call
            request.note.route = matched.route.method, matched.route.path
            attempt = row.attempt
            if row.name in self._pages:
                return await self._pages[row.name](request)
            function = self._functions.get(row.name)
            if function is None:
                raise UsageError("unknown-route", cut(request.path))
            if row.scope is not None:
                if self._drain.has_begun:
                    raise HostClosing
                who = await identified(self._authenticator, request)
                request.note.tenant, request.note.user = who.tenant, who.user
                if not isinstance(who, ForwardedIdentity):  # the host in front has counted the request
                    self._rates.take(who.tenant)
                take_place(request, who)
                check_scope(row, who)
            call = await http_call(request, row, who, matched.session, self._limits)
            return http_response(await call.answered(function))
        except AgentrailError as error:
            return refusal(error, attempt, who.tenant, request.note.id)
