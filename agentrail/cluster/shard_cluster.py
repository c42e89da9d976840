"""The cluster from outside: `ShardCluster` knows by Ray where each shard is, `ShardLines` connects a program to all."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from itertools import count
from typing import Final

import trio

from agentrail.api.public_ids import inner_command, name_of_command, named, new_name, user_in_ids, whole_id
from agentrail.api.socket_frames import PATH, Listened
from agentrail.cluster import ray_actors
from agentrail.cluster.ray_actors import NoAnswerError, in_thread
from agentrail.cluster.shard_plan import ShardAddress, ShardPlan, shard_name
from agentrail.errors import AgentrailError, NotAuthenticated
from agentrail.host.authentication.identity import Identity
from agentrail.host.cluster.cluster_options import Cluster
from agentrail.host.cluster.signatures import SignedCall, signed_key
from agentrail.nurseries import open_shielded_nursery
from agentrail.remote.transport.host_address import CutError, HostAddress, HostKey, dial_address
from agentrail.remote.transport.host_connection import HostConnection, open_line
from agentrail.remote.transport.host_subscription import HostSubscription
from agentrail.runtime.shared.clock import Clock
from agentrail.runtime.shared.ids import new_id
from agentrail.values.events.envelope import Cursor
from agentrail.values.events.policies import SubscriptionPolicy
from agentrail.values.json import Json, JsonObject

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
        self._shard_addresses: dict[str, ShardAddress] = {}
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
        shard = self._shard_addresses.get(address)
        return await self._ask(address) if shard is None else _host_address(shard)

    async def find_again(self, address: str) -> HostAddress | None:
        """Return where the shard *address* listens now; who stands in for it is asked only if it does not answer."""
        try:
            self._shard_addresses[address] = shard = await in_thread(partial(ray_actors.where, address, SOON_SECONDS))
        except NoAnswerError:
            return await self._ask(address)
        return _host_address(shard)

    async def _ask(self, address: str) -> HostAddress | None:
        """Ask a shard, and who stands in for it, where it is; return `None` if neither answers."""
        shard = await in_thread(partial(ray_actors.where_now, address, self.plan.stand_in(address), ANSWER_SECONDS))
        if shard is None:
            return None
        self._shard_addresses[address] = shard
        return _host_address(shard)

    def lose(self, address: str) -> None:
        """Forget where a shard was."""
        self._shard_addresses.pop(address, None)

    def home(self, session_id: str) -> str | None:
        """Return the name of the shard that runs a session."""
        return self.plan.home(session_id)


def _host_address(shard: ShardAddress) -> HostAddress:
    return HostAddress(shard.host, shard.port)


LONGEST_PAUSE: Final = 0.5
"""The most seconds between two attempts to connect: shards are near, and come back soon."""

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at where the shards are to which the lines lead."""

HANDSHAKE: Final = SignedCall("GET", PATH)
"""What is signed at each connection: the signature holds as long as that."""

NOT_THERE: Final = "Ray does not say where it is"

OPENS: Final = frozenset({"open_session", "fork"})
"""Calls that open a session, whose name says which shard that is."""


