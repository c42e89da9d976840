"""`RequestExchange`: answers requests, whichever server reads them and sends the answers.

Calls the handler of a server, and checks its answer: a handler that fails, whatever it raises, ends no server.
"""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import lru_cache
from http import HTTPStatus
from typing import Final, Protocol, TypeAlias

import trio

from agentrail.api.limits import HostLimits
from agentrail.api.problems import INTERNAL, problem_of
from agentrail.errors import BadChoice, BodyTooLarge, OriginRefused, WrongType
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.requests.access_log import REQUEST_ID, RequestNote, tell_request, told_target
from agentrail.host.requests.connection_slots import HEALTH, ConnectionSlot, ConnectionSlots, ConnectionState
from agentrail.host.requests.http_messages import (
    OWNED,
    WITHOUT_CONTENT,
    Handler,
    Headers,
    HttpRequest,
    HttpResponse,
    MessageSocket,
    PeerGone,
    ReceivedBody,
    Streaming,
    Upgrade,
    problem_answer,
)
from agentrail.host.requests.proxies import Proxies
from agentrail.host.requests.refusals import CLOSED_FOR_ANOTHER, HttpRefusal
from agentrail.host.requests.request_checks import RequestHead
from agentrail.runtime.shared.untrusted_calls import Contained, tell

log = logging.getLogger("agentrail.http")

_FINAL: Final = range(200, 1000)
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE: Final = re.compile(r"(?:[!-~]+(?:[ \t]+[!-~]+)*)?")


async def call_handler(handler: Handler, request: HttpRequest) -> HttpResponse:
    """Return the handler's answer; if the handler raises, an answer with the problem document of the exception.

    Raise `PeerGone` if the peer has gone.
    """
    failed: list[BaseException] = []
    with Contained(failed.append):
        return _checked(await handler(request), request)
    match failed[0]:
        case HttpRefusal() as refusal:
            return problem_answer(refusal.problem)
        case BodyTooLarge() | OriginRefused() as error:
            return problem_answer(problem_of(error, "read the request"))
        case PeerGone() as gone:
            raise gone
        case error:
            return internal_error(error, request.note)


def internal_error(error: BaseException, note: RequestNote) -> HttpResponse:
    """Log that the handler failed with *error*, and return the answer that says no more than that."""
    method, target = note.line
    words = "the handler of %s %s failed (request %s)"
    tell(log, error, words, method, told_target(target), note.id, words=False)
    return problem_answer(INTERNAL)


def _checked(response: HttpResponse, request: HttpRequest) -> HttpResponse:
    """Return *response*; raise an exception of any class if it is not valid, as a handler may return anything."""
    status, content = response.status, response.content
    if isinstance(content, Upgrade):
        if request.upgrade_problem:
            raise BadChoice("content", "Upgrade", "others for a request that asks for no upgrade")
        return response
    if status not in _FINAL:
        raise BadChoice("status", status, "those of an answer, 200 to 999")
    if status in WITHOUT_CONTENT:
        if content != b"":
            raise BadChoice("status", status, "those that have content")
    elif not isinstance(content, bytes) and not callable(content):
        raise WrongType.of("content", content, "bytes or a function that streams")
    _check_headers(response.headers)
    return response


@lru_cache(64)
def _check_headers(headers: Headers) -> None:
    """Raise `BadChoice` if a header cannot be sent; most answers have one of a few sets of headers."""
    if not OWNED.isdisjoint([name.lower() for name, _ in headers]):
        raise BadChoice("headers", headers, "headers that the connection does not set")
    for name, value in headers:
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise BadChoice("headers", (name, value), "headers of visible ASCII characters")


class AnswerWriter(ABC):
    """Sends answers one after the other. A client that takes nothing for too long counts as gone."""

    __slots__ = ("sent", "status")

    def __init__(self) -> None:
        self.status = 0
        """Status of the current answer; 0 before it has begun."""
        self.sent = 0
        """Bytes of content that were sent for the current answer."""

    @abstractmethod
    async def piece(self, data: bytes) -> None:
        """Send a piece of the answer, the first one with its head; raise `PeerGone` if that cannot be."""

    @abstractmethod
    async def break_off(self) -> None:
        """If the head of a failed streamed answer is still unsent, send it, so that the client sees a cut answer."""


