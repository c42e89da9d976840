"""`HostLimits`: the limits of a host that its owner may set, with their defaults; before it, those that are fixed."""

from __future__ import annotations

from typing import Final

from agentrail.errors import WrongType
from agentrail.values.untrusted_values import brief, number
from agentrail.values.value import Authored, defaults_of

LIMIT_WANTED: Final = "a number above 0"
COUNT_WANTED: Final = "a whole number from 1 on"


# Fixed: the same in each host

TARGET_CHARS: Final = 8 * 1024
"""The most characters of a request's path and query."""

HEADER_COUNT: Final = 100
"""The most headers of a request."""

PROMPT_FILES: Final = 16
"""The most uploaded files that one prompt may name."""

LEAST_RATE: Final = 8 * 1024
"""Bytes of a body, or of an answer, that give it one second more: so much a second has to come or go in the long run.
"""

PONG_SECONDS: Final = 20.0
"""Within how many seconds the client of a WebSocket has to answer a ping."""

SOCKET_CALLS: Final = 64
"""The most calls of one WebSocket that are carried out at once; further ones wait unread."""

SOCKET_MISTAKES: Final = 20
"""The most messages of one WebSocket that do not fit; with one more, it is closed."""

VIEW_SECONDS: Final = 0.5
"""For how many seconds a view that a WebSocket listens to is not looked at again, however often it changes."""

CHANGES_SECONDS: Final = 0.1
"""For how many seconds changes of the tree are gathered before they are sent, once for all WebSockets."""

UNSENT_BYTES: Final = 160 * 1024
"""The most bytes that wait to be sent on one WebSocket; one message may have more, if it waits alone."""

PAGE: Final = 100
"""How many items a page of a list has, unless the caller says."""

MOST_PAGE: Final = 1_000
"""The most items of a page."""

INSIGHT_RECORDS: Final = 10_000
"""The most records of a session of which all are read to explain it; a page of records reads only its own."""

METRIC_TENANTS: Final = 200
"""How many tenants `/metrics` counts by name; the others are counted together."""


def page_of(limit: int | None) -> int:
    """Return how many items a page has if the caller's *limit* is so many; `None`: there is none."""
    return min(limit or PAGE, MOST_PAGE)


class HostLimits(Authored, kw_only=True):
    """Limits of a host: on what it reads, on how long it waits, and on what each tenant may have at once."""

    # Of one request

    header_bytes: int = 16 * 1024
    """The most bytes of a request's line and headers together."""
    body_bytes: int = 1024 * 1024
    """The most bytes of a request's body; `file_bytes` holds for an uploaded file."""
    json_depth: int = 64
    """The most levels of JSON in a body."""
    file_bytes: int = 20 * 1024 * 1024
    """The most bytes of one uploaded file."""
    session_files_bytes: int = 100 * 1024 * 1024
    """The most bytes of all files that were uploaded to one session."""
    session_files: int = 500
    """The most files that are uploaded to one session."""

    # Of the server

    connections: int = 1_000
    """The most open connections; for a request on a further one, a connection that no known caller uses is closed.

    Each tenant, and each key, may take one more as long as it leaves more to others than it uses. An eighth is never in
    use by known callers, so that others can be heard.
    """
    connections_per_address: int = 64
    """The most connections of one IPv4 address, or one IPv6 network of 64 bits, that no known caller has used.

    Further ones are heard: those that bear a key, or ask for the health of the host, are answered. A named proxy may
    have any number.
    """
    header_seconds: float = 10.0
    """Within how many seconds the line and the headers of a request have to arrive."""
    body_seconds: float = 30.0
    """The most seconds between two pieces of a body, and for all of it; each 8 KiB that come add one to the latter."""
    idle_seconds: float = 75.0
    """After how many seconds without a request a connection is closed."""
    write_seconds: float = 6.0
    """After how many seconds in which a client takes nothing its connection is closed."""
    answer_seconds: float = 30.0
    """For how many seconds answers may wait for a client to take them; each 8 KiB that it takes add one."""
    heartbeat_seconds: float = 15.0
    """After how many seconds without an event a stream of events gets a heartbeat."""
    unknown_seconds: float = 60.0
    """For how many seconds a stream goes on although the authenticator fails, so that nobody can say whose key it is.
    """
    drain_seconds: float = 30.0
    """How many seconds calls that cannot be repeated have to end at SIGTERM; without a journal, open turns."""

    # Of one WebSocket

    ping_seconds: float = 25.0
    """After how many seconds the client of a WebSocket is asked whether it is there."""

    # Of one tenant

    sessions: int = 100
    """The most sessions of one tenant that have not ended."""
    requests_per_second: float = 20.0
    """How many requests a second one tenant may make in the long run."""
    burst: int = 40
    """How many requests one tenant may make at once, after a pause."""
    streams: int = 100
    """The most streams of events that one tenant may have open."""
    usd_per_day: float | None = None
    """The most US dollars that requests to models may cost for one tenant in a day, in UTC; `None`: no limit.

    The most that a request can cost is reserved in the journal before it is sent; hosts on it with a limit count it.
    """

    # Of its knowledge

    stores: int = 20
    """The most stores of knowledge of one tenant."""
    documents: int = 10_000
    """The most documents of one store; each has at most `file_bytes`."""
    store_bytes: int = 1024 * 1024 * 1024
    """With how many bytes on the disk a store takes no further document."""

    # Of its health

    check_seconds: float = 2.0
    """How many seconds each check of `/readyz` may take."""
    free_bytes: int = 64 * 1024 * 1024
    """The fewest free bytes on the disk of the journal with which the host is ready."""
    loop_lag_seconds: float = 1.0
    """By how many seconds tasks may be woken too late, within the last ten seconds, if the host is ready."""

    def __post_init__(self) -> None:
        """Raise `WrongType` if a limit has the wrong type, or is out of range."""
        counts = defaults_of(type(self))
        for name in self.__struct_fields__:
            limit: object = getattr(self, name)
            plain = number(limit)
            if limit is None and counts[name] is None:
                continue
            if type(counts[name]) is int and type(plain) is not int:
                raise WrongType(name, brief(limit), COUNT_WANTED)
            if plain is None or plain <= 0:
                raise WrongType(name, brief(limit), LIMIT_WANTED)


DEFAULTS: Final = HostLimits()
"""The limits of a host that names none."""
