"""Calls the handler of a server, and checks its answer: a handler that fails, whatever it raises, ends no server."""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Final

import trio

from agentrail.api.problems import INTERNAL, problem_of
from agentrail.errors import BadChoice, BodyTooLarge, OriginRefused, WrongType
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.requests.access_log import RequestNote, told_target
from agentrail.host.requests.http_messages import (
    OWNED,
    WITHOUT_CONTENT,
    Handler,
    Headers,
    HttpRequest,
    HttpResponse,
    PeerGone,
    Streaming,
    Upgrade,
    problem_answer,
)
from agentrail.host.requests.refusals import HttpRefusal
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
    """Runs what streams an answer, until that ends or the peer has gone."""

    def __init__(
        self, writer: AnswerWriter, gone: Callable[[], Awaitable[None]], late: DelayedTasks, note: RequestNote
    ) -> None:
        self._writer = writer
        self._gone = gone
        """Returns when the peer has gone."""
        self._late = late
        self._note = note
        self._scope = trio.CancelScope()
        self._has_ended = False

    async def run(self, streaming: Streaming) -> bytes | None:
        """Run *streaming*, which sends the pieces of an answer, and return the last piece.

        Raise `PeerGone` if the peer goes away, or if *streaming* fails: the answer is cut.
        """
        failed: list[BaseException] = []
        last: bytes | None = None
        with self._scope:
            async with self._late.beside(self._watch):
                with Contained(failed.append):
                    last = await streaming(self._send)
                    self._has_ended = True
        if failed:
            internal_error(failed[0], self._note)
            await self._writer.break_off()
        if not self._has_ended:
            raise PeerGone
        return last

    async def _send(self, data: bytes) -> None:
        if self._has_ended:  # a task that has outlived its answer would write into the next one
            raise trio.ClosedResourceError
        try:
            await self._writer.piece(data)
        except PeerGone:
            self._scope.cancel()
            await trio.lowlevel.checkpoint()

    async def _watch(self) -> None:
        await self._gone()
        self._scope.cancel()
