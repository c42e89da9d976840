"""`server_for_members`: a listener of a host for the other hosts of its cluster alone."""

from __future__ import annotations

from typing import Final

from agentrail.api.limits import HostLimits
from agentrail.host.cluster.cluster_options import Cluster
from agentrail.host.cluster.member_networks import OWN_MACHINE
from agentrail.host.http11.http_server import HttpServer
from agentrail.host.requests.http_messages import Handler
from agentrail.host.requests.proxies import Proxies
from agentrail.host.requests.site_policy import SitePolicy, screened
from agentrail.runtime.shared.clock import Clock

THIS_MACHINE: Final = Proxies.named(OWN_MACHINE)
"""Members on this machine: each connects for many clients, as a proxy does, and names them."""


def server_for_members(cluster: Cluster, handler: Handler, limits: HostLimits) -> HttpServer:
    """Return a server for the other hosts of *cluster*, which *handler* answers: it refuses what none has signed."""
    policy = SitePolicy(hosts=frozenset([f"[{name}]" if ":" in name else name for name in cluster.names]))
    return HttpServer(screened(policy, handler), Clock().now_ms, limits, THIS_MACHINE)
