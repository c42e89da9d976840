"""`Outbound`: sends the answers of a connection, each piece with a deadline."""

from __future__ import annotations

from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Final

import h11
import trio

from agentrail.errors import BadChoice, WrongType
from agentrail.host.http11.access_log import REQUEST_ID
from agentrail.host.http11.http_messages import OWNED, WITHOUT_CONTENT, HttpResponse, PeerGone
from agentrail.host.http11.receive_buffer import PIECE
from agentrail.host.http11.sending import sent_at_once
from agentrail.wire.limits import HostLimits

_PHRASES: Final = {status.value: status.phrase.encode() for status in HTTPStatus}


class DateHeader:
    """The value of the header `Date`, made once a second."""

    __slots__ = ("_now_ms", "_second", "_text")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._second = -1
        self._text = ""

    def text(self) -> str:
        """Return the date and time of now."""
        second = self._now_ms() // 1000
        if second != self._second:
            self._second, self._text = second, formatdate(second, usegmt=True)
        return self._text


class Outbound:
    """The sending side of a connection."""

    __slots__ = ("_cut", "_date", "_head", "_limits", "_machine", "_stream", "sent", "status")

    def __init__(self, stream: trio.abc.Stream, machine: h11.Connection, limits: HostLimits, date: DateHeader) -> None:
        self._stream = stream
        self._machine = machine
        self._limits = limits
        self._date = date
        self._cut = False
        self._head = b""  # of a streamed answer, until its first piece
        self.status = 0
        """Status of the current answer; 0 before it has begun."""
        self.sent = 0
        """Bytes of content that were sent for the current answer."""

    def prepared(self, response: HttpResponse, request: str, *, close: bool) -> h11.Response:
        """Return the head of the answer to the *request* of that id.

        Raise an exception of any class if the handler's *response* is not valid.
        """
        status, content = response.status, response.content
        headers = [*response.headers, ("date", self._date.text()), (REQUEST_ID, request)]
        if not OWNED.isdisjoint(name.lower() for name, _ in response.headers):
            raise BadChoice("headers", response.headers, "headers that the connection does not set")
        if status in WITHOUT_CONTENT:
            if content != b"":
                raise BadChoice("status", status, "those that have content")
        elif isinstance(content, bytes):
            headers.append(("content-length", str(len(content))))
        elif not callable(content):
            raise WrongType.of("content", content, "bytes or a function that streams")
        if status == HTTPStatus.UPGRADE_REQUIRED:
            headers += [("upgrade", "websocket"), ("connection", "upgrade")]
        if close:
            headers.append(("connection", "close"))
        return h11.Response(status_code=status, headers=headers, reason=_PHRASES.get(status, b""))

    async def answer(self, head: h11.Response, content: bytes, *, bare: bool) -> None:
        """Send a whole answer; without its content if it is *bare*."""
        data = self._begun(head)
        if content and not bare:
            self.sent = len(content)
            data += self._machine.send(h11.Data(data=content)) or b""
        data += self._machine.send(h11.EndOfMessage()) or b""
        await self._send(data)

    def begin(self, head: h11.Response) -> None:
        """Have the head of a streamed answer go out with its first piece, or with its end: a write costs 20 µs."""
        self._head = self._begun(head)

    async def piece(self, data: bytes) -> None:
        """Send a piece of a streamed answer."""
        if data:
            await self._send(self._piece(data))

    async def end(self, last: bytes = b"") -> None:
        """End a streamed answer with its *last* piece."""
        data = self._piece(last) if last else self._taken_head()
        await self._send(data + (self._machine.send(h11.EndOfMessage()) or b""))

    async def break_off(self) -> None:
        """Send the head of a streamed answer that has failed, if it was not sent: its client sees a cut answer."""
        if self._head:
            await self._send(self._taken_head())

    async def say_continue(self) -> None:
        """Tell the peer to send the body."""
        event = h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue")
        await self._send(self._machine.send(event) or b"")

    def _piece(self, data: bytes) -> bytes:
        self.sent += len(data)
        return self._taken_head() + (self._machine.send(h11.Data(data=data)) or b"")

    def _taken_head(self) -> bytes:
        head, self._head = self._head, b""
        return head

    def _begun(self, head: h11.Response) -> bytes:
        self.status = head.status_code
        return self._machine.send(head) or b""

    async def _send(self, data: bytes) -> None:
        if self._cut:
            raise PeerGone
        self._cut = True  # until all is sent: after half a piece, nothing may follow
        await trio.lowlevel.checkpoint_if_cancelled()
        first = sent_at_once(self._stream, data)
        if first == len(data):
            await trio.lowlevel.cancel_shielded_checkpoint()  # others have their turn
        for at in range(first, len(data), PIECE):
            with trio.move_on_after(self._limits.write_seconds) as scope:
                try:
                    await self._stream.send_all(data[at : at + PIECE])
                except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                    raise PeerGone from error
            if scope.cancelled_caught:
                raise PeerGone
        self._cut = False
