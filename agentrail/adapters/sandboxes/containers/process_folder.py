"""`ProcessFolder`: files that the containers of one process see, and a lock by which another process knows its end.

A container has the name of the folder as its label. The system releases the lock when the process ends, however it
ends. The next process that starts a container finds the lock free, and removes the container and the folder.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from agentrail.adapters.file_lock import open_lock_file, try_lock_file
from agentrail.adapters.sandboxes.containers.engine import Engine, EngineName
from agentrail.adapters.user_folders import home
from agentrail.errors import AgentrailError, OutsideError

SCRIPT: Final = Path(__file__).with_name("within.sh")
"""What runs commands within a container."""

INSIDE: Final = "/run/agentrail"
"""Where a container sees the folder `seen`, read-only."""

EMPTY_FILE, EMPTY_FOLDER = "file", "folder"
"""What covers hidden files and folders: names in `seen`."""

LOCK, SEEN = "lock", "seen"
GUARDS: Final = ".guards"
"""How the name of a file ends that lists the empty folders which guard protected names of one container."""

_NAME: Final = re.compile(r"(docker|podman)-[0-9a-f]{16}")
_LOCK: Final = threading.Lock()
_OWN: Final[dict[tuple[int, EngineName], ProcessFolder]] = {}
"""The folders of this process, by its id, which is another one after a fork."""


class ProcessFolder:
    """The folder of this process for the containers of one engine."""

    __slots__ = ("_lock", "path")

    def __init__(self, engine: EngineName) -> None:
        number = secrets.token_hex(8)
        self.path = containers_folder() / f"{engine}-{number}"
        # Locked before it has its name: a process that looks for folders without one would remove it.
        new = self.path.with_name(f"new-{number}")
        view = new / SEEN
        (view / EMPTY_FOLDER).mkdir(parents=True)
        self._lock = open_lock_file(new / LOCK)  # open as long as the process lives
        try_lock_file(self._lock)
        (view / EMPTY_FILE).touch()
        shutil.copyfile(SCRIPT, view / SCRIPT.name)
        for path, mode in ((view, 0o755), (view / EMPTY_FOLDER, 0o755), (view / EMPTY_FILE, 0o644)):
            path.chmod(mode)  # another user may run commands
        (view / SCRIPT.name).chmod(0o644)
        new.rename(self.path)

    @property
    def seen(self) -> Path:
        """The part that containers see."""
        return self.path / SEEN

    def note_guards(self, container: str, folders: tuple[str, ...]) -> None:
        """Note the empty folders that guard names for *container*, for who removes it after a crash."""
        (self.path / f"{container}{GUARDS}").write_bytes("\0".join(folders).encode(errors="surrogateescape"))

    def forget_guards(self, container: str) -> None:
        """Forget them: they are removed, or no container was started."""
        (self.path / f"{container}{GUARDS}").unlink(missing_ok=True)


def containers_folder() -> Path:
    """Return the folder for those of processes, which is created if it is missing."""
    folder = home() / "containers"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def process_folder(engine: Engine) -> ProcessFolder:
    """Return the folder of this process for *engine*; at the first call, end what dead processes have left there."""
    with _LOCK:
        own = _OWN.get((os.getpid(), engine.name))
        if own is None:
            try:
                own = _OWN[os.getpid(), engine.name] = ProcessFolder(engine.name)
            except OSError as error:
                raise engine.failed(f"its lock cannot be kept in {home()}: {error.strerror}") from error
            with suppress(AgentrailError):  # what is left is no reason to start nothing; the next process looks again
                remove_left(engine)
    return own


def remove_left(engine: Engine) -> None:
    """Remove the containers and folders of processes that have ended without doing so."""
    dead = dict(_dead_folders(engine))
    try:
        owners = _owners(engine) if dead else {}
        for folder in dead:
            containers = [container for container, owner in owners.items() if owner == folder.name]
            if containers:
                engine.ask("remove", *containers)
            for guards in folder.glob(f"*{GUARDS}"):
                for path in guards.read_bytes().decode(errors="surrogateescape").split("\0"):
                    with suppress(OSError):
                        Path(path).rmdir()
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        for lock in dead.values():
            os.close(lock)


def _dead_folders(engine: Engine) -> Iterator[tuple[Path, int]]:
    """Yield each folder whose process has ended, with its lock, which is held now."""
    for folder in containers_folder().iterdir():
        if _NAME.fullmatch(folder.name) and folder.name.startswith(engine.name):
            with suppress(OSError):
                lock = open_lock_file(folder / LOCK, os.O_RDWR)
                if try_lock_file(lock):
                    yield folder, lock
                else:
                    os.close(lock)


def _owners(engine: Engine) -> dict[str, str]:
    """Return the name of the process folder of each container of agentrail, by the container's id."""
    containers = engine.ask("containers").split()
    owners: dict[str, str] = {}
    for container in containers:
        with suppress(OutsideError):  # it has been removed meanwhile
            owners |= dict([engine.ask("owner", container).split(maxsplit=1)])
    return owners
