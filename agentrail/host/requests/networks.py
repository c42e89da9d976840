"""Which connections are counted together, so that one network cannot take all."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

from agentrail.host.requests.proxies import UNIX, Proxies


def limited_network(peer: str, proxies: Proxies) -> str | None:
    """Return the network of *peer*, an address or `unix`; `None` if it may have any number of connections.

    So may a unix socket, and each of the *proxies*, which have many clients.
    """
    return None if peer == UNIX or proxies.knows(peer) else network_of(peer)


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
