"""`OperationCall`: an operation that somebody wants, whoever brings it to the host."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias, TypeVar, cast

import trio
from attrs import field, frozen

from agentrail.api.body_parsing import check_media, command_of, read_body, read_query
from agentrail.api.limits import HostLimits
from agentrail.api.operation_table import BYTES, HostCall
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
from agentrail.host.requests.access_log import RequestNote
from agentrail.host.requests.http_messages import Body, Headers, HttpRequest, first_header
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.shared.ids import new_id
from agentrail.values.json import thaw

T = TypeVar("T")

COMMAND: Final = "idempotency-key"
"""Header with the command id of a call."""


@frozen
class Upload:
    """The body of a call that takes a file."""

    content: Body
    """The file, as it arrives."""
    media_type: str
    """The media type that its sender says; empty if there is none."""


@frozen
class OperationCall:
    """An operation that somebody wants. Each face of the host makes its calls of what its clients send."""

    row: HostCall
    """The operation."""
    who: Identity
    """Who wants it; nobody if it needs no key."""
    session: str
    """The id of the session that it is about, as it was sent; empty if it is about none."""
    limits: HostLimits
    _body: object = field(default=None, alias="body")
    """What it takes: an instance of the class that the row has for that, or an `Upload`; `None` if it takes nothing."""
    _query: object = field(default=None, alias="query")
    """How it is wanted: an instance of the class that the row has for that; `None` if it has none."""
    key: str | None = None
    """The command id that its sender has chosen; `None` if there is none."""
    headers: Headers = ()
    """The headers with which it came, for plugins, and for hosts to which it is passed on."""
    peer: str = ""
    """The IP address of the client; empty if it came from inside the host."""
    note: RequestNote = field(factory=RequestNote)
    """Facts for the log, with the id of the request."""
    gone: Callable[[], Awaitable[None]] = trio.sleep_forever
    """Returns when nobody waits for the answer any more."""
    is_on_socket: bool = False
    """Whether it came on a WebSocket."""
    watch: JournalWatch = field(factory=JournalWatch)
    """Ends the wait for the answer if the journal cannot write for the session of the call."""

    async def answered(self, carry_out: CallFunction) -> Answer:
        """Return the answer of *carry_out*; raise an error if the journal cannot write. See `JournalWatch`."""
        return await self.watch.answered(partial(carry_out, self))

    def body(self, _: type[T]) -> T:
        """Return what the call takes, of the class that the row has for it."""
        return cast("T", self._body)

    def query(self, _: type[T]) -> T:
        """Return how the call is wanted, of the class that the row has for it."""
        return cast("T", self._query)

    def header(self, name: str) -> str | None:
        """Return the first header with a *name* (in lower case); `None` if there is none."""
        return first_header(self.headers, name)

    @property
    def command(self) -> str | None:
        """The command id, if its sender chose one: each user has their own."""
        key = command_of(self.row, self.key)
        if key is None:
            return None
        return inner_command(self.who.user, key)

    @property
    def made_name(self) -> str:
        """A name for a new session whose user gives none; it derives from the command id, if there is one."""
        command = self.command
        return new_id() if command is None else name_of_command(command)

    def context(self, kind: RequestKind, session: str = "", agent: str | None = None) -> RequestContext:
        """Return the context of this call for host plugins; for one on a WebSocket, the kind is `ws`."""
        kind = "ws" if self.is_on_socket else kind
        # the id begins with the kind, so that it can be read from the records after a restart
        request = f"{kind}-{self.note.id}"
        return RequestContext(kind, self.who.tenant, self.who.user, session, agent or "", request)

    def view_answer(self, value: View, status: int | None = None, headers: Headers = ()) -> Shown:
        """Return an answer with *value* as its content."""
        return Shown(self.row.status if status is None else status, value, headers)

    def empty_answer(self) -> Shown:
        """Return the answer of a call that gives nothing back."""
        return Shown(self.row.status)

    def problem(self, error: AgentrailError) -> Problem:
        """Return the problem document of *error*, which is logged if it is for the operator."""
        return told_problem(error, self.row.attempt, self.who.tenant, self.note.id)


CallFunction: TypeAlias = Callable[[OperationCall], Awaitable[Answer]]
"""Carries out one call of the table."""


async def http_call(
    request: HttpRequest, row: HostCall, who: Identity, session: str, limits: HostLimits
) -> OperationCall:
    """Return the call of *row* that *who* makes with *request*; raise `AgentrailError` if it does not fit."""
    media_type = request.header("content-type") or ""
    body: object = None
    if row.takes == BYTES:
        body = Upload(request.body, media_type)
    elif row.body is not None:
        check_media(row, media_type)
        body = read_body(row, await request.body.read(limits.body_bytes), limits.json_depth)
    return OperationCall(
        row,
        who,
        session,
        limits,
        body,
        None if row.query is None else read_query(row, request.query),
        request.header(COMMAND),
        request.headers,
        request.peer,
        request.note,
        request.gone,
    )


def handled_answer(response: HandledResponse) -> Shown:
    """Return the response of a plugin as an answer; the plugin's headers replace the host's of the same name."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Shown(response.status, thaw(response.body), tuple(headers.items()))


async def running_session(sessions: HostedSessions, call: OperationCall) -> tuple[SessionName, SessionHandle]:
    """Return the session that *call* is about, which is brought back if need be, with a handle for its user."""
    name = sessions.name(call.row, call.who, call.session)
    return name, (await sessions.running(name, call.watch)).by(call.who.user)
