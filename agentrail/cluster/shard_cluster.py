"""`ShardCluster`: the cluster of shards, as a shard or a host in front of them sees it: Ray knows where each is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from agentrail.cluster import ray_actors
from agentrail.cluster.ray_actors import NoAnswerError, in_thread
from agentrail.cluster.shard_plan import ShardPlace, ShardPlan, shard_name
from agentrail.errors import NotAuthenticated
from agentrail.host.authentication.identity import Identity
from agentrail.host.cluster.cluster_options import Cluster
from agentrail.remote.transport.host_address import HostAddress

FRONT: Final = "front"
"""The address of who runs no sessions."""

ANSWER_SECONDS: Final = 2.0
"""How long a shard may take to say where it is; one that starts says so when it serves."""

SOON_SECONDS: Final = 1.0
"""How long a shard that is thought to serve may take to say where it is."""

NO_USERS: Final = "a shard answers the hosts and programs of its cluster alone"


class NoUsers:
    """Authenticator of a shard: users talk to the hosts in front of it."""

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:  # noqa: ARG002 - whatever they are
        """Refuse a request."""
        raise NotAuthenticated(NO_USERS)


class ShardCluster(Cluster):
    """The cluster of the shards of *plan*; without a *number*, for who runs no sessions."""

    def __init__(self, plan: ShardPlan, number: int | None = None) -> None:
        super().__init__(FRONT if number is None else shard_name(number), plan.secret, lease=plan.lease)
        self.plan = plan
        """What the shards are made of."""
        self.slots = frozenset() if number is None else plan.slots(number)
        self.members = frozenset(plan.names) - {self.address}
        self._places: dict[str, ShardPlace] = {}
        if number is not None:
            self.authenticator = NoUsers()

    def _names(self, address: str) -> tuple[str, ...]:
        return (address,)

    def _networks(self, address: str, names: Iterable[str]) -> None:
        """Return `None`: the journal says no address of a shard, and Ray is trusted to."""

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the address: so it may be with the host in front, not with shards."""
        return self.address == FRONT

    def has(self, address: str) -> bool:
        """Whether *address* is that of a shard."""
        return address in self.plan.names

    async def find(self, address: str) -> HostAddress | None:
        """Return where the shard *address* listens, as it said before, or says now, or who stands in for it.

        `None` if neither answers.
        """
        place = self._places.get(address)
        return await self._ask(address) if place is None else _address_of(place)

    async def find_again(self, address: str) -> HostAddress | None:
        """Return where the shard *address* listens now; who stands in for it is asked only if it does not answer."""
        try:
            self._places[address] = place = await in_thread(partial(ray_actors.where, address, SOON_SECONDS))
        except NoAnswerError:
            return await self._ask(address)
        return _address_of(place)

    async def _ask(self, address: str) -> HostAddress | None:
        """Ask a shard, and who stands in for it, where it is; return `None` if neither answers."""
        place = await in_thread(partial(ray_actors.where_now, address, self.plan.stand_in(address), ANSWER_SECONDS))
        if place is None:
            return None
        self._places[address] = place
        return _address_of(place)

    def lose(self, address: str) -> None:
        """Forget where a shard was."""
        self._places.pop(address, None)

    def home(self, session_id: str) -> str | None:
        """Return the name of the shard that runs a session."""
        return self.plan.home(session_id)


def _address_of(place: ShardPlace) -> HostAddress:
    return HostAddress(place.host, place.port)
