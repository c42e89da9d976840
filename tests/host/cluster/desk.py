"""The program of one of several hosts: that of `tests.host.deployed`, on a journal of all of them.

What the journal refuses to a host that has lost a session is noted in the witness.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import cast

import trio

from agentrail import SessionSpec
from agentrail.errors import Fenced
from agentrail.host import ApiKeys, Cluster, Host, Profile
from agentrail.journals import PostgresJournal
from agentrail.ports.journal import Claim, Journal, Record
from agentrail.testing import ScriptedModel, say
from tests.host.cluster.several import KEY, LEASE
from tests.host.deployed import desk
from tests.recovery.shared import SharedJournal


class LaterJournal(SharedJournal):
    """Connects to the journal when that is used first."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._dialling = trio.Lock()
        self._is_connected = False

    async def _ask(self, name: str, *args: object, **more: object) -> object:
        async with self._dialling:
            if not self._is_connected:
                super().__init__(await trio.open_unix_socket(self._path))
                self._is_connected = True
        return await super()._ask(name, *args, **more)


class WitnessedJournal(PostgresJournal):
    """Notes what is refused to who has lost a session."""

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        try:
            return await super().append(claim, expected, records)
        except Fenced:
            desk.note("fenced", claim.session_id, time.monotonic())
            raise


def journal() -> Journal:
    """Return the journal that the environment names: a socket, or a database."""
    place = os.environ["JOURNAL"]
    if place.startswith("postgresql:"):
        return WitnessedJournal(place)
    return cast("Journal", LaterJournal(place))


def slow(_: object) -> SessionSpec:
    """Return an agent whose turns take several seconds, in which it says something all the time."""
    words = " ".join(f"word{number}" for number in range(200))
    return SessionSpec(model=ScriptedModel([say(words, delay=0.02)], repeat_last=True))


host = Host(
    [Profile("desk", desk.spec), Profile("slow", slow)],
    authenticator=ApiKeys("keys.txt"),
    journal=journal(),
    limits=desk.host.limits,
    cluster=Cluster(os.environ["ADDRESS"], KEY, lease=float(os.environ.get("LEASE", LEASE))),
)
