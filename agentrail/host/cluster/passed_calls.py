"""How a call is sent on to another host, and which headers of that host's answer the client gets.

The headers are lists of what hosts read and send: an authenticator may find a key in any header, and what listens at
the address of a holder may send any.
"""

from __future__ import annotations

import re
from typing import Final, cast
from urllib.parse import urlencode

from agentrail.api.operation_table import JSON, HostCall
from agentrail.api.problems import MEDIA_TYPE
from agentrail.api.socket_frames import query_pairs
from agentrail.api.views import to_json, to_plain
from agentrail.host.operations.call import COMMAND, OperationCall, Upload
from agentrail.host.requests.access_log import REQUEST_ID
from agentrail.host.requests.http_messages import Body, Headers, WrappedBody
from agentrail.values.json import EMPTY, JsonObject

PASSED: Final = frozenset({"accept", "accept-language", "last-event-id", "user-agent"})
"""Headers of a client that another host is told. A key is in none of them: that host believes the signature."""

FORWARDED_FOR: Final = "x-forwarded-for"
CONTENT_TYPE: Final = "content-type"
LOCATION: Final = "location"
CHALLENGE: Final = "www-authenticate"
BEARER: Final = "Bearer"
"""The challenge of hosts: for others, a browser asks its user for a password."""
OWN_PLACE: Final = "/v1/"
"""How a place begins to which an answer may lead the client."""

SENT: Final = frozenset(
    {"allow", "cache-control", CONTENT_TYPE, LOCATION, "retry-after", CHALLENGE, "x-accel-buffering"}
)
"""Headers of an answer that the client gets: those that hosts send."""

OTHER_CONTENT: Final = "application/octet-stream"
"""The type of content that no host sends: a browser does nothing with it."""

_VALUE: Final = re.compile(r"[ -~\t]{0,4096}")
"""Matches values that can be sent on: nothing in them ends a line."""


def passed_headers(call: OperationCall) -> Headers:
    """Return the headers with which *call* is sent to another host, without its signature."""
    body = call.body(object)
    headers = [
        (FORWARDED_FOR, call.peer),
        (REQUEST_ID, call.note.id),
    ]  # believed if this host is named there as a proxy
    headers += [header for header in call.headers if header[0] in PASSED]
    media_type = body.media_type if isinstance(body, Upload) else "" if body is None else JSON
    if media_type:
        headers.append((CONTENT_TYPE, media_type))
    if call.key is not None:
        headers.append((COMMAND, call.key))
    return tuple(headers)


class KeptBody(WrappedBody):
    """A body that can be read again."""

    __slots__ = ("_at", "_pieces")

    def __init__(self, body: Body) -> None:
        super().__init__(body)
        self._pieces: list[bytes] = []
        self._at = 0

    def rewind(self) -> None:
        """Let the next reader begin with the first piece."""
        self._at = 0

    async def chunk(self) -> bytes:
        """Return the next piece; one that was read before comes from memory."""
        if self._at == len(self._pieces):
            self._pieces.append(await self._body.chunk())
        piece = self._pieces[self._at]
        if piece:
            self._at += 1
        return piece


async def passed_content(call: OperationCall) -> bytes:
    """Return the body of *call* as another host reads it."""
    body = call.body(object)
    if isinstance(body, Upload):
        return await body.content.read(call.limits.file_bytes)
    return b"" if body is None else to_json(body)


def passed_query(call: OperationCall) -> str:
    """Return the query of *call* as another host reads it."""
    query = call.query(object)
    fields = EMPTY if query is None else cast("JsonObject", to_plain(query))
    return urlencode(query_pairs(fields), errors="surrogatepass")


def sent_headers(call: HostCall, headers: Headers) -> Headers:
    """Return those of the *headers* of another host's answer to *call* that the client gets."""
    types = {call.media, JSON, MEDIA_TYPE}
    return tuple(
        [
            (name, OTHER_CONTENT if name == CONTENT_TYPE and value not in types else value)
            for name, value in headers
            if name in SENT
            and _VALUE.fullmatch(value)
            and (name != LOCATION or value.startswith(OWN_PLACE))
            and (name != CHALLENGE or value == BEARER)
        ]
    )
