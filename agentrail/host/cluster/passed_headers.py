"""Which headers of a client another host is told, and which of that host's answer the client gets.

Both are lists of what hosts read and send: an authenticator may find a key in any header, and what listens at the
address of a holder may send any.
"""

from __future__ import annotations

import re
from typing import Final

from agentrail.api.operation_table import JSON, HostCall
from agentrail.api.problems import MEDIA_TYPE
from agentrail.host.requests.http_messages import Headers

PASSED: Final = frozenset(
    {"accept", "accept-language", "content-type", "idempotency-key", "last-event-id", "user-agent"}
)
"""Headers of a request that another host is told. A key is in none of them: that host believes the signature."""

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


def passed_headers(headers: Headers) -> Headers:
    """Return those of the *headers* of a request that another host is told."""
    return tuple([header for header in headers if header[0] in PASSED])


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
