"""`AsgiAnswer`: sends the answer to one request by the `send` of an ASGI server."""

from __future__ import annotations

from typing import Final

import trio

from agentrail.api.limits import LEAST_RATE, HostLimits
from agentrail.host.asgi.asgi_scope import AsgiMessage, SendMessage
from agentrail.host.requests.answering import AnswerWriter
from agentrail.host.requests.http_messages import Headers, PeerGone

SEND_SIZE: Final = 64 * 1024
"""The most bytes of one event: a server may hold an event back until the client takes it."""

HTTP: Final = "http.response"
DENIAL: Final = "websocket.http.response"
"""Begins the types of the events with the answer to a request for a WebSocket that is not opened."""


class AsgiAnswer(AnswerWriter):
    """The sending side of one request."""

    __slots__ = ("_kind", "_limits", "_send_message", "_start")

    def __init__(self, send: SendMessage, limits: HostLimits, kind: str) -> None:
        super().__init__()
        self._send_message = send
        self._limits = limits
        self._kind = kind
        """Begins the types of its events: `HTTP` or `DENIAL`."""
        self._start: AsgiMessage | None = None
        """The event with the head, until the first piece is sent."""

    def begin(self, status: int, headers: Headers) -> None:
        """Begin the answer, whose head is sent with its first piece or its end."""
        self.status = status
        raw = [(name.lower().encode(), value.encode()) for name, value in headers]
        self._start = {"type": f"{self._kind}.start", "status": status, "headers": raw}

    async def piece(self, data: bytes) -> None:
        """Send a piece of the content, after which more will come."""
        await self._send(data, more_body=True)

    async def rest(self, content: bytes, *, is_end: bool) -> None:
        """Send the rest of the content, which the client has to take in time; it ends the answer if *is_end*."""
        seconds = self._limits.answer_seconds + len(content) / LEAST_RATE
        with trio.move_on_after(seconds) as scope:
            for at in range(0, max(len(content), 1), SEND_SIZE):
                more_body = not is_end or at + SEND_SIZE < len(content)
                await self._send(content[at : at + SEND_SIZE], more_body=more_body)
        if scope.cancelled_caught:
            raise PeerGone

    async def break_off(self) -> None:
        """If the head of a failed streamed answer is still unsent, send it, so that the client sees a cut answer."""
        if self._start is not None:
            await self.piece(b"")

    async def _send(self, data: bytes, *, more_body: bool) -> None:
        self.sent += len(data)
        start, self._start = self._start, None
        body: AsgiMessage = {"type": f"{self._kind}.body", "body": data, "more_body": more_body}
        for message in (body,) if start is None else (start, body):
            with trio.move_on_after(self._limits.write_seconds) as scope:
                try:
                    await self._send_message(message)
                except OSError as error:  # by the specification, a server may say so that the client has gone
                    raise PeerGone from error
            if scope.cancelled_caught:
                raise PeerGone
