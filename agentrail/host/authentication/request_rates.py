"""`Rates`: how many requests a second each tenant makes."""

from __future__ import annotations

from typing import Final

import trio

from agentrail.api.limits import HostLimits
from agentrail.errors import TooManyRequests

MAX_KEPT: Final = 10_000
"""Tenants whose last requests are remembered; beyond it, the ones that rested longest are forgotten."""


class Rates:
    """A bucket of requests for each tenant: it fills at the rate that is allowed, up to the burst."""

    def __init__(self, limits: HostLimits) -> None:
        self._rate = limits.requests_per_second
        self._burst = float(limits.burst)
        # by tenant: the requests left in the bucket, and the time of that number
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, tenant: str) -> None:
        """Take a request from the bucket of *tenant*; raise `TooManyRequests` if the bucket is empty."""
        now = trio.current_time()
        tokens, then = self._left.pop(tenant, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._rate)
        if tokens < 1:
            self._left[tenant] = tokens, now
            raise TooManyRequests(self._rate, (1 - tokens) / self._rate)
        self._left[tenant] = tokens - 1, now
        if len(self._left) > MAX_KEPT:
            del self._left[next(iter(self._left))]
