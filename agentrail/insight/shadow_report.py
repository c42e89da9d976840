"""`ShadowReport`: what the plugins in the shadow of a session would have done so far."""

from __future__ import annotations

from agentrail.insight.session_backtest import Parting
from agentrail.values.value import Value


class ShadowReport(Value, gc=True):
    """What the plugins of `SessionSpec.shadow` would have done so far."""

    record: int = 0
    """Number of the last record that was looked at."""
    rulings: int = 0
    """How many rulings were compared."""
    differing: int = 0
    """How many rulings differ."""
    parts: tuple[Parting, ...] = ()
    """The last 100 of them; each but the first is a guess, as the session would have gone otherwise since."""
    ended: str = ""
    """Why the shadow was let go of; empty if it was not."""
