"""The folders and files of agentrail itself, which no agent sees: `hidden_in` returns those below a folder.

`home` has what a user has allowed, keys, tokens, and the default journal. `socket_folders` are where processes of one
user meet. A journal elsewhere is hidden while this process uses it: an agent may work in the folder that it lies in.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Final

from agentrail.adapters.system import HAS_UNIX_SOCKETS

HOME: Final = "AGENTRAIL_HOME"
"""Environment variable with the folder for files that agentrail keeps per user."""

RUNTIME: Final = "XDG_RUNTIME_DIR"
"""Environment variable with the folder of a user for sockets, which is gone when the user has logged out."""

RUN_USER: Final = "/run/user"
"""Where Linux has such a folder for each user, named by the number of the user."""

TEMPORARY: Final = "/tmp"  # noqa: S108 - what is made there is checked before its use
"""Where every user may make a folder; its path is short."""

OF_JOURNAL: Final = ("", "-wal", "-shm", "-journal", ".lock", "-wal.damaged")
"""How the names of the files of a journal end, after that of the journal."""

SETTINGS: Final = "settings.toml"
"""Name of the file of `home` with what a person has set for all folders."""

LINKED: Final = ("allowed", "history", SETTINGS)
"""Names of the files of `home` that may be links of the user to files elsewhere."""

VARIABLES: Final = (HOME, "XDG_DATA_HOME", "LOCALAPPDATA", "HOME", RUNTIME, "TMPDIR")
"""The environment variables that name these folders."""

_JOURNALS: Final[Counter[str]] = Counter()
"""The paths of the journals that this process uses, each with the number of its uses."""


def home() -> Path:
    """Return the folder for files that agentrail keeps per user."""
    folder = os.environ.get(HOME)
    if folder:
        return Path(folder).expanduser()
    data = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "agentrail"


def with_home(path: str) -> str:
    """Return *path* with a home in place of `~` or `~user` at its beginning; as it is if there is no such home."""
    return os.path.expanduser(path)  # noqa: PTH111 - `Path.expanduser` raises an error if there is none


def socket_folders() -> tuple[Path, ...]:
    """Return the folders in which a socket of this user may be, the best one first; not all of them exist.

    The second one is for a process without the variable, as cron starts it. The last ones are for a user's folder whose
    path is too long for a socket.
    """
    if sys.platform == "win32" or not HAS_UNIX_SOCKETS:
        return ()
    named, user = os.environ.get(RUNTIME, ""), os.getuid()
    folders = (
        *((Path(named, "agentrail"),) if named.startswith("/") else ()),
        *((Path(RUN_USER, str(user), "agentrail"),) if sys.platform == "linux" else ()),
        *[folder / "run" for folder in _known_home()],
        *[Path(folder, f"agentrail-run-{user}") for folder in (os.environ.get("TMPDIR") or TEMPORARY, TEMPORARY)],
    )
    return tuple(dict.fromkeys(folders))


def begin_journal(path: Path) -> None:
    """Hide the files of the journal *path* from agents until `end_journal`."""
    _JOURNALS[str(path)] += 1


def end_journal(path: Path) -> None:
    """End one use of the journal *path*."""
    _JOURNALS[str(path)] -= 1
    if _JOURNALS[str(path)] <= 0:
        del _JOURNALS[str(path)]


def hidden_folders() -> tuple[str, ...]:
    """Return the paths of the folders that no agent sees, with links resolved."""
    return _hidden_folders(*[os.environ.get(name) for name in VARIABLES], RUN_USER, TEMPORARY)


def hidden_files() -> tuple[str, ...]:
    """Return the paths of the files of the journals that this process uses, and of files of `home` that lie elsewhere.

    Not all of them exist.
    """
    own_files = [str(folder / name) for folder in _known_home() for name in LINKED]
    return (
        *[f"{journal}{ending}" for journal in tuple(_JOURNALS) for ending in OF_JOURNAL],
        *[os.path.realpath(path) for path in own_files if os.path.islink(path)],  # noqa: PTH114 - asked for each file
    )


def hidden_in(folder: str) -> tuple[str, ...]:
    """Return the hidden folders and files at the path *folder*, which has no links, or below it."""
    return tuple([path for path in (*hidden_folders(), *hidden_files()) if is_in(path, folder)])


def is_in(path: str, folder: str) -> bool:
    """Whether *path* is that of *folder*, or below it; macOS does not tell upper case from lower case."""
    if sys.platform == "darwin":
        path, folder = path.casefold(), folder.casefold()
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _known_home() -> tuple[Path, ...]:
    """Return `home`, and nothing for a user who has none, as a container may have."""
    try:
        return (home(),)
    except RuntimeError:
        return ()


@lru_cache(maxsize=16)
def _hidden_folders(*_environment: str | None) -> tuple[str, ...]:
    """Return the folders; cached by what names them, as it is asked for each file that an agent reads."""
    return tuple([os.path.realpath(folder) for folder in (*_known_home(), *socket_folders())])
