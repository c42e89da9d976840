"""`MemberNetworks`: where the other hosts of a cluster may be. The journal says it, and others may write there."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from agentrail.errors import BadChoice
from agentrail.host.requests.proxies import Proxies
from agentrail.remote.transport.host_address import HostAddress

log = logging.getLogger("agentrail.host")

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
"""Names of this machine for itself."""

OWN_MACHINE: Final = ("127.0.0.0/8", "::1")
"""Networks of this machine for itself."""

PRIVATE: Final = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "198.18.0.0/15", "fc00::/7")
"""Networks that nobody reaches from outside: those of machines, pods and virtual private networks."""

WANTED: Final = "networks of the other hosts, such as `10.0.0.0/8`, or addresses, such as `10.0.0.7`"

MOST_TOLD: Final = 100
"""How many addresses are named in the log, each once."""

ELSEWHERE: Final = (
    "the journal says that a host is at %s, where none of the cluster may be, so nothing is sent there; if one is, "
    "name its network: `Cluster(…, networks=[…])`, or `agentrail serve --member NETWORK`"
)


class MemberNetworks:
    """Networks in which the other hosts are: those with *names*.

    Without any, they are where *own*, the address of this host, is: on this machine, or in a private network.
    A socket of this machine counts only if *own* is one.
    """

    def __init__(self, own: HostAddress, names: Iterable[str]) -> None:
        self._at_socket = bool(own.unix)
        self._told: set[str] = set()
        named = tuple(names)
        try:
            # lists of proxies are lists of networks, too
            self._networks = Proxies(named or (OWN_MACHINE if is_own_machine(own.host) else PRIVATE))
        except BadChoice as error:
            raise BadChoice("networks", error.found, WANTED) from None

    def may_have(self, place: HostAddress) -> bool:
        """Whether a host may be at *place*. Of a name, that is known when it is connected: see `has_peer`."""
        if place.unix:
            return self._at_socket
        host = "127.0.0.1" if place.host in LOOPBACK else place.host
        return not _is_number(host) or self._networks.knows(host)

    def has_peer(self, peer: str) -> bool:
        """Whether a host may be at the IP address *peer*."""
        return self._networks.knows(peer)

    def tell(self, address: str) -> None:
        """Log that no host may be at *address*, once."""
        if address not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(address)
            log.warning(ELSEWHERE, ascii(address))


def is_own_machine(host: str) -> bool:
    """Whether *host* is this machine, by a name or number that means nothing elsewhere."""
    return host in LOOPBACK or (_is_number(host) and ip_address(host).is_loopback)


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
