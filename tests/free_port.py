"""A port for a server that a test starts later, or for nobody."""

from __future__ import annotations

import socket
from contextlib import suppress
from random import SystemRandom


def free_port() -> int:
    """Return a port that no outgoing connection takes before it is used: Linux gives those from 32768 on."""
    while True:
        port = SystemRandom().randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
