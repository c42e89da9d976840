"""`Cluster`: how other hosts on the same journal reach a host, and the key that all of them have.

`MemberNetworks`: where the other hosts of a cluster may be. The journal says it, and others may write there.
"""

from __future__ import annotations

import hmac
import logging
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Final

from agentrail.errors import BadChoice, BadConnection
from agentrail.host.authentication.identity import Authenticator
from agentrail.host.authentication.signing_keys import KEY_FOUND, KEY_WANTED, signing_keys
from agentrail.host.requests.proxies import Proxies
from agentrail.remote.transport.host_address import HostAddress, read_address
from agentrail.values.argument_checks import checked
from agentrail.values.secrets import Secret

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

    Without any, they are where *own_address*, the address of this host, is: on this machine, or in a private network.
    A socket of this machine counts only if *own_address* is one.
    """

    def __init__(self, own_address: HostAddress, names: Iterable[str]) -> None:
        self._at_socket = bool(own_address.unix)
        self._named_addresses: set[str] = set()
        named = tuple(names)
        try:
            # lists of proxies are lists of networks, too
            self._networks = Proxies(named or (OWN_MACHINE if is_own_machine(own_address.host) else PRIVATE))
        except BadChoice as error:
            raise BadChoice("networks", error.found, WANTED) from None

    def may_have(self, host: HostAddress) -> bool:
        """Whether *host* may be one of the cluster. Of a name, that is known when it is connected: see `has_peer`."""
        if host.unix:
            return self._at_socket
        name = "127.0.0.1" if host.host in LOOPBACK else host.host
        return not _is_number(name) or self._networks.knows(name)

    def has_peer(self, peer: str) -> bool:
        """Whether a host may be at the IP address *peer*."""
        return self._networks.knows(peer)

    def tell(self, address: str) -> None:
        """Log that no host may be at *address*, once."""
        if address not in self._named_addresses and len(self._named_addresses) < MOST_TOLD:
            self._named_addresses.add(address)
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


OF_TOKEN: Final = b"agentrail token for this machine"
TOKEN_BYTES: Final = 24

LEASE_WANTED: Final = "seconds, from 1 on"


class Cluster:
    """Makes a host one of several on the same journal: any of them answers for the sessions of all.

    *address* is the URL at which the other hosts reach this one, such as `http://10.0.0.5:8765`. *key* is the same
    for all: by it a host trusts another one that asks in the name of a user. It may be two keys with a space between:
    this host signs with the first and believes both, so that a key can be replaced host by host. A host that dies
    loses its sessions to the others after *lease* seconds, or sooner if its address refuses connections; one that is
    started again at the same address has them back at once. All hosts have the same *lease*.

    *descriptor* is that of a socket of this process that listens at the address for the other hosts alone: only what
    they have signed is answered there. Without it, the host listens at its address for everybody.

    *networks* are those in which the other hosts are. This host sends nothing to an address outside of them, whatever
    the journal says, nor to a unix socket unless *address* is one. Without any, they are on this machine if *address*
    is, and otherwise in private networks: name them if they have public addresses.
    """

    @checked
    def __init__(
        self,
        address: str,
        key: str | Secret,
        *,
        lease: float = 5.0,
        descriptor: int | None = None,
        networks: Sequence[str] = (),
    ) -> None:
        self.names = self._names(address)
        """Names under which the others reach this host."""
        keys = signing_keys(key)
        if not keys:
            raise BadChoice("key", KEY_FOUND, KEY_WANTED)
        if not lease >= 1.0:
            raise BadChoice("lease", lease, LEASE_WANTED)
        self.networks = self._networks(address, networks)
        """Where the other hosts may be; `None` if Ray alone says it."""
        self.address = address
        """The URL of this host for the others."""
        self.lease = lease
        """Seconds after which a host that dies loses its sessions."""
        self.descriptor = descriptor
        """Descriptor of the socket for the other hosts alone; `None` if there is none."""
        self.keys = keys
        """The keys, which are shown nowhere: the first one signs, and each is believed."""
        self.authenticator: Authenticator | None = None
        """Who may ask this host, if it has no authenticator of its own; `None`: the key of its users is needed."""
        self.program = ""
        """What this host runs, which it tells the others: see `program_text`."""
        self.slots: frozenset[int] | None = None
        """Slots of the sessions that this host looks after; `None`: those that it gets, as all hosts share them out."""
        self.members: frozenset[str] | None = None
        """Addresses of the other hosts; `None`: those that hold slots."""

    def _names(self, address: str) -> tuple[str, ...]:
        """Return the names in *address*; raise `BadConnection` if it cannot be that of a host."""
        return (read_address(address).host,)

    def _networks(self, address: str, names: Iterable[str]) -> MemberNetworks | None:
        """Return the networks of the other hosts; raise `BadChoice` if *names* has what is none."""
        return MemberNetworks(read_address(address), names)

    def name_networks(self, names: Iterable[str]) -> None:
        """Have the other hosts be in the networks *names* alone; raise `BadChoice` if one is none."""
        self.networks = self._networks(self.address, names)

    def __repr__(self) -> str:
        return f"<Cluster at {self.address!r}, lease {self.lease:g} s>"

    @property
    def local_token(self) -> str:
        """The token for this machine of hosts that have no authenticator: all that have the key have the same."""
        return urlsafe_b64encode(hmac.digest(self.keys[0], OF_TOKEN, "sha256")[:TOKEN_BYTES]).decode()

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the address."""
        return is_own_machine(read_address(self.address).host)

    # How the other hosts are found

    def has(self, address: str) -> bool:
        """Whether a holder's *address* may be that of a host: other programs may have any text.

        One that could be that of a host, and is where none of this cluster may be, is named in the log.
        """
        if self.members is not None:
            return address in self.members
        try:
            host = read_address(address)
        except BadConnection:
            return False
        if self.networks is not None and not self.networks.may_have(host):
            self.networks.tell(address)
            return False
        return True

    def has_peer(self, address: str, peer: str) -> bool:
        """Whether the host at *address* may have the IP address *peer*, to which a connection was made."""
        if self.networks is None or self.networks.has_peer(peer):
            return True
        self.networks.tell(address)
        return False

    async def find(self, address: str) -> HostAddress | None:
        """Return where the host at *address* listens; `None` if that is not known now."""
        return read_address(address)

    async def find_again(self, address: str) -> HostAddress | None:
        """Return where the host at *address* listens now, wherever it was found before."""
        return await self.find(address)

    def lose(self, address: str) -> None:
        """Note that the host at *address* is not where it was found."""

    def home(self, session_id: str) -> str | None:  # noqa: ARG002 - here, no session has one
        """Return the address of the host that is to run a session, by its id in the journal; `None`: any host."""
        return None