class StreamedAnswer:
    """Runs what streams an answer, until that ends or is ended, or the peer has gone; by it the pieces are sent."""

    def __init__(
        self, writer: AnswerWriter, wait_gone: Callable[[], Awaitable[None]], late: DelayedTasks, note: RequestNote
    ) -> None:
        self._writer = writer
        self._wait_gone = wait_gone
        """Returns when the peer has gone."""
        self._late = late
        self._note = note
        self._scope = trio.CancelScope()
        self._last: bytes | None = None
        """The last piece, if the stream was ended; `None` if it was not."""
        self._is_sending = self._is_gone = self._has_ended = False

    async def run(self, streaming: Streaming) -> bytes | None:
        """Run *streaming*, which sends the pieces of an answer, and return the last piece.

        Raise `PeerGone` if the peer goes away, or if *streaming* fails: the answer is cut.
        """
        failed: list[BaseException] = []
        last: bytes | None = None
        with self._scope:
            async with self._late.beside(self._watch):
                with Contained(failed.append):
                    last = await streaming(self)
                    self._has_ended = True
        if self._has_ended:
            return last
        if failed:
            internal_error(failed[0], self._note)
            await self._writer.break_off()
        elif self._last is not None and not self._is_gone:
            return self._last
        raise PeerGone

    async def __call__(self, data: bytes) -> None:
        """Send a piece."""
        if self._has_ended:  # a task that has outlived its answer would write into the next one
            raise trio.ClosedResourceError
        if self._last is not None:
            await trio.lowlevel.checkpoint()  # cancelled here: the next checkpoint would be in the middle of the piece
        self._is_sending = True
        try:
            await self._writer.piece(data)
        except PeerGone:
            self._lose()
            await trio.lowlevel.checkpoint()
        self._is_sending = False
        if self._last is not None:
            self._scope.cancel()

    def end(self, last: bytes = b"") -> None:
        """End the stream with *last*; if a piece is being sent, after that piece. No-op if it was ended."""
        if self._last is None:
            self._last = last
            if not self._is_sending:
                self._scope.cancel()

    async def _watch(self) -> None:
        await self._wait_gone()
        self._lose()

    def _lose(self) -> None:
        """Give up: the peer has gone."""
        self._is_gone = True
        self._scope.cancel()


OnAnswer: TypeAlias = Callable[[RequestNote, int, float], object]
"""Is called when an answer begins: with the request's note, its status, and the seconds since the request came.

Status 0: the client went away before.
"""


class ExchangeServer(Protocol):
    """What the exchanges of a server share."""

    limits: HostLimits
    proxies: Proxies
    slots: ConnectionSlots
    late: DelayedTasks
    """Runs what watches the clients of streamed answers."""
    on_answer: OnAnswer


