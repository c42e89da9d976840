"""A port for a server that a test starts later, or for nobody."""

import os
import socket
from contextlib import suppress
from itertools import count
from typing import Final

FIRST: Final = 20_000
SHARES: Final = 120
SIZE: Final = 100
"""Ports of a process: tests that run beside each other have other ones, so none takes what another has chosen."""

_numbers: Final = count()


def free_port() -> int:
    """Return a port that no outgoing connection takes before it is used: Linux gives those from 32768 on."""
    first = FIRST + os.getpid() % SHARES * SIZE
    while True:
        port = first + next(_numbers) % SIZE
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
