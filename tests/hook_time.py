"""How long the hooks of a step may take before `PluginSlow` tells of it: in tests, any time, but in those of the event.

The time is that of the wall, and the event has a record. On a busy machine, any test whose session has a plugin would
now and then find one event and one record more than it counts.
"""

from math import inf
from typing import Final

from agentrail.runtime.actor import session, slow_hooks

ANY: Final = inf
"""No step takes so long."""

TOLD: Final = slow_hooks.SLOW_HOOKS
"""The seconds that a step may take outside of tests."""


def allow(seconds: float) -> None:
    """Have steps of more than *seconds* reported from now on."""
    for module in (slow_hooks, session):
        setattr(module, "SLOW_HOOKS", seconds)  # noqa: B010 - a constant, for type checkers
