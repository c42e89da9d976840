"""`BodyTime`: how long the rest of a request's body may take to arrive."""

from __future__ import annotations

from typing import Final

from agentrail.api.limits import LEAST_RATE, HostLimits
from agentrail.host.requests.refusals import LATE_BODY, SLOW_BODY, HttpRefusal

LINGER: Final = 1.0
"""Seconds for which the rest of a body is read after an early answer, so that its sender gets the answer."""

MAX_DROPPED: Final = 64
"""Pieces that are read and dropped in that time."""


class BodyTime:
    """The time in which a body has to arrive: with each piece, and in all. What has come adds to the latter.

    Only the time that is spent reading counts, and not that in which the handler does something else.
    """

    __slots__ = ("_limits", "_received", "_waited")

    def __init__(self, limits: HostLimits, received: int = 0) -> None:
        self._limits = limits
        self._received = received  # bytes, as they were sent
        self._waited = 0.0  # seconds spent reading the body

    @property
    def left(self) -> float:
        """The seconds that are left for all of the body; below 0 if they are over."""
        return self._limits.body_seconds + self._received / LEAST_RATE - self._waited

    @property
    def of_piece(self) -> float:
        """The seconds in which the next piece has to come."""
        return min(self._limits.body_seconds, max(self.left, 0))

    def add(self, waited: float, byte_count: int) -> None:
        """Note that *byte_count* bytes have come, after *waited* seconds."""
        self._waited += waited
        self._received += byte_count

    def refusal(self, seconds_left: float) -> HttpRefusal:
        """Return the refusal of a body whose next piece has not come, for which *seconds_left* were left."""
        limits = self._limits
        if seconds_left < limits.body_seconds:
            return HttpRefusal(SLOW_BODY, self._received, round(self._waited, 1), limits.body_seconds, LEAST_RATE)
        return HttpRefusal(LATE_BODY, limits.body_seconds)
