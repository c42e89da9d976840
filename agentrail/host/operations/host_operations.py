"""`HostOperations`: admits the calls of all faces of a host, and carries them out, until `HostDrain` says that it ends.

`Application`: the face of HTTP: finds the call of a request, and who makes it, and carries it out.

`PluginCalls`: carries out calls of the host for its plugins, in the name of the user whose request they handle.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from hashlib import sha256
from typing import Final, NamedTuple, Never, TypeAlias, cast

import trio
from attrs import evolve

from agentrail.api.body_parsing import body_of, query_of
from agentrail.api.limits import HostLimits
from agentrail.api.operation_table import CALLS, HostCall, match
from agentrail.api.problems import Problem
from agentrail.api.socket_frames import SOCKET_CALLS
from agentrail.api.views import to_plain
from agentrail.errors import AgentrailError, HostClosing, UsageError
from agentrail.errors.agentrail_error import cut
from agentrail.host.authentication.identity import (
    NOBODY,
    Authenticator,
    ForwardedIdentity,
    Identity,
    Rates,
    identified,
    take_slot,
)
from agentrail.host.authentication.key_watch import KeyWatch
from agentrail.host.error_responses import refusal
from agentrail.host.hosted_sessions import check_scope
from agentrail.host.operations.call import COMMAND, Answer, CallFunction, OperationCall, Shown, http_call, http_response
from agentrail.host.plugins.plugin_values import HandledResponse, Request
from agentrail.host.requests.http_messages import Handler, HttpRequest, HttpResponse, PeerGone, problem_answer
from agentrail.values.json import JsonObject


def functions_of(*groups: object) -> Mapping[str, CallFunction]:
    """Return those methods of *groups* that have the name of an operation, by this name."""
    return {
        name: cast("CallFunction", getattr(group, name)) for group in groups for name in CALLS if hasattr(group, name)
    }


class HostOperations:
    """The operations of a host. A face admits a call, reads what the call takes, and has it carried out."""

    def __init__(self, functions: Mapping[str, CallFunction], drain: HostDrain, limits: HostLimits) -> None:
        self.functions = functions
        """The function of each operation, by its name."""
        self.drain = drain
        self.limits = limits
        self._rates = Rates(limits)

    def check_open(self) -> None:
        """Raise `HostClosing` if the host takes no more calls, before anything is looked up for one."""
        if self.drain.has_begun:
            raise HostClosing

    def count(self, who: Identity) -> None:
        """Count a call of *who*, or a handshake; raise `TooManyRequests` if their tenant makes too many."""
        self._rates.take(who.tenant)

    def admit(self, row: HostCall, who: Identity, *, is_counted: bool = False) -> None:
        """Count a call of *row* that *who* makes, unless it *is_counted*; raise an error if *who* may not make it."""
        if not is_counted:
            self.count(who)
        check_scope(row, who)

    async def carry_out(self, call: OperationCall) -> Answer:
        """Return the answer to *call*; raise an error if the journal cannot write for its session."""
        return await call.watch.answered(partial(self.functions[call.row.name], call))


TALKS: Final = frozenset({"chat", "stream", "prompt", "steer"})
"""Calls that go through the plugins themselves, so that one of them would wait for itself."""


class PluginCalls:
    """Carries out calls of the host for its plugins."""

    def __init__(self, operations: HostOperations) -> None:
        self._operations = operations

    async def carry_out(self, name: str, plugin_request: Request, body: JsonObject) -> HandledResponse | None:
        """Carry out the call *name* about the session of *request*; `None` if plugins cannot make it."""
        row = CALLS.get(name)
        if row is None or name in TALKS or name not in SOCKET_CALLS:
            return None
        who, session = plugin_request.identity, plugin_request.context.session_id
        call = OperationCall(row, who, session, self._operations.limits, key=_key(plugin_request, name))
        try:
            check_scope(row, who)
            content = None if row.body is None else body_of(row, body)
            query = None if row.query is None else query_of(row, ())
            answer = await self._operations.carry_out(evolve(call, body=content, query=query))
        except AgentrailError as error:
            answer = call.problem(error)
        return _handled_response(answer)


def _handled_response(answer: Answer) -> HandledResponse | None:
    """Return *answer* as plugins get it; `None` if it is a stream."""
    if isinstance(answer, Problem):
        problem = problem_answer(answer)
        return HandledResponse(answer.status, to_plain(answer.document), dict(problem.headers))
    if not isinstance(answer, Shown):
        return None
    return HandledResponse(answer.status, answer.plain, dict(answer.all_headers))


def _key(plugin_request: Request, name: str) -> str | None:
    """Return the command id of the call *name*: if the request has one, one that derives from it and from *name*."""
    key = plugin_request.header(COMMAND)
    return None if key is None else sha256(f"{name} {key}".encode()).hexdigest()


ACCEPTING: Final = "accepting"
"""The check of `/readyz` that says whether the host takes requests."""


class HostDrain:
    """Two events: `begin` refuses new requests, so that sessions can be parked; `end` ends the open connections."""

    def __init__(self) -> None:
        self.when_over: list[Callable[[], None]] = []
        """Functions that `end` calls."""
        self.has_begun = False
        """Whether requests are refused."""

    def begin(self) -> None:
        """Refuse requests from now on."""
        self.has_begun = True

    def end(self) -> None:
        """End open streams and WebSockets; their clients continue with the next process."""
        self.begin()
        for tell in self.when_over:
            tell()


ATTEMPT: Final = "answer the request"

MCP_PATH: Final = "/v1/mcp"
"""Where a host is an MCP server. It is no row of the table of calls: what comes there is a protocol of its own."""

FaceAnswer: TypeAlias = Callable[
    [HttpRequest, Identity, Callable[[], Awaitable[AgentrailError]]], Awaitable[HttpResponse]
]
"""Answers a request of another protocol for who sends it; the function returns when their key does not count any more.
"""


class FaceRoute(NamedTuple):
    """Where a request leads that is for another protocol than that of the table of calls."""

    path: str
    """Path of the face."""
    answer: FaceAnswer
    needs_key: bool = True
    """Whether its sender has to have a key."""


def no_face(_path: str) -> FaceRoute | None:
    """Return `None`: the host has no faces."""


class Application:
    """Answers each request by the operation that its route names.

    *pages* answer what there is over HTTP alone: they take the request itself. *names* are those of what is answered.
    """

    def __init__(
        self,
        operations: HostOperations,
        pages: Mapping[str, Handler],
        authenticator: Authenticator,
        keys: KeyWatch,
        names: Collection[str] = CALLS,
    ) -> None:
        self.operations = operations
        """What it answers with."""
        self.find_face: Callable[[str], FaceRoute | None] = no_face
        """Finds the face for the path of a request; `None` if it is for a call of the table."""
        self._pages = pages
        self._authenticator = authenticator
        self._keys = keys
        """Looks at the keys of requests that take long."""
        self._names = names

    def with_routes(self, names: Collection[str]) -> Application:
        """Return the application that answers only the calls of these *names*."""
        other = Application(self.operations, self._pages, self._authenticator, self._keys, names)
        other.find_face = self.find_face
        return other

    async def answer(self, request: HttpRequest) -> HttpResponse:
        """Return the answer to a request: what its call gives, or a problem document."""
        attempt, who = ATTEMPT, NOBODY
        try:
            face = self.find_face(request.path)
            if face is not None:
                return await self._answer_face(request, face)
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
                take_slot(request, who)
            call = await http_call(request, matched, who, self.operations.limits)
            return http_response(await self._carry_out(call, request))
        except AgentrailError as error:
            return refusal(error, attempt, who.tenant, request.note.id)

    async def _answer_face(self, request: HttpRequest, face: FaceRoute) -> HttpResponse:
        """Return the answer of a face to a request; raise an error if it needs a key, and that does not count."""
        request.note.route = request.method, face.path
        self.operations.check_open()
        if not face.needs_key:
            request.slot.settle()
            return await face.answer(request, NOBODY, _wait_for_no_key)
        who = await identified(self._authenticator, request)
        request.note.tenant, request.note.user = who.tenant, who.user
        self.operations.count(who)
        take_slot(request, who)
        return await face.answer(request, who, partial(self._keys.refusal, who, request.headers))

    async def _carry_out(self, call: OperationCall, request: HttpRequest) -> Answer:
        """Return the answer to *call*; raise the refusal if its key is withdrawn while it is waited for."""
        refusals: list[AgentrailError] = []

        async def wait_gone() -> None:
            async with trio.open_nursery() as nursery:  # noqa: TID251 - each task ends with the other one

                async def watch_key() -> None:
                    refusals.append(await self._keys.refusal(call.who, request.headers))
                    nursery.cancel_scope.cancel()

                nursery.start_soon(watch_key)
                await request.wait_gone()
                nursery.cancel_scope.cancel()

        try:
            return await self.operations.carry_out(
                call if call.row.scope is None else evolve(call, wait_gone=wait_gone)
            )
        except PeerGone:
            if refusals:
                raise refusals[0] from None
            raise


async def _wait_for_no_key() -> Never:
    """Wait for ever: a request without a key has none that could be withdrawn."""
    await trio.sleep_forever()
