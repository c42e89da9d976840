"""`HostDrain`: tells the parts of a host, in two steps, that the host ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

ACCEPTING: Final = "accepting"
"""The check of `/readyz` that says whether the host takes requests."""


class HostDrain:
    """Two events: `begin` refuses new requests, so that sessions can be parked; `end` ends the open connections."""

    def __init__(self) -> None:
        self.when_over: list[Callable[[], None]] = []
        """Functions that `end` calls."""
        self.has_begun = False
        """Whether requests are refused."""

    def begin(self) -> None:
        """Refuse requests from now on."""
        self.has_begun = True

    def end(self) -> None:
        """End open streams and WebSockets; their clients continue with the next process."""
        self.begin()
        for tell in self.when_over:
            tell()
