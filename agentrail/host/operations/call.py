"""`OperationCall`: an operation that somebody wants, whoever brings it to the host.

What the function of an operation returns: a value, a stream, or a problem. Each face of a host writes it in its way.

A face is a way in: HTTP, a WebSocket, a plugin, AG-UI, another host.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, TypeVar, cast

import msgspec
import trio
from attrs import field, frozen

from agentrail.api.body_parsing import check_media, command_of, read_body, read_query
from agentrail.api.limits import HostLimits
from agentrail.api.operation_table import BYTES, JSON, HostCall, Matched
from agentrail.api.problems import MEDIA_TYPE, Problem
from agentrail.api.public_ids import SessionName, inner_command, name_of_command
from agentrail.api.sse_frames import MEDIA_TYPE as STREAM
from agentrail.api.views import View, to_json, to_plain
from agentrail.errors import AgentrailError
from agentrail.host.authentication.identity import Identity
from agentrail.host.error_responses import told_problem
from agentrail.host.hosted_sessions import HostedSessions, JournalWatch
from agentrail.host.plugins.plugin_values import NO_BODY, HandledResponse, RequestContext, RequestKind
from agentrail.host.requests.access_log import RequestNote
from agentrail.host.requests.http_messages import (
    Body,
    Headers,
    HttpRequest,
    HttpResponse,
    Streaming,
    first_header,
    hold_nothing,
    problem_answer,
)
from agentrail.runtime.handle import SessionHandle
from agentrail.runtime.shared.ids import new_id
from agentrail.values.json import Json, thaw

NO_STORE: Final = ("cache-control", "no-store")
OF_JSON: Final[Headers] = (("content-type", JSON), NO_STORE)
STREAMED: Final[Headers] = (("content-type", STREAM), NO_STORE, ("x-accel-buffering", "no"))
"""Headers of a stream of events; the last one keeps a proxy from holding it back."""


@frozen
class Shown:
    """An answer with a value that is written as JSON, which no cache may keep."""

    status: int
    """Status of the response over HTTP; one of `NO_BODY` if there is no value."""
    value: object = None
    """A view, plain JSON, or `msgspec.Raw` with the JSON of another host."""
    headers: Headers = ()
    """Further headers; they replace those that such an answer has by itself."""

    @property
    def content(self) -> bytes:
        """The value as JSON; empty if there is none."""
        return b"" if self.status in NO_BODY else to_json(self.value)

    @property
    def plain(self) -> Json:
        """The value as plain dicts, lists, texts and numbers."""
        value = self.value
        return cast("Json", msgspec.json.decode(value)) if isinstance(value, msgspec.Raw) else to_plain(value)

    @property
    def all_headers(self) -> Headers:
        """All headers, as they are sent over HTTP."""
        usual_headers: Headers = (NO_STORE,) if self.status in NO_BODY else OF_JSON
        return usual_headers if not self.headers else tuple((dict(usual_headers) | dict(self.headers)).items())

    @property
    def is_problem(self) -> bool:
        """Whether the value is a problem document."""
        return ("content-type", MEDIA_TYPE) in self.headers


@frozen
class ShownText:
    """An answer with a text that is no JSON."""

    text: str
    media_type: str


@frozen
class Streamed:
    """An answer that is a stream of events."""

    write: Streaming
    """Sends the events."""
    abandon: Callable[[], None] = hold_nothing
    """Called when nothing more is done with the answer: a stream that was never written lets go of what it holds."""


@frozen
class SentFile:
    """An answer that is a file, or says that its client has it."""

    status: int
    headers: Headers
    content: bytes | Streaming = b""
    """What sends the pieces of the file; no bytes if its client has it."""


Answer: TypeAlias = Shown | ShownText | Streamed | SentFile | Problem
"""What the function of an operation returns."""


def http_response(answer: Answer) -> HttpResponse:
    """Return *answer* as it is sent over HTTP."""
    match answer:
        case Streamed():
            return HttpResponse(200, STREAMED, answer.write, answer.abandon)
        case Shown():
            return HttpResponse(answer.status, answer.all_headers, answer.content)
        case Problem():
            return problem_answer(answer)
        case SentFile():
            return HttpResponse(answer.status, answer.headers, answer.content)
        case ShownText():
            return HttpResponse(200, (("content-type", answer.media_type), NO_STORE), answer.text.encode())


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
    wait_gone: Callable[[], Awaitable[None]] = trio.sleep_forever
    """Returns when nobody waits for the answer any more."""
    is_on_socket: bool = False
    """Whether it came on a WebSocket."""
    watch: JournalWatch = field(factory=JournalWatch)
    """Ends the wait for the answer if the journal cannot write for the session of the call."""

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


AT_ONCE: Final = 16 * 1024
"""The most bytes of a body that is read in the event loop; a larger one may take 30 ms, and is read in a thread."""

CallFunction: TypeAlias = Callable[[OperationCall], Awaitable[Answer]]
"""Carries out one call of the table."""


async def http_call(request: HttpRequest, matched: Matched, who: Identity, limits: HostLimits) -> OperationCall:
    """Return the call that *who* makes with *request*, whose route is *matched*; raise an error if it does not fit."""
    row = matched.route.call
    media_type = request.header("content-type") or ""
    body: object = None
    if row.takes == BYTES:
        body = Upload(request.body, media_type)
    elif row.body is not None:
        check_media(row, media_type)
        content = await request.body.read(limits.body_bytes)
        if len(content) <= AT_ONCE:
            body = read_body(row, content, limits.json_depth)
        else:
            body = await trio.to_thread.run_sync(read_body, row, content, limits.json_depth)
    return OperationCall(
        row,
        who,
        matched.session,
        limits=limits,
        body=body,
        query=None if row.query is None else read_query(row, request.query, matched.fields),
        key=request.header(COMMAND),
        headers=request.headers,
        peer=request.peer,
        note=request.note,
        wait_gone=request.wait_gone,
    )


def handled_answer(response: HandledResponse) -> Shown:
    """Return the response of a plugin as an answer; the plugin's headers replace the host's of the same name."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Shown(response.status, thaw(response.body), tuple(headers.items()))


async def running_session(sessions: HostedSessions, call: OperationCall) -> tuple[SessionName, SessionHandle]:
    """Return the session that *call* is about, which is brought back if need be, with a handle for its user."""
    name = sessions.name(call.row, call.who, call.session)
    return name, (await sessions.running(name, call.watch)).by(call.who.user)
