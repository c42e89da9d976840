"""`SupervisorOptions`: the options of `open_supervisor` that are data, so that a file of settings can have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from agentrail.ports.journal import Retention
from agentrail.values.usage import Limit


class SupervisorOptions(TypedDict, total=False):
    """Options of `open_supervisor` under their names there; what is missing has its default."""

    strategy: Literal["one_for_one", "one_for_all", "rest_for_one"]
    max_restarts: int
    period: float
    seed: int | None
    gate_width: float | None
    limits: Mapping[str, Limit]
    retain: Sequence[Retention]
