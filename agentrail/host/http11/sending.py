"""`sent_at_once`: sends what the system takes without waiting."""

from __future__ import annotations

import os

import trio


def sent_at_once(stream: trio.abc.Stream, data: bytes | bytearray | memoryview) -> int:
    """Send the beginning of *data* that the system takes now, and return how many bytes it has; no checkpoint.

    So most pieces need no deadline, and to set one costs more than to send them. None is sent on a stream that
    encrypts: it keeps bytes of its own.
    """
    if not isinstance(stream, trio.SocketStream):
        return 0
    try:
        return os.write(stream.socket.fileno(), data)
    except OSError:  # the system takes nothing now, or never again: whoever then sends the rest waits, or is told so
        return 0


def received_at_once(stream: trio.abc.Stream, most: int) -> bytes:
    """Return at most so many bytes that the system has received; none if there are none, or if the stream encrypts."""
    if not isinstance(stream, trio.SocketStream):
        return b""
    try:
        return os.read(stream.socket.fileno(), most)
    except OSError:  # nothing is there, or the peer has gone
        return b""
