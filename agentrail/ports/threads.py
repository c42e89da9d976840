"""What tools need of whoever runs sync code beside the sessions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Threads(Protocol):
    """Worker threads for the sync code of one call."""

    async def run(self, work: Callable[[], T], /) -> T:
        """Return what *work* returns in a worker thread.

        Who is cancelled does not wait for it: the thread goes on, its result is dropped, and the call is in quarantine
        until it has ended. Raise `ToolError` if too many threads go on like that.
        """
        ...
