"""`AsgiAnswer`: sends the answer to one request by the `send` of an ASGI server."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import trio

from agentrail.api.limits import LEAST_RATE, HostLimits
from agentrail.host.asgi.asgi_scope import SendMessage
from agentrail.host.requests.access_log import REQUEST_ID, RequestNote
from agentrail.host.requests.http_messages import WITHOUT_CONTENT, HttpResponse, PeerGone

SEND_SIZE: Final = 64 * 1024
"""The most bytes of one event: a server may hold an event back until the client takes it."""

HTTP: Final = "http.response"
DENIAL: Final = "websocket.http.response"
"""Begins the types of the events with the answer to a request for a WebSocket that is not opened."""


class AsgiAnswer:
    """The sending side of one request. A client that takes nothing for too long counts as gone."""

    def __init__(self, send: SendMessage, limits: HostLimits, kind: str = HTTP) -> None:
        self._send_message = send
        self._limits = limits
        self._kind = kind
        self.status = 0
        """Status of the answer; 0 before it has begun."""
        self.sent = 0
        """Bytes of content that were sent."""

    async def begin(self, response: HttpResponse, note: RequestNote, *, upgrades: bool, closes: bool) -> None:
        """Send the head. With *upgrades*, the client speaks a version of HTTP that has the header `Upgrade`.

        With *closes*, the server is told to close the connection of such a client after the answer.
        """
        pairs = [*response.headers, (REQUEST_ID, note.id)]
        if isinstance(response.content, bytes) and response.status not in WITHOUT_CONTENT:
            pairs.append(("content-length", str(len(response.content))))
        if response.status == HTTPStatus.UPGRADE_REQUIRED and upgrades:
            pairs += [("upgrade", "websocket"), ("connection", "upgrade")]
        elif closes and upgrades:
            pairs.append(("connection", "close"))
        self.status = int(response.status)
        headers = [(name.lower().encode(), value.encode()) for name, value in pairs]
        await self._send({"type": f"{self._kind}.start", "status": self.status, "headers": headers})

    async def whole(self, content: bytes) -> None:
        """Send the whole content, which the client has to take in time; `end` has to follow."""
        pieces = [content[at : at + SEND_SIZE] for at in range(0, len(content), SEND_SIZE)]
        seconds = self._limits.answer_seconds + len(content) / LEAST_RATE
        with trio.move_on_after(seconds) as scope:
            for piece in pieces:
                await self.piece(piece)
        if scope.cancelled_caught:
            raise PeerGone

    async def piece(self, data: bytes) -> None:
        """Send a piece of the content, after which more will come."""
        self.sent += len(data)
        await self._send({"type": f"{self._kind}.body", "body": data, "more_body": True})

    async def end(self, last: bytes = b"") -> None:
        """Send the last piece of the content."""
        self.sent += len(last)
        await self._send({"type": f"{self._kind}.body", "body": last, "more_body": False})

    async def _send(self, message: dict[str, object]) -> None:
        with trio.move_on_after(self._limits.write_seconds) as scope:
            try:
                await self._send_message(message)
            except OSError as error:  # by the specification, a server may say so that the client has gone
                raise PeerGone from error
        if scope.cancelled_caught:
            raise PeerGone
