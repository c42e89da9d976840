"""`limited`: an agent with the limits that the command line of `run` has."""

from __future__ import annotations

from typing import Final

from agentrail.app.spec import SessionSpec
from agentrail.hooks.plugin import Keyed
from agentrail.plugins.budget import BudgetGuard

LIMIT: Final = "max-usd"
"""Key of the guard of `--max-usd`, beside those that an agent has."""


def limited(spec: SessionSpec, usd: float | None, rounds: int | None, seconds: float | None) -> SessionSpec:
    """Return *spec* with a highest cost, and the most rounds and seconds of a turn; `None` leaves it as it is."""
    if rounds is not None:
        spec = spec.but(max_rounds=rounds)
    if seconds is not None:
        spec = spec.but(max_turn_seconds=seconds)
    if usd is not None:
        spec = spec.but(plugins=(*spec.plugins, Keyed(LIMIT, BudgetGuard(max_usd=usd))))
    return spec
