"""What a supervisor is told to start beside sessions: services, and supervisors of their own."""

from __future__ import annotations

import math
from typing import Final

from agentrail.core.supervision_rules import STRATEGIES, Policy, Ward
from agentrail.errors import BadChoice, BadSupervisor, WrongType
from agentrail.runtime.supervision.children import Child, Service, ServiceBody
from agentrail.runtime.supervision.supervisor import SupervisorNode
from agentrail.values.foreign import number, seconds, shown

MOST_RESTARTS: Final = 2**31
"""The most that a number of restarts, or of sessions, counts for."""


def policy(strategy: str, max_restarts: int, period: float) -> Policy:
    """Return how a supervisor treats its children."""
    if strategy not in STRATEGIES:
        raise BadChoice.among("strategy", strategy, STRATEGIES)
    restarts, within = number(max_restarts), seconds(period)
    if type(restarts) is not int or restarts < 0 or not within:
        raise BadSupervisor(max_restarts, period)
    return Policy(strategy, min(restarts, MOST_RESTARTS), within)


def service(run: Service, name: str, restart: str, shutdown: float, start_timeout: float) -> Child:
    """Return a service as a child of a supervisor."""
    times = (time_of("shutdown", shutdown), time_of("start_timeout", start_timeout))
    return Child(ServiceBody(run), Ward(name, restart), *times)


def time_of(name: str, found: object) -> float:
    """Return the seconds of an argument, cut to ten years; raise `WrongType` for what is no time."""
    plain = seconds(found)
    if plain is None:
        raise WrongType(name, shown(found), "seconds, 0 or more")
    return plain


def width_of(found: object) -> float:
    """Return how many sessions the gate lets in per pass; raise `WrongType` for what is no width."""
    if type(found) is float and found == math.inf:
        return math.inf
    plain = number(found)
    if plain is None or plain < 1:
        raise WrongType("gate_width", shown(found), "a number from 1 on, or `math.inf`")
    return min(plain, MOST_RESTARTS)


def supervisor(above: SupervisorNode, name: str, policy: Policy, restart: str) -> tuple[SupervisorNode, Child]:
    """Return a supervisor as a child of the one *above*; each of its children has its own time to end."""
    node = SupervisorNode(above.tree, policy, (*above.path, name))
    return node, Child(node, Ward(name, restart), math.inf)
