"""`check_peer`: whether the process at the other end of a unix socket is of this user, and as free as this one.

The kernel keeps the process and the user of each end (`SO_PEERCRED`), whatever the path of the socket leads to by now.
A process in a sandbox has the user of the process that started it, but other namespaces. So does one in a container.

A process may end and its number be given to another one. Since Linux 6.5 the kernel also gives a descriptor of the
process (`SO_PEERPIDFD`), which says whether it still lives after its namespaces were read.

Other systems have no namespaces; there, the modes of the socket and of its folder decide who can connect.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from struct import Struct
from typing import Final, Protocol

CREDENTIALS: Final = Struct("3i")
"""The kernel's `struct ucred`: process, user and group."""

SO_PEERPIDFD: Final = 77
"""The option of sockets that Python has no name for yet."""

NAMESPACES: Final = ("user", "mnt", "pid")
"""The kinds of namespaces that a sandbox always has of its own."""

HAS_ENDED: Final = "the process at the other end has ended"


class StrangePeerError(Exception):
    """The process at the other end of a socket is another user's, or in a sandbox; the text says which."""


class PeerSocket(Protocol):
    """The part of a connected socket, of Python or of Trio, that is used here."""

    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes:
        """Return an option of the socket."""
        ...


def check_peer(connected: PeerSocket) -> None:
    """Raise `StrangePeerError` unless the peer of the unix socket is a process of this user in the same namespaces.

    Raise `ConnectionRefusedError` if that process has ended, so that nobody can tell.
    """
    if sys.platform != "linux":
        return
    pid, user, _ = CREDENTIALS.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    if user != os.geteuid():
        raise StrangePeerError(f"process {pid} at the other end is of user {user}")
    if pid == 0:
        raise StrangePeerError("the process at the other end is in a sandbox or a container, or this one is")
    with _living(connected, pid):
        try:
            differs = [kind for kind in NAMESPACES if _namespace(kind, str(pid)) != _namespace(kind, "self")]
        except PermissionError:  # it has more rights than this one, such as those in a user namespace of its own
            differs = ["hidden"]
        except (FileNotFoundError, ProcessLookupError) as error:
            raise ConnectionRefusedError(HAS_ENDED) from error
    if differs:
        problem = f"process {pid} at the other end is in a sandbox or a container, or this one is"
        raise StrangePeerError(f"{problem} (namespaces: {', '.join(differs)})")


def _namespace(kind: str, pid: str) -> tuple[int, int]:
    status = Path("/proc", pid, "ns", kind).stat()
    return status.st_dev, status.st_ino


@contextmanager
def _living(connected: PeerSocket, pid: int) -> Generator[None]:
    """Raise `ConnectionRefusedError` at the end of the `with` block if the process *pid* has ended meanwhile."""
    try:
        option = connected.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD, 4)
    except OSError:  # the kernel is older
        yield
        return
    descriptor = int.from_bytes(option, sys.byteorder)
    try:
        yield
        if f"Pid:\t{pid}\n" not in Path("/proc/self/fdinfo", str(descriptor)).read_text():
            raise ConnectionRefusedError(HAS_ENDED)
    finally:
        os.close(descriptor)