class ShardLines:
    """Calls and subscriptions of *who* at the shards of *cluster*, over a line to each."""

    def __init__(self, cluster: ShardCluster, who: Identity, lines: Mapping[str, HostConnection]) -> None:
        self._cluster = cluster
        self._who = who
        self._lines = lines
        self._turns = count()

    @property
    def address(self) -> str:
        """Where the sessions are, to be shown."""
        return f"{len(self._lines)} shards"

    async def call(
        self,
        name: str,
        *,
        session: str | None = None,
        body: JsonObject | None = None,
        query: JsonObject | None = None,
        command: str | None = None,
    ) -> Json:
        """Have the shard of the session carry out a call, or any shard one that is about no single session."""
        if name in OPENS:
            body = {"session": self._name(command), **(body or {})}
            line = self._home(self._opened(session, str(body["session"])))
        else:
            line = self._line(session)
        return await line.call(name, session=session, body=body, query=query, command=command)

    def whole_id(self, session: str) -> str:
        """Return the id that the shards show of the session that this user calls *session*: the id, or its name."""
        return whole_id(user_in_ids(self._who.tenant, self._who.user), session)

    def listen(
        self,
        what: Listened,
        session: str | None = None,
        *,
        since: Cursor | None = None,
        types: Sequence[str] | None = None,
        policy: SubscriptionPolicy = "coalesce",
        changes: JsonObject | None = None,
    ) -> HostSubscription:
        """Return a subscription at the shard of the session, or to a view of any shard."""
        line = self._line(session)
        return line.listen(what, session, since=since, types=types, policy=policy, changes=changes)

    def _name(self, command: str | None) -> str:
        """Return a name for a new session, the same that a host makes up."""
        return new_id() if command is None else name_of_command(inner_command(self._who.user, command))

    def _opened(self, origin: str | None, name: str) -> str | None:
        """Return the id in the journal of a session that is opened, maybe as a fork; `None` if it cannot be one."""
        user = self._who.user if origin is None else named(self._who.tenant, self._who.user, origin).user
        try:
            return new_name(self._who.tenant, user, name).internal
        except AgentrailError:  # the shard that is asked says so
            return None

    def _line(self, session: str | None) -> HostConnection:
        """Return the line to the shard of a *session*; without one, to a shard that is there, each in its turn."""
        session_id: str | None = None
        if session is not None:
            with suppress(AgentrailError):  # the shard that is asked says so
                session_id = named(self._who.tenant, self._who.user, session).root.internal
        return self._home(session_id)

    def _home(self, session_id: str | None) -> HostConnection:
        if session_id is not None:
            return self._lines[self._cluster.plan.home(session_id)]
        lines = [line for line in self._lines.values() if line.is_connected] or list(self._lines.values())
        return lines[next(self._turns) % len(lines)]


class ShardDialler:
    """Connects to the shard *name*, wherever it is now, with a signature of *who* as its *key*."""

    def __init__(self, cluster: ShardCluster, who: Identity, name: str) -> None:
        self.key = HostKey("unsigned")
        """The signature of the last connection."""
        self._cluster = cluster
        self._who = who
        self._name = name
        self._host_address: HostAddress | None = None
        self._stream: trio.abc.Stream | None = None

    async def dial(self) -> trio.abc.Stream:
        """Connect; raise `CutError` if Ray does not say where."""
        self._cluster.lose(self._name)  # it was there, and somebody else may listen there now
        self._host_address = await self._cluster.find(self._name)
        if self._host_address is None:
            raise CutError(NOT_THERE)
        self.key.replace(signed_key(self._cluster, self._who, self._name, Clock().now_ms(), HANDSHAKE, is_first=True))
        self._stream = await dial_address(self._host_address, None)
        return self._stream

    async def watch(self) -> None:
        """Body of a task: cut the connection if the shard is elsewhere now: it may be stopped, and never answer."""
        while True:
            await trio.sleep(LOOK_SECONDS)
            stream, address = self._stream, self._host_address
            if stream is not None and await self._cluster.find_again(self._name) not in {None, address}:
                await trio.aclose_forcefully(stream)


@asynccontextmanager
async def open_lines(cluster: ShardCluster, who: Identity, patience: float) -> AsyncGenerator[ShardLines]:
    """Connect to all shards, for the time of the `async with`."""
    async with open_shielded_nursery() as nursery, AsyncExitStack() as stack:
        lines: dict[str, HostConnection] = {}
        for name in cluster.plan.names:
            dialler = ShardDialler(cluster, who, name)
            opened = open_line(
                f"http://{name}", dialler.key, patience=patience, dial=dialler.dial, longest_pause=LONGEST_PAUSE
            )
            lines[name] = await stack.enter_async_context(opened)
            nursery.start_soon(dialler.watch)
        yield ShardLines(cluster, who, lines)
