"""Which addresses of the network are open to everybody, and which lead back into it.

The lists are those of the special-purpose registries of IANA (2024), with everything that is not globally reachable.
An IPv6 address that carries an IPv4 address is as open as both.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

CLOSED_4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/3",
        ),
    )
)
"""What nobody outside should reach."""

OPEN_6: Final = ipaddress.IPv6Network("2000::/3")
"""Where all public addresses are."""

CLOSED_6: Final = tuple(map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20")))
"""What nobody outside should reach in there."""

TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
SIX_TO_FOUR: Final = ipaddress.IPv6Network("2002::/16")


def networks(names: Iterable[str]) -> tuple[Network, ...]:
    """Return networks by their names, such as `10.0.0.0/8` or `127.0.0.1`."""
    return tuple(ipaddress.ip_network(name) for name in names)


def is_open(address: Address, allowed: Iterable[Network] = ()) -> bool:
    """Whether everybody may reach *address*, or it is in a network that is *allowed*."""
    if any(address in network for network in allowed):
        return True
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in CLOSED_4)
    if getattr(address, "scope_id", None) is not None:
        return False
    carried = list(_carried(address))
    if carried:
        return all(is_open(one, allowed) for one in carried)
    return address in OPEN_6 and not any(address in network for network in CLOSED_6)


def _carried(address: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    """Yield the IPv4 addresses that *address* stands for."""
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address in TRANSLATED:
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address in SIX_TO_FOUR:
        yield ipaddress.IPv4Address((int(address) >> 80) & 0xFFFFFFFF)
