"""`CallRequest`: one request for a call of the table, with the identity of its sender."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias, TypeVar, cast

from attrs import field, frozen

from agentrail.api.body_parsing import check_media, command_of, read_body, read_query
from agentrail.api.limits import HostLimits
from agentrail.api.operation_table import HostCall
from agentrail.api.problems import Problem
from agentrail.api.public_ids import SessionName, inner_command, name_of_command
from agentrail.api.views import View
from agentrail.errors import AgentrailError
from agentrail.host.authentication.identity import Identity
from agentrail.host.error_responses import told_problem
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.host.journal_watch import JournalWatch
from agentrail.host.operations.answers import Answer, Shown
from agentrail.host.plugins.plugin_values import HandledResponse, RequestContext, RequestKind
from agentrail.host.requests.http_messages import Headers, HttpRequest
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.shared.ids import new_id
from agentrail.values.json import thaw

T = TypeVar("T")


@frozen
class CallRequest:
    """A request for one call."""

    http: HttpRequest
    call: HostCall
    who: Identity
    """Who makes it; of a call that needs no key, nobody."""
    session: str
    """The id of the session in the path, as it was sent; empty if the path has none."""
    limits: HostLimits
    on_socket: bool = False
    """Whether it came on a WebSocket, and not as a request of its own."""
    watch: JournalWatch = field(factory=JournalWatch)
    """Ends the wait for the answer if the journal cannot write for the session of the request."""

    async def answered(self, carry_out: CallFunction) -> Answer:
        """Return the answer of *carry_out*; raise an error if the journal cannot write. See `JournalWatch`."""
        return await self.watch.answered(partial(carry_out, self))

    async def body(self, _: type[T]) -> T:
        """Return the body of the request, of the class that the table has for the call."""
        check_media(self.call, self.http.header("content-type") or "")
        content = await self.http.body.read(self.limits.body_bytes)
        return cast("T", read_body(self.call, content, self.limits.json_depth))

    def query(self, _: type[T]) -> T:
        """Return the query of the request, of the class that the table has for the call."""
        return cast("T", read_query(self.call, self.http.query))

    @property
    def command(self) -> str | None:
        """The command id of the request, if its sender gave one: each user has their own."""
        key = command_of(self.call, self.http.header("idempotency-key"))
        if key is None:
            return None
        return inner_command(self.who.user, key)

    @property
    def made_name(self) -> str:
        """A name for a new session whose user gives none; it derives from the command id, if there is one."""
        command = self.command
        return new_id() if command is None else name_of_command(command)

    def context(self, kind: RequestKind, session: str = "", agent: str | None = None) -> RequestContext:
        """Return the context of this request for host plugins; for one on a WebSocket, the kind is `ws`."""
        kind = "ws" if self.on_socket else kind
        # the id begins with the kind, so that it can be read from the records after a restart
        request = f"{kind}-{self.http.note.id}"
        return RequestContext(kind, self.who.tenant, self.who.user, session, agent or "", request)

    def shown(self, value: View, status: int | None = None, headers: Headers = ()) -> Shown:
        """Return an answer with *value* as its content."""
        return Shown(self.call.status if status is None else status, value, headers)

    def done(self) -> Shown:
        """Return the answer of a call that gives nothing back."""
        return Shown(self.call.status)

    def problem(self, error: AgentrailError) -> Problem:
        """Return the problem document of *error*, which is logged if it is for the operator."""
        return told_problem(error, self.call.attempt, self.who.tenant, self.http.note.id)


def handled_answer(response: HandledResponse) -> Shown:
    """Return the response of a plugin as an answer; the plugin's headers replace the host's of the same name."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Shown(response.status, thaw(response.body), tuple(headers.items()))


CallFunction: TypeAlias = Callable[[CallRequest], Awaitable[Answer]]
"""Carries out one call of the table."""


async def running_session(sessions: HostedSessions, request: CallRequest) -> tuple[SessionName, SessionHandle]:
    """Return the session in the path of *request*, which is brought back if need be, with a handle for its user."""
    name = sessions.name(request.call, request.who, request.session)
    return name, (await sessions.running(name, request.watch)).by(request.who.user)
