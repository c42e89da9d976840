"""`opened_unix`: listens at a unix socket, for the user of this process alone; for systems that have such sockets."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final

import trio

from agentrail.adapters.file_lock import flock_holder, try_lock_file
from agentrail.errors import CannotListen

BACKLOG: Final = 65535
"""Connections that are to wait until they are accepted; the system keeps no more than it is set up to (`somaxconn`)."""

LOCK_AGAIN: Final = 0.01
"""Seconds after which a folder that another process has locked is tried again."""

LOCK_WITHIN: Final = 5.0
"""Seconds within which the folder is to be locked: whoever may enter it may lock it, and keep the lock for ever."""

ANOTHER_PATH: Final = "choose another path, in a folder of your own"
END_IT: Final = f"end that process, or {ANOTHER_PATH}"
NO_SOCKET: Final = "a file that is no socket is there"
LIVING: Final = "another program listens there"


@asynccontextmanager
async def opened_unix(path: Path) -> AsyncGenerator[trio.SocketListener]:
    """Listen at *path* (mode 0600), and remove the socket at the end; raise `CannotListen` if that is not possible."""
    listener = await _listen(path)
    identity = _identity(path)
    try:
        yield listener
    finally:
        listener.socket.close()
        _remove(path, identity)


async def _listen(path: Path) -> trio.SocketListener:
    """Return a listener at *path*; a dead socket there, at which no process listens, is replaced."""
    try:
        with _lock_folder(path.parent) as folder:
            # Two processes that start at once would both find a dead socket, and the second would remove the new socket
            # of the first.
            with trio.move_on_after(LOCK_WITHIN) as scope:
                # no event tells when another process releases the lock
                while not try_lock_file(folder):  # noqa: ASYNC110
                    await trio.sleep(LOCK_AGAIN)
            if scope.cancelled_caught:
                problem = f"{flock_holder(folder)} has locked its folder `{path.parent}` (flock)"
                raise CannotListen(_path_text(path), problem, END_IT)
            _remove_dead(path)
            return _bind_unix(path)
    except OSError as error:
        raise CannotListen(_path_text(path), str(error), ANOTHER_PATH) from error


@contextmanager
def _lock_folder(path: Path) -> Generator[int]:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield folder
    finally:
        os.close(folder)  # closing the folder also releases the lock


def _remove(path: Path, identity: tuple[int, int]) -> None:
    """Remove the socket at *path*, unless another process has put its own there."""
    with suppress(OSError):
        if _identity(path) == identity:
            path.unlink()


def _remove_dead(path: Path) -> None:
    """Remove a dead socket at *path*, at which no process listens; raise `CannotListen` if anything else is there."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise CannotListen(_path_text(path), NO_SOCKET, ANOTHER_PATH)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except BlockingIOError:
            pass  # its queue is full, so a process listens
    raise CannotListen(_path_text(path), LIVING, ANOTHER_PATH)


def _bind_unix(path: Path) -> trio.SocketListener:
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.bind(str(path))
        path.chmod(0o600)  # before `listen`, so that no other user can connect with the first mode
        bound.listen(BACKLOG)
        return trio.SocketListener(trio.socket.from_stdlib_socket(bound))
    except BaseException:
        bound.close()
        raise


def _path_text(path: Path) -> str:
    return f"unix:{path}"


def _identity(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino
