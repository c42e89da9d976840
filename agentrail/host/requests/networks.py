"""`Networks`: how many connections each network has, so that one of them cannot take all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from ipaddress import IPv6Address, ip_address

from agentrail.api.limits import HostLimits
from agentrail.host.requests.proxies import UNIX, Proxies


class Networks:
    """Counts the open connections of each network; a named proxy, which has many clients, may have any number."""

    def __init__(self, limits: HostLimits, proxies: Proxies) -> None:
        self._most = limits.connections_per_address
        self._proxies = proxies
        self._open: Counter[str] = Counter()

    def is_full(self, peer: str) -> bool:
        """Whether the network of *peer*, an address or `unix`, may open no more connections."""
        return peer != UNIX and not self._proxies.knows(peer) and self._open[network_of(peer)] >= self._most

    @contextmanager
    def counted(self, peer: str) -> Generator[None]:
        """Count a connection of *peer* during the `with` block."""
        network = network_of(peer)
        self._open[network] += 1
        try:
            yield
        finally:
            self._open[network] -= 1
            if not self._open[network]:
                del self._open[network]


def network_of(peer: str) -> str:
    """Return the network that counts as one peer: an IPv4 address, or the /64 of an IPv6 address.

    All loopback addresses are one: this machine has 16 million of them, and each of its users may take any.
    """
    try:
        address = ip_address(peer)
    except ValueError:
        return peer
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address
    if address.is_loopback:
        return "loopback"
    return address.packed[:8].hex() if isinstance(address, IPv6Address) else str(address)
