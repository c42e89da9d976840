"""Where a session of a test runs: in a supervisor here, at a host on loopback, or at one of several on one journal."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from random import Random
from typing import Final, Never, TypeAlias, cast

import pytest
from attrs import frozen

from agentrail import (
    AnySession,
    AnySupervisor,
    RemoteSession,
    RemoteSupervisor,
    SessionHandle,
    SessionSpec,
    Supervisor,
    connect,
    open_supervisor,
)
from agentrail.errors import AgentrailError, SessionExists, SessionStored
from agentrail.host import Profile
from agentrail.journals import MemoryJournal
from tests.host.cluster.several import KNOWN_LEASE, open_member, until_known
from tests.host.hosted import KEYS, open_desk
from tests.profiles import CAMPAIGN

HOSTS: Final = 3 if CAMPAIGN else 2
"""How many hosts have one journal."""


def as_session(session: RemoteSession | SessionHandle) -> AnySession:
    """Return *session*: mypy and pyright compare the classes here."""
    return session


def as_supervisor(supervisor: Supervisor | RemoteSupervisor) -> AnySupervisor[Never]:
    """Return *supervisor*: mypy and pyright compare the classes here."""
    return supervisor


@frozen
class SessionAccess:
    """A session, and the supervisor that has it."""

    session: AnySession
    supervisor: AnySupervisor[Never]
    redact: Callable[[str], Awaitable[int]]
    """Blots out the texts of a session."""
    seen: str = ""
    """What comes before the names of sessions in their ids."""
    taken: tuple[type[AgentrailError], ...] = (SessionExists,)
    """How a name is refused that another session has."""


Open: TypeAlias = Callable[[SessionSpec], AbstractAsyncContextManager[SessionAccess]]


@asynccontextmanager
async def local(spec: SessionSpec) -> AsyncGenerator[SessionAccess]:
    """Open a supervisor with the session `trip`."""
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        session = as_session(await supervisor.spawn(spec, "trip"))
        yield SessionAccess(session, as_supervisor(supervisor), partial(supervisor.redact, by="boss"))


@asynccontextmanager
async def remote(spec: SessionSpec) -> AsyncGenerator[SessionAccess]:
    """Open a host, connect to it, and open the session `trip`."""
    async with (
        open_desk([Profile("desk", spec)]) as desk,
        connect(desk.serving.url, KEYS["eve"]) as supervisor,
    ):
        session = as_session(await supervisor.spawn("desk", "trip"))
        yield SessionAccess(session, as_supervisor(supervisor), supervisor.redact, "ann.")


class AnyOf:
    """Handles of the same thing at several hosts: each call goes to any of them."""

    def __init__(self, handles: Sequence[object], chance: Random) -> None:
        self._handles = handles
        self._chance = chance

    def __getattr__(self, name: str) -> object:
        return getattr(self._chance.choice(self._handles), name)


@asynccontextmanager
async def several(spec: SessionSpec) -> AsyncGenerator[SessionAccess]:
    """Open hosts on one journal and the session `trip` at one of them; each call goes to any."""
    journal, chance = MemoryJournal(), Random(HOSTS)
    async with AsyncExitStack() as stack:
        desks = [await stack.enter_async_context(open_member(journal, spec, lease=KNOWN_LEASE)) for _ in range(HOSTS)]
        await until_known(*desks)
        supervisors = [await stack.enter_async_context(connect(desk.serving.url, KEYS["eve"])) for desk in desks]
        opened = await chance.choice(supervisors).spawn("desk", "trip")
        sessions = [supervisor.session(opened.id) for supervisor in supervisors]
        supervisor = cast("AnySupervisor[Never]", AnyOf(supervisors, chance))
        yield SessionAccess(
            cast("AnySession", AnyOf(sessions, chance)),
            supervisor,
            supervisors[0].redact,
            "ann.",
            (SessionExists, SessionStored),
        )


EVERY_ACCESS = pytest.mark.parametrize(
    "opened",
    [
        pytest.param(local, id="local"),
        pytest.param(remote, id="remote"),
        pytest.param(several, id="several", marks=pytest.mark.long),
    ],
)
