"""`HttpLimits`: every limit of the HTTP server, with its default."""

from __future__ import annotations

from typing import Final

from attrs import frozen

KIB: Final = 1024
MIB: Final = 1024 * KIB


@frozen(kw_only=True)
class HttpLimits:
    """Sizes in bytes, times in seconds. Each limit is the largest value that is accepted."""

    head: int = 16 * KIB
    """Request line and headers, with the empty line after them (431)."""
    target: int = 8 * KIB
    """Path and query as sent (414)."""
    headers: int = 64
    """Number of headers (431)."""
    head_time: float = 5.0
    """From the first byte of a head to its last (408), and from a connection to its first byte (it is closed)."""
    body: int = MIB
    """Body that a handler reads without a limit of its own (413)."""
    body_idle: float = 10.0
    """Silence within a body (408)."""
    keep_alive: float = 75.0
    """Silence between two requests; then the connection is closed."""
    write_time: float = 10.0
    """For the peer to take a piece of an answer of at most 64 KiB; then the connection is cut."""
    linger: float = 1.0
    """How long a connection that is closed early goes on reading, so that its peer gets the answer."""
    connections: int = 12_000
    """Connections in all (503). The one that has waited longest for a request gives way first."""
    per_address: int = 64
    """Connections of one IPv4 address, or of one IPv6 network of 64 bits (503). A proxy in front needs more."""
