"""The program of one of several hosts: that of `tests.host.deployed`, on a journal that another process serves."""

from __future__ import annotations

import os
from typing import cast

import trio

from agentrail import SessionSpec
from agentrail.host import ApiKeys, Cluster, Host, Profile
from agentrail.journals import PostgresJournal
from agentrail.ports.journal import Journal
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


def journal() -> Journal:
    """Return the journal that the environment names: a socket, or a database."""
    place = os.environ["JOURNAL"]
    if place.startswith("postgresql:"):
        return PostgresJournal(place)
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
