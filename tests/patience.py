"""How long a test waits for the world outside."""

from tests.profiles import CAMPAIGN

PATIENCE = 30.0
"""Seconds after which what has not come never will; on a busy machine anything may take a few."""


def within(seconds: float) -> float:
    """Return the seconds of real time that are promised, in the campaign; in CI others may use the machine."""
    return seconds if CAMPAIGN else PATIENCE
