"""`UnixEndpoint`: a journal is served at a unix socket in a folder that only its user can enter, and no agent sees.

It is not beside the journal: an agent may work in that folder, and whoever reaches the socket needs no key. Processes
of one user may have different variables, so a client looks in each of the folders in which the socket may be.
"""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote

import trio

from agentrail.adapters.peer_process import StrangePeerError, check_peer
from agentrail.adapters.user_folders import home, socket_folders
from agentrail.cli.host.holder_file import HolderFile, holding
from agentrail.cli.own_files import ANOTHER_FOLDER, is_own, is_own_folder
from agentrail.errors import CannotListen
from agentrail.host.authentication.authenticators import SocketOwner
from agentrail.host.authentication.identity import Authenticator
from agentrail.host.host_server import Host
from agentrail.remote.transport.host_address import HostKey

KEY: Final = "whoever-reaches-the-socket"
"""No secret, and not looked at: the socket is that of the user alone."""

START_BOTH: Final = f"start both outside of it, or {ANOTHER_FOLDER}"
NO_FOLDER: Final = "none of these folders is of this user alone and has a path that is short enough"
OWN_FOLDER: Final = "let XDG_RUNTIME_DIR name a folder of your own, of mode 0700 and with a short path"

MAX_PATH: Final = 100
"""The most bytes of the path of a socket; systems take 104 or 108."""


class UnixEndpoint:
    """The socket of one journal."""

    def __init__(self, journal: Path) -> None:
        self.socket = socket_of(journal)
        """The path of the socket, if this process serves the journal."""
        self.url = f"unix:{quote(os.fsencode(self.socket))}"
        """The URL of the host there."""
        self.key = HostKey(KEY)
        """The key for the host."""

    @property
    def file(self) -> Path:
        """The path of the file with the port of the page and its token (mode 0600)."""
        files = [_file_of(path) for path in self._socket_paths()]
        return next((file for file in files if file.exists()), files[0])

    async def reach(self) -> trio.abc.Stream:
        """Connect to the process that serves; raise `OSError` if none does, `CannotListen` if it is a stranger's.

        The process is looked at, not the path: another socket may lie there by the time of the connection.
        """
        for path in self._socket_paths()[1:]:
            with suppress(OSError):
                return await _connect(path)
        return await _connect(self.socket)

    @asynccontextmanager
    async def serving(self, host_for: Callable[[Authenticator], Host], *, has_page: bool) -> AsyncGenerator[None, None]:
        """Serve the host of an authenticator at the socket until the `async with` is left; with a page, at a port too.

        The port needs the token that is in the file, as any user of this machine can open it.
        """
        owner = SocketOwner()
        async with host_for(owner).serving(0 if has_page else None, unix=self.socket) as serving:
            for path in self._socket_paths():  # this process has the journal, so nobody else serves it
                _file_of(path).unlink(missing_ok=True)
            with holding(_file_of(self.socket), HolderFile.of_url(serving.url, owner.token) if has_page else None):
                yield

    def _socket_paths(self) -> list[Path]:
        """Return the paths at which the socket may be, that of this process first."""
        folders = [folder for folder in socket_folders() if folder != self.socket.parent and _is_private(folder)]
        return [self.socket, *[folder / self.socket.name for folder in folders]]


async def _connect(path: Path) -> trio.SocketStream:
    stream = await trio.open_unix_socket(path)
    try:
        check_peer(stream.socket)
    except StrangePeerError as error:
        await trio.aclose_forcefully(stream)
        raise CannotListen(f"unix:{path}", str(error), START_BOTH) from error
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


def socket_of(journal: Path) -> Path:
    """Return the path of a journal's socket for the process that serves it, in a folder that is made if need be."""
    name = f"{sha256(os.fsencode(journal)).hexdigest()[:32]}.sock"
    for folder in socket_folders():
        if len(os.fsencode(folder / name)) <= MAX_PATH and _is_made(folder):
            return folder / name
    raise CannotListen(f"a socket for `{journal}`", f"{NO_FOLDER}: {', '.join(map(str, socket_folders()))}", OWN_FOLDER)


def _is_made(folder: Path) -> bool:
    """Make *folder* if it is missing; return whether only this user can enter it, and nobody else can rename it."""
    try:
        if folder.parent == home():
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        above = folder.parent.stat()
        if not is_own(above) and not above.st_mode & stat.S_ISVTX:
            return False
        folder.mkdir(mode=0o700, exist_ok=True)
    except (OSError, RuntimeError):  # `home` raises the second one for a user who has none
        return False
    return _is_private(folder)


def _is_private(folder: Path) -> bool:
    try:
        return is_own_folder(folder.lstat())
    except OSError:
        return False


def _file_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")
