"""`RequestFigures`: how many requests of each route were answered, how, and how fast; and the memory of the process."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Final, TypeAlias

from agentrail.host.requests.access_log import RequestNote
from agentrail.runtime.diagnosis.metrics import Spread

STATM: Final = Path("/proc/self/statm")
"""Has the memory of this process in pages, on Linux; the second number is what is resident."""

Route: TypeAlias = tuple[str, str]
"""Method and path of a route; both are empty for a request that means none."""


class RequestFigures:
    """The figures of the requests to a host: by route, not by a client's path, so their number is bounded."""

    def __init__(self) -> None:
        self.answers = Counter[tuple[str, str, int]]()
        """By method, path of the route, and status; 0 if the client had gone before its answer."""
        self.times: dict[Route, Spread] = {}
        """How long answers took to begin, by route."""

    def add(self, note: RequestNote, status: int, seconds: float) -> None:
        """Count a request whose answer began after *seconds*."""
        method, path = note.route
        self.answers[method, path, status] += 1
        times = self.times.get(note.route)
        if times is None:
            times = self.times[note.route] = Spread()
        times.add(seconds)


def resident_bytes() -> int | None:
    """Return how much memory of this process is resident; `None` where the system does not say so."""
    if sys.platform == "win32" or not hasattr(os, "sysconf"):
        return None
    try:
        return int(STATM.read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
