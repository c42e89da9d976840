"""`open_shared`: the sessions of a journal, for all processes of one user that want them.

Whoever comes first locks a file beside the journal, and serves it to the others, at an endpoint that only this user can
reach: a unix socket or, without such sockets, a port of this machine. Whoever comes later is a client of that, and so
is the one that serves: all do the same by the same interface. When the one that serves ends, however it ends, the first
of the others to notice has the lock, and serves the journal.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

import trio

from agentrail.adapters.file_lock import open_lock_file, try_lock_file
from agentrail.adapters.journals.sql.sqlite_journal import SqliteJournal
from agentrail.adapters.system import HAS_UNIX_SOCKETS
from agentrail.api.limits import HostLimits
from agentrail.app.supervisor_options import SupervisorOptions
from agentrail.cli.agents.begun_agents import AgentMaker, BegunAgents, is_begun
from agentrail.cli.host.holder_file import HolderFile, read_holder
from agentrail.cli.own_files import ANOTHER_FOLDER
from agentrail.errors import AgentrailError, CannotListen, FileFailed, JournalFull, JournalInUse, NothingWritten
from agentrail.host.authentication.identity import Authenticator
from agentrail.host.host_server import Host
from agentrail.nurseries import open_shielded_nursery
from agentrail.ports.journal import NO_LEASE, Claim, Latest, Lease, Redaction
from agentrail.remote.remote_supervisor import RemoteSupervisor
from agentrail.remote.transport.host_address import CutError, HostKey
from agentrail.remote.transport.host_connection import open_line

LIMITS: Final = HostLimits(
    sessions=10_000,
    requests_per_second=10_000.0,
    burst=10_000,
    body_bytes=16 * 1024 * 1024,
    json_depth=256,
    drain_seconds=2.0,
)
"""One person at one machine has all of it; and waits for the end of the program."""

PATIENCE: Final = 5.0
"""Seconds within which a journal that is in use is to be served: its holder may only begin, or be about to end."""

AGAIN: Final = 0.05
"""Seconds after which it is tried again."""

MAX_NAME: Final = 200
"""The most bytes that are read of what the process that serves has written into the lock file."""

NAMELESS: Final = "the process that serves it has not said who it is"

SERVER: Final = "the program that serves this journal"
"""The holder of the sessions."""


class Endpoint(Protocol):
    """Where the journal is served to other processes of this user."""

    url: str
    """The URL of the host there."""
    key: HostKey
    """The key for the host, once `reach` has connected to it."""

    @property
    def file(self) -> Path:
        """The file that says where the page is, while a process serves one."""
        ...

    async def reach(self) -> trio.abc.Stream:
        """Connect to the process that serves; raise `OSError` if none does, `CannotListen` if it is a stranger's."""
        ...

    def serving(
        self, host_for: Callable[[Authenticator], Host], *, has_page: bool
    ) -> AbstractAsyncContextManager[None]:
        """Serve the host of an authenticator, with its page or without, until the `async with` is left."""
        ...


def endpoint_of(journal: Path) -> Endpoint:
    """Return the endpoint at which *journal* is served, if a process does."""
    if HAS_UNIX_SOCKETS:
        from agentrail.cli.host.unix_endpoint import UnixEndpoint  # noqa: PLC0415 - not for every system

        return UnixEndpoint(journal)
    from agentrail.cli.host.loopback_endpoint import LoopbackEndpoint  # noqa: PLC0415 - not for every system

    return LoopbackEndpoint(journal)


class ServedJournal(SqliteJournal):
    """The journal of the process that alone serves it: it has at once the sessions of the one that did so before it.

    Not every system tells whether the process lives that has a lease; its holder may claim the session at any time.

    Of a session that somebody else has begun, its records alone count: they are what a person was shown.
    """

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        """Claim a session for whoever serves the journal."""
        del holder
        return await super().claim(session_id, SERVER, lease, take_over=take_over)

    async def delete(self, session_id: str, holder: str, at: int) -> int:
        """Delete a session, as whoever serves the journal."""
        del holder
        return await super().delete(session_id, SERVER, at)

    async def redact(self, session_id: str, first: int, last: int, note: Redaction, holder: str) -> int:
        """Redact records of a session, as whoever serves the journal."""
        del holder
        return await super().redact(session_id, first, last, note, SERVER)

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        """Return the snapshot of a session and records, as the journal does; no snapshot of one begun by somebody else.

        A snapshot may say something else than the records.
        """
        if await self._is_begun(session_id):
            return await super().latest(session_id, upto, limit)
        return Latest(None, await self.read(session_id, 0, limit if upto is None else min(limit, upto)))

    async def _is_begun(self, session_id: str) -> bool:
        """Whether this user has begun a session; not if that cannot be told, as the key cannot be read."""
        with suppress(FileFailed):
            for first in await self.read(session_id, 0, 1):
                return await is_begun(self, first)
        return False


class SharedHost:
    """The host of one journal as this process uses it: another process serves it, or this one does."""

    def __init__(
        self,
        journal: Path,
        make_agent: AgentMaker,
        nursery: trio.Nursery,
        options: SupervisorOptions | None,
        *,
        has_page: bool,
    ) -> None:
        self.endpoint = endpoint_of(journal)
        """Where the journal is served."""
        self.serves = False
        """Whether this process is the one that serves."""
        self.journal = journal
        """The file of the journal."""
        self._agents = BegunAgents(journal, make_agent)
        self._options = options
        self._has_page = has_page
        self._nursery = nursery

    async def settle(self) -> None:
        """Wait until the journal is served, by another process or else by this one.

        Raise `JournalInUse` if a process serves it that cannot be reached, and `CannotListen` if nobody can be reached;
        `NothingWritten` if the file stays locked: of several processes that make it at once, SQLite refuses some.
        """
        until = trio.current_time() + PATIENCE
        while True:
            try:
                await trio.aclose_forcefully(await self._reach_or_serve())
            except JournalFull:
                raise
            except (JournalInUse, NothingWritten):
                if trio.current_time() >= until:
                    raise
            except OSError as error:  # the process that served has just ended
                if trio.current_time() >= until:
                    raise CannotListen(self.endpoint.url, str(error), ANOTHER_FOLDER) from error
            else:
                return
            await trio.sleep(AGAIN)

    async def dial(self) -> trio.abc.Stream:
        """Connect to the process that serves the journal; begin to serve it here if none does.

        Raise `CutError` if both fail.
        """
        try:
            return await self._reach_or_serve()
        except AgentrailError as error:
            raise CutError(str(error)) from error

    async def _reach_or_serve(self) -> trio.abc.Stream:
        try:
            return await self.endpoint.reach()
        except OSError:
            if not self.serves:
                await self._nursery.start(self._serve)
            return await self.endpoint.reach()

    async def _serve(self, task_status: trio.TaskStatus[None]) -> None:
        journal = ServedJournal(self.journal)

        def host_for(authenticator: Authenticator) -> Host:
            return Host(
                self._agents.find, authenticator=authenticator, journal=journal, limits=LIMITS, supervisor=self._options
            )

        try:
            # Opens the journal now: `Host` would start without it, and wait until it can be opened
            await journal.release(())
            with sole_server(self.journal):
                async with self.endpoint.serving(host_for, has_page=self._has_page):
                    self.serves = True
                    task_status.started()
                    await trio.sleep_forever()
        finally:
            self.serves = False
            # Shielded: threads of the journal end, and its log is moved into the file.
            # tests/cli/test_shared_host.py::test_when_the_one_that_serves_leaves_another_goes_on
            with trio.CancelScope(shield=True):
                await journal.close()


@contextmanager
def sole_server(journal: Path) -> Generator[None]:
    """Be the only process that serves *journal* until the `with` is left; raise `JournalInUse` if another one does."""
    lock = open_lock_file(journal.with_name(f"{journal.name}.lock"), owner=journal.stat().st_uid)
    try:
        if not try_lock_file(lock):
            raise JournalInUse(str(journal), os.read(lock, MAX_NAME).decode(errors="replace") or NAMELESS)
        os.truncate(lock, 0)
        os.write(lock, f"process {os.getpid()}".encode())
        yield
    finally:
        os.close(lock)


async def is_served(journal: Path) -> bool:
    """Whether a process of this user serves *journal* now."""
    try:
        stream = await endpoint_of(journal).reach()
    except (OSError, CannotListen):  # nobody has served it yet, the process has ended, or another user has its place
        return False
    await trio.aclose_forcefully(stream)
    return True


def find_page(journal: Path | None) -> HolderFile | None:
    """Return where the page of the process is that serves *journal* (by default the user's); `None` if there is none.

    Whoever serves it has to have been reached: the file of a process that was killed says nothing.
    """
    try:
        return read_holder(endpoint_of(SqliteJournal(journal).path).file)
    except (OSError, CannotListen):
        return None


@asynccontextmanager
async def open_served(journal: Path) -> AsyncGenerator[RemoteSupervisor, None]:
    """Open the supervisor of the process that serves *journal* now, and close it when the block ends."""
    endpoint = endpoint_of(journal)
    async with open_line(endpoint.url, endpoint.key, dial=endpoint.reach) as line:
        yield RemoteSupervisor(line)


@asynccontextmanager
async def open_shared(
    journal: Path | None, make_agent: AgentMaker, options: SupervisorOptions | None = None, *, has_page: bool = True
) -> AsyncGenerator[RemoteSupervisor, None]:
    """Open the supervisor of the sessions in *journal* (by default the user's), and close it when the block ends.

    If this process is the one that serves, *make_agent* makes the agents that this user has begun or allowed, the
    supervisor has *options*, and with *has_page* browsers of this machine can open the page.
    Raise `JournalInUse` if a process serves the journal that cannot be reached.
    """
    async with open_shielded_nursery() as nursery:
        shared = SharedHost(SqliteJournal(journal).path, make_agent, nursery, options, has_page=has_page)
        await shared.settle()
        async with open_line(shared.endpoint.url, shared.endpoint.key, dial=shared.dial) as line:
            yield RemoteSupervisor(line)