class RequestExchange(ABC):
    """Answers requests one after the other; subclasses read them and send the answers."""

    __slots__ = (
        "_began",
        "_client",
        "_handler",
        "_is_counted",
        "_note",
        "_scope",
        "_server",
        "_writer",
        "peer",
        "slot",
    )

    def __init__(
        self,
        server: ExchangeServer,
        handler: Handler,
        peer: str,
        writer: AnswerWriter,
        state: ConnectionState = ConnectionState.SILENT,
    ) -> None:
        self._server = server
        self._handler = handler
        self._writer = writer
        self.peer = self._client = peer
        """Address of the peer; that of the client is another one behind a proxy."""
        self.slot = ConnectionSlot(server.slots, state)
        """The slot of the connection among those of the server."""
        self._note = RequestNote()
        self._is_counted = False
        """Whether the answer to the current request was reported to the server."""
        self._began = trio.current_time()
        self._scope: trio.CancelScope | None = None
        """Scope of the current request, or of what follows its answer; `None` before the first one."""

    @abstractmethod
    def has_unread(self) -> bool:
        """Whether something has come on the connection that is not read yet."""

    def end(self, refusal: HttpRefusal) -> None:  # noqa: ARG002 - it is that of the slot
        """End the connection for another one; a request that has come just now is refused, not lost."""
        if self._scope is not None:
            self._scope.cancel()

    @abstractmethod
    async def _read(self) -> tuple[RequestHead, ReceivedBody]:
        """Read the head of the next request, and `_know` its client; raise `HttpRefusal` if it is not valid."""

    @abstractmethod
    def _upgrade_problem(self) -> str:
        """Return why the request opens no WebSocket; no text if it does."""

    @abstractmethod
    def _socket(self, upgrade: Upgrade, headers: Headers) -> MessageSocket:
        """Return the WebSocket that the request opens; *headers* are those of the answer to its handshake."""

    @abstractmethod
    def _begin(self, response: HttpResponse, *, is_unread: bool) -> bool:
        """Begin the answer; return whether another request may follow.

        With *is_unread*, the client may still send what would be taken for that.
        """

    @abstractmethod
    async def _end(self, last: bytes, *, is_unread: bool) -> None:
        """Send the last piece of the answer. With *is_unread*, receive more for a while, so that the client gets it."""

    async def _serve_one(self, note: RequestNote) -> bool:
        """Answer a request, count it and log it; return whether another may follow."""
        self._began, self._is_counted = trio.current_time(), False
        self._client, self._note = self.peer, note
        writer = self._writer
        writer.status = writer.sent = 0
        try:
            with trio.CancelScope() as self._scope:
                return await self._answer_request()
            if writer.status:
                return False
            raise self.slot.closed_by or HttpRefusal(CLOSED_FOR_ANOTHER)
        except HttpRefusal as refusal:
            self._count(refusal.problem.status)
            await self._refuse(refusal)
            return False
        finally:
            self.slot.free()
            if not self._is_counted:
                self._count(0)
            seconds = trio.current_time() - self._began
            tell_request(self._client, writer.status, writer.sent, seconds, self._note)

    async def _refuse(self, refusal: HttpRefusal) -> None:
        """Answer with *refusal*, after which the connection ends."""
        self._begin(problem_answer(refusal.problem), is_unread=True)
        await self._end(refusal.problem.content, is_unread=True)

    def _know(self, headers: Headers) -> None:
        """Note who sends the request with *headers*, and its id if a proxy has given it one."""
        proxies = self._server.proxies
        self._client = proxies.client(self.peer, headers)
        self._note.id = proxies.request_id(self.peer, headers) or self._note.id

    def _count(self, status: int) -> None:
        """Report the *status* of the request's answer to the server. No-op if it was reported already."""
        if not self._is_counted:
            self._is_counted = True
            self._server.on_answer(self._note, status, trio.current_time() - self._began)

    async def _answer_request(self) -> bool:
        """Read a request, call the handler, and send its answer; return whether another request may follow."""
        if self.slot.closed_by is not None:
            raise self.slot.closed_by
        head, body = await self._read()
        is_bare = head.method == "HEAD"
        self.slot.state = ConnectionState.HEALTH if head.path in HEALTH else ConnectionState.ASKING
        request = HttpRequest(
            "GET" if is_bare else head.method,
            head.path,
            head.query,
            head.headers,
            self._client,
            body,
            body.wait_gone,
            self._upgrade_problem(),
            self._note,
            self.slot,
        )
        response = await call_handler(self._handler, request)
        self.slot.state = ConnectionState.UNDER_WAY if isinstance(response.content, Upgrade) else ConnectionState.TAKING
        try:
            return await self._send(response, body, is_bare=is_bare)
        finally:
            response.abandon()

    async def _send(self, response: HttpResponse, body: ReceivedBody, *, is_bare: bool) -> bool:
        """Send the answer, if *is_bare* without its content; return whether another request may follow."""
        content = response.content
        if isinstance(content, Upgrade):
            self._count(response.status)
            await self._converse(response, content)
            return False
        is_unread = body.leave()
        may_follow = self._begin(response, is_unread=is_unread)
        self._count(response.status)
        if is_bare:
            last = b""
        elif isinstance(content, bytes):
            last = content
        else:
            # a body that is not read yet may still be read by what streams the answer, and only one task may
            wait_gone = trio.sleep_forever if is_unread else body.wait_gone
            last = await StreamedAnswer(self._writer, wait_gone, self._server.late, self._note).run(content) or b""
        await self._end(last, is_unread=is_unread)
        return may_follow and self.slot.closed_by is None

    async def _converse(self, response: HttpResponse, upgrade: Upgrade) -> None:
        """Open the WebSocket that the request asks for; return when the conversation on it has ended."""
        self._writer.status = response.status
        socket = self._socket(upgrade, (*response.headers, (REQUEST_ID, self._note.id)))
        failed: list[BaseException] = []
        with Contained(failed.append):
            await upgrade.converse(socket)
        self._writer.sent = socket.sent
        if failed:
            internal_error(failed[0], self._note)


def sent_headers(response: HttpResponse, server_headers: Headers, *, closes: bool) -> Headers:
    """Return the headers of *response*, *server_headers*, and those of the connection, which it *closes* or not."""
    headers = [*response.headers, *server_headers]
    if isinstance(response.content, bytes) and response.status not in WITHOUT_CONTENT:
        headers.append(("content-length", str(len(response.content))))
    if response.status == HTTPStatus.UPGRADE_REQUIRED:
        headers += [("upgrade", "websocket"), ("connection", "upgrade")]
    if closes:
        headers.append(("connection", "close"))
    return tuple(headers)
