"""`ClientHandshake`: makes the request for a WebSocket, and reads the response, without I/O."""

from __future__ import annotations

import base64
import secrets
from typing import Final

import h11

from agentrail.api import problems
from agentrail.api.socket_frames import PATH, SUBPROTOCOL, USER
from agentrail.api.websocket_protocol import VERSION, accepted_key
from agentrail.errors import BadText
from agentrail.remote.transport.host_address import HostAddress, HostKey
from agentrail.remote.transport.host_frames import RefusalFrame, read_host_frame
from agentrail.values.json import JsonObject
from agentrail.values.value import Value

MAX_REJECTION: Final = 64 * 1024
"""The most bytes of the response that are kept when a host refuses the handshake."""


class NotAHostError(Exception):
    """The server is no agentrail host, or has another version of the interface."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        """What it did, in words."""


class Rejection(Value, gc=True):
    """The response with which the handshake was refused."""

    status: int
    """Its status."""
    media: str
    """Its media type."""
    body: bytes
    """Its body, cut to `MAX_REJECTION`."""


class RejectedError(Exception):
    """The handshake was refused by a response."""

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(rejection.status)
        self.rejection = rejection
        """The response."""


class ClientHandshake:
    """One handshake: the caller sends `request`, and passes what it receives to `read`."""

    def __init__(self, address: HostAddress, key: HostKey) -> None:
        self._http = h11.Connection(h11.CLIENT)
        self._nonce = base64.b64encode(secrets.token_bytes(16))
        self._address = address
        self._key = key
        self._head: h11.Response | None = None  # the response, if it refuses the handshake
        self._body = b""
        self.user = ""
        """The user of the key, as ids of sessions have it, once the host has accepted; empty if they have none."""

    def request(self) -> bytes:
        """Return the request."""
        headers = [
            (b"Host", self._address.authority.encode()),
            (b"Upgrade", b"websocket"),
            (b"Connection", b"Upgrade"),
            (b"Sec-WebSocket-Key", self._nonce),
            (b"Sec-WebSocket-Version", VERSION.encode()),
            (b"Sec-WebSocket-Protocol", SUBPROTOCOL.encode()),
            self._key.header,
        ]
        request = h11.Request(method="GET", target=f"{self._address.prefix}{PATH}", headers=headers)
        return (self._http.send(request) or b"") + (self._http.send(h11.EndOfMessage()) or b"")

    def read(self, data: bytes) -> bytes | None:
        """Return the bytes after a response that accepts; `None` if the response is still incomplete.

        Empty *data* means the end of the connection. Raise `RejectedError` or `NotAHostError`.
        """
        if not data and self._head is None:
            return None
        try:
            self._http.receive_data(data)
            while (event := self._http.next_event()) is not h11.NEED_DATA:
                match event:
                    case h11.InformationalResponse(status_code=101, headers=headers):
                        self._check(dict(headers))
                        return self._http.trailing_data[0]
                    case h11.Response():
                        self._head = event
                    case h11.Data(data=piece):
                        self._body = (self._body + piece)[:MAX_REJECTION]
                    case h11.EndOfMessage() if self._head is not None:
                        raise RejectedError(self._rejection(self._head))
                    case _:
                        pass
        except h11.RemoteProtocolError:
            if self._head is None or data:
                raise NotAHostError(problem="it does not speak HTTP as a host does") from None
            raise RejectedError(self._rejection(self._head)) from None  # its body is cut
        return None

    def _check(self, headers: dict[bytes, bytes]) -> None:
        """Raise `NotAHostError` if the response does not accept this handshake."""
        if headers.get(b"sec-websocket-accept") != accepted_key(self._nonce.decode()).encode():
            raise NotAHostError(problem="it does not speak WebSocket as a host does")
        if headers.get(b"sec-websocket-protocol") != SUBPROTOCOL.encode() or b"sec-websocket-extensions" in headers:
            raise NotAHostError(problem=f"it does not speak the protocol `{SUBPROTOCOL}`")
        self.user = headers.get(USER.encode(), b"").decode("latin-1")

    def _rejection(self, head: h11.Response) -> Rejection:
        media = dict(head.headers).get(b"content-type", b"").decode("latin-1").partition(";")[0].strip()
        return Rejection(head.status_code, media, self._body)


def document_in(rejection: Rejection) -> JsonObject | None:
    """Return the problem document in a response; `None` if there is none."""
    if rejection.media != problems.MEDIA_TYPE:
        return None
    try:
        frame = read_host_frame(f'{{"problem":{rejection.body.decode(errors="replace")}}}')
    except BadText:
        return None
    return frame.problem if isinstance(frame, RefusalFrame) else None


def describe_rejection(rejection: Rejection) -> str:
    """Describe a response that has no problem document, for an error message."""
    return f"it answers the handshake of a WebSocket with status {rejection.status}"
