"""`UnixEndpoint`: a journal is served at a unix socket beside its file, which only its user can open."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote

import trio

from agentrail.adapters.peer_process import StrangePeerError, check_peer
from agentrail.cli.holder_file import HolderFile, holding
from agentrail.cli.own_files import ANOTHER_PLACE, NOT_OURS, is_own_folder
from agentrail.errors import CannotListen
from agentrail.host.authentication.authenticators import SocketOwner
from agentrail.host.authentication.identity import Authenticator
from agentrail.host.host_server import Host
from agentrail.remote.transport.host_address import HostKey

KEY: Final = "whoever-reaches-the-socket"
"""No secret, and not looked at: the socket is that of the user alone."""

START_BOTH: Final = f"start both outside of it, or {ANOTHER_PLACE}"

MAX_PATH: Final = 100
"""The most bytes of the path of a socket; systems take 104 or 108."""


class UnixEndpoint:
    """The socket of one journal."""

    def __init__(self, journal: Path) -> None:
        self.socket = socket_of(journal)
        """The path of the socket."""
        self.file = self.socket.with_name(f"{self.socket.name}.json")
        """The path of the file with the port of the page and its token (mode 0600)."""
        self.url = f"unix:{quote(os.fsencode(self.socket))}"
        """The URL of the host there."""
        self.key = HostKey(KEY)
        """The key for the host."""

    async def reach(self) -> trio.abc.Stream:
        """Connect to the process that serves; raise `OSError` if none does, `CannotListen` if it is a stranger's.

        The process is looked at, not the path: another socket may lie there by the time of the connection.
        """
        stream = await trio.open_unix_socket(self.socket)
        try:
            check_peer(stream.socket)
        except BaseException as error:
            await trio.aclose_forcefully(stream)
            if isinstance(error, StrangePeerError):
                raise CannotListen(f"unix:{self.socket}", str(error), START_BOTH) from error
            raise
        return stream

    @asynccontextmanager
    async def serving(self, host_for: Callable[[Authenticator], Host], *, has_page: bool) -> AsyncGenerator[None, None]:
        """Serve the host of an authenticator at the socket until the `async with` is left; with a page, at a port too.

        The port needs the token that is in the file, as any user of this machine can open it.
        """
        owner = SocketOwner()
        async with host_for(owner).serving(0 if has_page else None, unix=self.socket) as serving:
            with holding(self.file, HolderFile.at(serving.url, owner.token) if has_page else None):
                yield


def socket_of(journal: Path) -> Path:
    """Return the path of a journal's socket: beside the file, or in the user's folder if that path is too long."""
    beside = journal.with_name(f"{journal.name}.sock")
    if len(os.fsencode(beside)) <= MAX_PATH:
        return beside
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir(), f"agentrail-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if not is_own_folder(folder.lstat()):
        raise CannotListen(f"unix:{folder}", NOT_OURS, ANOTHER_PLACE)
    return folder / f"{sha256(os.fsencode(journal)).hexdigest()[:32]}.sock"
