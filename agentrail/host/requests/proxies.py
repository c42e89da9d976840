"""`Proxies`: the proxies in front of a server, and the headers of theirs that are believed.

Anybody can send `X-Forwarded-For`, `Forwarded` and `X-Request-Id`, so they count only on a connection of a proxy that
the operator has named. A proxy appends to the list that its client has sent, so lists are read from their ends, as long
as they name known proxies.

Which connections are counted together, so that one network cannot take all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from attrs import field, frozen

from agentrail.errors import BadChoice
from agentrail.host.requests.access_log import REQUEST_ID, is_request_id
from agentrail.host.requests.http_messages import Headers

UNIX: Final = "unix"
"""The peer of a connection on a unix socket, and the name of a proxy there."""

WANTED: Final = "addresses such as `10.0.0.7`, networks such as `10.0.0.0/8`, or `unix`"

IpNetwork: TypeAlias = IPv4Network | IPv6Network

_FOR: Final = re.compile(r'(?i)(?:^|;)\s*for\s*=\s*(?:"([^"\\]*)"|([^\s;"]*))\s*(?=;|$)')
_BRACKETED: Final = re.compile(r"\[([0-9A-Fa-f:.]{2,45})\](?::\d{1,5})?")
_WITH_PORT: Final = re.compile(r"([0-9.]{7,15}):\d{1,5}")


def _networks(names: Iterable[str]) -> tuple[IpNetwork, ...]:
    networks: list[IpNetwork] = []
    for name in names:
        try:
            networks.append(ip_network(name))
        except ValueError as error:
            raise BadChoice("proxies", name, WANTED) from error
    return tuple(networks)


@frozen
class Proxies:
    """The proxies that the operator has named, by their addresses."""

    networks: tuple[IpNetwork, ...] = field(default=(), converter=_networks)
    """The networks that they are in."""
    at_socket: bool = False
    """Whether whoever connects to the unix socket is one."""

    @classmethod
    def named(cls, proxies: Iterable[str]) -> Proxies:
        """Return the named *proxies*; raise `BadChoice` if one is no address, no network and not `unix`."""
        names = list(proxies)
        return cls([name for name in names if name != UNIX], UNIX in names)

    def knows(self, peer: str) -> bool:
        """Whether *peer*, an IP address or `unix`, is a named proxy."""
        if peer == UNIX:
            return self.at_socket
        return bool(self.networks) and _is_in(peer, self.networks)

    def client(self, peer: str, headers: Headers) -> str:
        """Return the address of the client of a request with *headers* that came from *peer*.

        It is *peer*, unless that is a proxy. If both headers are there and say different things, one of them comes from
        the client, so it is *peer*, too.
        """
        if not self.knows(peer):
            return peer
        elements = _entries(headers, "forwarded")
        lists = _entries(headers, "x-forwarded-for"), [_named_for(element) for element in elements]
        clients = {self._last_stranger(peer, entries) for entries in lists if entries}
        return clients.pop() if len(clients) == 1 else peer

    def request_id(self, peer: str, headers: Headers) -> str | None:
        """Return the id that a proxy at *peer* gives a request with *headers*; `None` if it gives none that is valid.

        With more than one header, one of them comes from the client.
        """
        if not self.knows(peer):
            return None
        ids = [value for name, value in headers if name == REQUEST_ID]
        return ids[0] if len(ids) == 1 and is_request_id(ids[0]) else None

    def _last_stranger(self, peer: str, entries: Sequence[str]) -> str:
        """Return the last address of *entries* that is not a proxy's; the first address if all are proxies'."""
        client = peer
        for entry in reversed(entries):
            address = _address(entry)
            if address is None:
                break
            client = address
            if not self.knows(address):
                break
        return client


NO_PROXIES: Final = Proxies()


@lru_cache(maxsize=1024)
def _is_in(peer: str, networks: tuple[IpNetwork, ...]) -> bool:
    address = _parsed(peer)
    return address is not None and any(address in network for network in networks)


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    """Return *text* as an IP address, or `None` if it is none; an IPv4 address mapped into IPv6 is returned as IPv4."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _address(entry: str) -> str | None:
    """Return the address of an entry, which may have brackets and a port; `None` if it has none."""
    bare = _BRACKETED.fullmatch(entry) or _WITH_PORT.fullmatch(entry)
    address = _parsed(entry if bare is None else bare[1])
    return None if address is None or "%" in entry else str(address)


def _entries(headers: Headers, name: str) -> list[str]:
    return [entry.strip() for key, value in headers if key == name for entry in value.split(",")]


def _named_for(element: str) -> str:
    """Return the value of `for=` in an element of `Forwarded` (RFC 7239); empty if it has none, or is not valid."""
    matches = _FOR.findall(element)
    return matches[0][0] or matches[0][1] if len(matches) == 1 else ""


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
