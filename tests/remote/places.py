"""Where a session of a test runs: in a supervisor here, or at a host on loopback."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Never, TypeAlias

import pytest
from attrs import frozen

from agentrail import SessionSpec, open_supervisor
from agentrail.api.protocols import AnySession, AnySupervisor
from agentrail.app.supervisor import Supervisor
from agentrail.host.profiles import Profile
from agentrail.journals import MemoryJournal
from agentrail.remote.remote_session import RemoteSession
from agentrail.remote.remote_supervisor import RemoteSupervisor, connect
from agentrail.runtime.handle import SessionHandle
from tests.host.hosted import KEYS, open_desk


def as_session(session: RemoteSession | SessionHandle) -> AnySession:
    """Return *session*: mypy and pyright compare the classes here."""
    return session


def as_supervisor(supervisor: Supervisor | RemoteSupervisor) -> AnySupervisor[Never]:
    """Return *supervisor*: mypy and pyright compare the classes here."""
    return supervisor


@frozen
class Place:
    """A session, and the supervisor that has it."""

    session: AnySession
    supervisor: AnySupervisor[Never]
    redact: Callable[[str], Awaitable[int]]
    """Blots out the texts of a session."""
    seen: str = ""
    """What comes before the names of sessions in their ids."""


Open: TypeAlias = Callable[[SessionSpec], AbstractAsyncContextManager[Place]]


@asynccontextmanager
async def local(spec: SessionSpec) -> AsyncGenerator[Place]:
    """Open a supervisor with the session `trip`."""
    async with open_supervisor(journal=MemoryJournal()) as supervisor:
        session = as_session(await supervisor.spawn(spec, "trip"))
        yield Place(session, as_supervisor(supervisor), partial(supervisor.redact, by="boss"))


@asynccontextmanager
async def remote(spec: SessionSpec) -> AsyncGenerator[Place]:
    """Open a host, connect to it, and open the session `trip`."""
    async with (
        open_desk([Profile("desk", spec)]) as desk,
        connect(desk.serving.url, KEYS["eve"]) as supervisor,
    ):
        session = as_session(await supervisor.spawn("desk", "trip"))
        yield Place(session, as_supervisor(supervisor), supervisor.redact, "ann.")


PLACES: Sequence[tuple[str, Open]] = (("local", local), ("remote", remote))
EACH_PLACE = pytest.mark.parametrize("opened", [each for _, each in PLACES], ids=[name for name, _ in PLACES])
