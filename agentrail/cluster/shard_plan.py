"""`ShardPlan`: what all shards of a cluster are made of; `ShardAddress`: where one of them is. Both travel as JSON."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import Final, cast

import msgspec

from agentrail.ports.journal import SLOTS, slot_of
from agentrail.values.secrets import Secret
from agentrail.values.value import Value, learned
from agentrail.version import __version__

LEASE: Final = 10.0
"""Seconds after which shards lose their sessions to others, unless the caller says: it is a part of their version."""

DIGITS: Final = 12
"""How many digits of a digest are shown."""

PASSWORD: Final = re.compile("//[^/]*@")
"""User and password in the URL of a journal: they may change."""


class ShardPlan(Value):
    """What each shard is made of."""

    count: int
    """How many shards there are."""
    file: str
    """Path of the program on each machine; empty for the demo agent."""
    name: str
    """Name in the file; empty for the first that can be served."""
    journal: str
    """URL of the journal; empty for that of the host in the file."""
    lease: float
    """Seconds after which a shard loses its sessions to others."""
    key: str = ""
    """The key of the cluster; empty if it is in a variable."""
    key_variable: str = ""
    """The environment variable with the key, on each machine."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all shards."""
        return tuple([shard_name(number) for number in range(self.count)])

    def stand_in(self, name: str) -> str:
        """Return the name of the shard that stands in for the shard *name* while that one has no process."""
        return self.names[self.names.index(name) - 1]

    @property
    def secret(self) -> str | Secret:
        """The key, or what names its variable."""
        return Secret(self.key_variable) if self.key_variable else self.key

    def slots(self, number: int) -> frozenset[int]:
        """Return the slots of the sessions that a shard looks after."""
        return frozenset(range(number, SLOTS, self.count))

    def home(self, session_id: str) -> str:
        """Return the name of the shard that runs a session."""
        return shard_name(slot_of(session_id) % self.count)

    def version(self) -> str:
        """Return what tells programs apart: the version of agentrail, and a digest of the file and the plan."""
        content = Path(self.file).read_bytes() if self.file else b""
        plan = f"{self.name} {PASSWORD.sub('', self.journal)} {self.lease:g}"
        return f"{__version__}+{sha256(content + plan.encode()).hexdigest()[:DIGITS]}"


class ShardAddress(Value):
    """Where a shard is, and of which version."""

    host: str
    """Address of its machine."""
    port: int
    """The port at which it listens."""
    version: str
    """Version of its program: see `ShardPlan.version`."""
    count: int
    """How many shards it knows of."""
    node: str
    """Id of its machine in Ray."""
    process: int
    """Id of its process."""


def shard_name(number: int) -> str:
    """Return the name of a shard, which is its address in the journal, too."""
    return f"shard-{number}"


def read_plan(content: bytes) -> ShardPlan:
    """Return the plan in *content*."""
    return cast("ShardPlan", msgspec.json.decode(content, type=learned(ShardPlan)))


def read_shard_address(content: bytes) -> ShardAddress:
    """Return the address in *content*."""
    return cast("ShardAddress", msgspec.json.decode(content, type=learned(ShardAddress)))
