"""`HostDrain`: tells the parts of a host that it ends, in two steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

ACCEPTING: Final = "accepting"
"""The check of `/readyz` that says whether the host takes requests."""


class HostDrain:
    """First the host takes no more requests, and parks its sessions; then connections end that would go on."""

    def __init__(self) -> None:
        self.when_over: list[Callable[[], None]] = []
        """Called when connections have to end."""
        self.has_begun = False
        """Whether requests are refused."""

    def begin(self) -> None:
        """Refuse requests from now on."""
        self.has_begun = True

    def end(self) -> None:
        """End the connections that would go on; their clients continue with the next process."""
        self.begin()
        for tell in self.when_over:
            tell()
