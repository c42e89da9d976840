"""What a supervisor is told to start beside sessions: services, and supervisors of their own."""

from __future__ import annotations

import math

from agentrail.core.supervising import STRATEGIES, Policy, Ward
from agentrail.errors import BadChoice, BadSupervisor
from agentrail.runtime.children import Child, Service, ServiceBody
from agentrail.runtime.node import Node


def policy(strategy: str, max_restarts: int, period: float) -> Policy:
    """Return how a supervisor treats its children."""
    if strategy not in STRATEGIES:
        raise BadChoice.among("strategy", strategy, STRATEGIES)
    if max_restarts < 0 or not period > 0:
        raise BadSupervisor(max_restarts, period)
    return Policy(strategy, max_restarts, period)


def service(run: Service, name: str, restart: str, shutdown: float, start_timeout: float) -> Child:
    """Return a service as a child of a supervisor."""
    return Child(ServiceBody(run), Ward(name, restart), shutdown, start_timeout)


def supervisor(above: Node, name: str, policy: Policy, restart: str) -> tuple[Node, Child]:
    """Return a supervisor as a child of the one *above*; each of its children has its own time to end."""
    node = Node(above.tree, policy, (*above.path, name))
    return node, Child(node, Ward(name, restart), math.inf)
