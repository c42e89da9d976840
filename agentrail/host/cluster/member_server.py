"""`server_for_members`: a listener of a host for the other hosts of its cluster alone."""

from __future__ import annotations

from typing import Final

from agentrail.api.limits import HostLimits
from agentrail.errors import NotAuthenticated
from agentrail.host.application import ATTEMPT
from agentrail.host.authentication.identity import bearer
from agentrail.host.cluster.cluster_identity import read_signature
from agentrail.host.cluster.cluster_options import Cluster
from agentrail.host.error_responses import refusal
from agentrail.host.http11.http_server import HttpServer
from agentrail.host.requests.http_messages import Handler, HttpRequest, HttpResponse
from agentrail.host.requests.proxies import Proxies
from agentrail.host.requests.site_policy import SitePolicy, screened
from agentrail.runtime.shared.clock import Clock

THIS_MACHINE: Final = Proxies.named(["127.0.0.0/8", "::1"])
"""Members on this machine: each connects for many clients, as a proxy does, and names them."""


def server_for_members(cluster: Cluster, handler: Handler, limits: HostLimits) -> HttpServer:
    """Return a server that answers signed requests of other hosts of *cluster* by *handler*, and no others."""
    policy = SitePolicy(hosts=frozenset([f"[{name}]" if ":" in name else name for name in cluster.names]))
    return HttpServer(screened(policy, signed_only(cluster, handler)), Clock().now_ms, limits, THIS_MACHINE)


def signed_only(cluster: Cluster, handler: Handler) -> Handler:
    """Return *handler* for requests that a host of *cluster* has signed; others are refused, whoever makes them."""

    async def admit(request: HttpRequest) -> HttpResponse:
        try:
            read_signature(cluster, bearer(request.headers), Clock().now_ms())
        except NotAuthenticated as error:
            return refusal(error, ATTEMPT, "", request.note.id)
        return await handler(request)

    return admit
