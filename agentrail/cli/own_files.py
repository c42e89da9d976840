"""Files of this user alone: whether one is, as far as the system says so in its status, and how one is written."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from agentrail.adapters.file_lock import create_private, lock_file, open_lock_file

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
"""The bits of a mode that let others in."""

WRITERS: Final = stat.S_IWGRP | stat.S_IWOTH
"""The bits of a mode that let others write."""

MAX_LINKS: Final = 16
"""The most links that are followed, one after the other: they may form a circle."""

NOT_OURS: Final = "it is not of this user alone"
ANOTHER_FOLDER: Final = "use a journal in a folder of your own"
LOCKABLE_HOME: Final = "let AGENTRAIL_HOME name a folder of yours on another file system"
ANOTHER_HOME: Final = "let AGENTRAIL_HOME name a folder of yours that can be written"
"""What a user does whose home is read-only, as in a container that keeps only its journal."""


def is_own(status: os.stat_result) -> bool:
    """Whether the file is that of this user; Windows does not say so: there, access lists of the folder decide."""
    return sys.platform == "win32" or not hasattr(os, "getuid") or status.st_uid == os.getuid()


def is_own_folder(status: os.stat_result) -> bool:
    """Whether it is a folder that only this user can enter."""
    return stat.S_ISDIR(status.st_mode) and _is_private(status)


def is_own_file(status: os.stat_result) -> bool:
    """Whether it is a plain file that only this user can read."""
    return stat.S_ISREG(status.st_mode) and _is_private(status)


def _is_private(status: os.stat_result) -> bool:
    return is_own(status) and (sys.platform == "win32" or not status.st_mode & OTHERS)


def followed(file: Path) -> Path:
    """Return the file to which links of this user lead from *file*, as a program makes them that manages dotfiles.

    A link of another user is returned as it is; whatever opens it refuses it. So is any link on Windows, which does not
    say whose it is.
    """
    for _ in range(MAX_LINKS):
        try:
            status = file.lstat()
            if sys.platform == "win32" or not stat.S_ISLNK(status.st_mode) or not is_own(status):
                break
            file = file.parent / file.readlink()
        except OSError:  # it is not there, or cannot be looked at: so it is for whatever opens it
            break
    return file


def open_own(file: Path, flags: int) -> int:
    """Open *file* by *flags* and return its descriptor; raise `OSError` unless it is a plain file of this user alone.

    Only links of this user are followed, and no pipe is waited for. A file of this user that others can only read, as
    after a restore, is made one that they cannot.
    """
    number = open_lock_file(followed(file), flags)
    status = os.fstat(number)
    if status.st_mode & OTHERS and not status.st_mode & WRITERS and is_own(status) and sys.platform != "win32":
        os.fchmod(number, status.st_mode & ~OTHERS)
        status = os.fstat(number)
    if is_own_file(status):
        return number
    os.close(number)
    raise OSError(errno.EPERM, f"{NOT_OURS}; delete it, and a new one is made", str(file))


def append_to_own(file: Path, text: str) -> None:
    """Append lines of *text* to *file*, which is created in a folder of this user if it is missing."""
    _make_folder(followed(file))
    with os.fdopen(open_own(file, os.O_RDWR | os.O_APPEND | os.O_CREAT), "a+b") as opened:
        opened.seek(max(opened.tell() - 1, 0))
        is_torn = opened.read(1) not in {b"", b"\n"}  # as a full disk leaves a line
        opened.write((b"\n" if is_torn else b"") + text.encode())


@contextmanager
def locked(file: Path) -> Generator[None, None, None]:
    """Lock *file* for the `with` block: of two processes that change it at once, one would undo the other.

    The lock is that of a file beside it, since *file* may be replaced within the block.
    """
    _make_folder(file)
    lock = file.with_name(f"{file.name}.lock")
    number = open_lock_file(lock)
    try:
        lock_file(number, lock, LOCKABLE_HOME)
        yield
    finally:
        os.close(number)  # this also releases the lock


def replace_own(file: Path, text: str) -> None:
    """Replace the content of *file* by *text*, whole or not at all; a link of this user stays, and leads to it."""
    file = followed(file)
    write_beside(file, text.encode()).replace(file)


def make_once(file: Path, content: bytes) -> None:
    """Write *content* to a new *file*, whole or not at all; no-op if another process has made it meanwhile."""
    new = write_beside(file, content)
    try:
        os.link(new, file)  # unlike a rename, it replaces no file
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links: of two processes that make the first one, the later one wins
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


def write_beside(file: Path, content: bytes) -> Path:
    """Write *content* to a new file beside *file*, whose place it can take, and return its path."""
    _make_folder(file)
    new = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(create_private(new), "wb") as opened:
            opened.write(content)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    return new


def _make_folder(file: Path) -> None:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
