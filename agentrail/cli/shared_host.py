"""`open_shared`: the sessions of a journal, for all processes of one user that want them.

Whoever comes first holds the journal, and serves it to the others, at a socket beside its file that only this user can
reach. Whoever comes later is a client of that, and so is the one that serves: all do the same by the same interface.
When the one that serves ends, however it ends, the first of the others to notice holds the journal and serves it.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote

import trio

from agentrail.adapters.journals.sqlite.journal import SqliteJournal
from agentrail.api.limits import HostLimits
from agentrail.app.supervisor_options import SupervisorOptions
from agentrail.errors import AgentrailError, CannotListen, JournalInUse
from agentrail.host.authentication.authenticators import LOCAL
from agentrail.host.authentication.identity import Identity
from agentrail.host.host_server import Host
from agentrail.host.profiles import ProfileOf
from agentrail.nurseries import open_shielded_nursery
from agentrail.remote.remote_supervisor import RemoteSupervisor
from agentrail.remote.transport.client_socket import CutError
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

KEY: Final = "whoever-reaches-the-socket"
"""No secret: the socket is that of the user alone."""

PATIENCE: Final = 5.0
"""Seconds within which a journal that is in use is to be served: its holder may only begin, or be about to end."""

AGAIN: Final = 0.05
"""Seconds after which it is tried again."""

MAX_PATH: Final = 100
"""The most bytes of the path of a socket; systems take 104 or 108."""

STOP_WITHIN: Final = 6.0
"""The most seconds that a program may take to end: other programs go on with its sessions, or the next one does."""

NOT_OURS: Final = "it is not of this user alone"
ANOTHER_PLACE: Final = "use a journal in a folder of your own"


class SocketOwner:
    """Authenticates every caller of a Unix socket that only one user can open as that user."""

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        """Return the one user."""
        del headers
        await trio.lowlevel.checkpoint()
        return LOCAL


class SharedHost:
    """The host of one journal as this process uses it: another process serves it, or this one does."""

    def __init__(
        self, journal: Path, profiles: ProfileOf, nursery: trio.Nursery, options: SupervisorOptions | None
    ) -> None:
        self.socket = socket_of(journal)
        """The path of the socket at which the journal is served."""
        self.serves = False
        """Whether this process is the one that serves."""
        self.journal = journal
        """The file of the journal."""
        self._profiles = profiles
        self._options = options
        self._nursery = nursery

    async def settle(self) -> None:
        """Wait until the journal is served, by another process or else by this one.

        Raise `JournalInUse` if a program has it that does not serve it so, and `CannotListen` if nobody can be reached.
        """
        until = trio.current_time() + PATIENCE
        while True:
            try:
                await trio.aclose_forcefully(await self._reach_or_serve())
            except JournalInUse:
                if trio.current_time() >= until:
                    raise
            except OSError as error:  # the process that served has just ended
                if trio.current_time() >= until:
                    raise CannotListen(f"unix:{self.socket}", str(error), ANOTHER_PLACE) from error
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
            return await self._reach()
        except OSError:
            if not self.serves:
                await self._nursery.start(self._serve)
            return await self._reach()

    async def _reach(self) -> trio.abc.Stream:
        # Another user has put a socket there, and would read what is sent
        if self.socket.lstat().st_uid != os.getuid():
            raise CannotListen(f"unix:{self.socket}", NOT_OURS, ANOTHER_PLACE)
        return await trio.open_unix_socket(self.socket)

    async def _serve(self, task_status: trio.TaskStatus[None]) -> None:
        journal = SqliteJournal(self.journal)
        host = Host(
            self._profiles, authenticator=SocketOwner(), journal=journal, limits=LIMITS, supervisor=self._options
        )
        try:
            # Opens the journal now: `Host` would start without it, and wait until it can be opened
            await journal.release(())
            async with host.serving(unix=self.socket):
                self.serves = True
                task_status.started()
                await trio.sleep_forever()
        finally:
            self.serves = False
            # Shielded: the next process can open the journal only after it is closed here.
            # tests/cli/test_shared_host.py::test_when_the_one_that_serves_leaves_another_goes_on
            with trio.CancelScope(shield=True):
                await journal.close()


def socket_of(journal: Path) -> Path:
    """Return the path of a journal's socket: beside the file, or in the user's folder if that path is too long."""
    beside = journal.with_name(f"{journal.name}.sock")
    if len(os.fsencode(beside)) <= MAX_PATH:
        return beside
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir(), f"agentrail-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o077:
        raise CannotListen(f"unix:{folder}", NOT_OURS, ANOTHER_PLACE)
    return folder / f"{sha256(os.fsencode(journal)).hexdigest()[:32]}.sock"


def address_of(journal: Path) -> str:
    """Return the URL of the host of *journal*; there may be no host."""
    return f"unix:{quote(os.fsencode(socket_of(journal)))}"


async def is_served(journal: Path) -> bool:
    """Whether a process of this user serves *journal* at the socket now."""
    socket = socket_of(journal)
    try:
        if socket.lstat().st_uid != os.getuid():
            return False
        stream = await trio.open_unix_socket(socket)
    except OSError:  # there is no socket, or its process has ended without removing it
        return False
    await trio.aclose_forcefully(stream)
    return True


@asynccontextmanager
async def open_shared(
    journal: Path | None, profiles: ProfileOf, options: SupervisorOptions | None = None
) -> AsyncGenerator[RemoteSupervisor, None]:
    """Open the supervisor of the sessions in *journal* (by default the user's), and close it when the block ends.

    If this process is the one that serves, *profiles* finds the agents, and the supervisor has *options*.
    Raise `JournalInUse` if a program has the journal that does not serve it so.
    """
    async with open_shielded_nursery() as nursery:
        shared = SharedHost(SqliteJournal(journal).path, profiles, nursery, options)
        await shared.settle()
        async with open_line(address_of(shared.journal), KEY, dial=shared.dial) as line:
            yield RemoteSupervisor(line)
