"""`ContainerStart`: starts one container, in a thread, with all that confines its commands."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from agentrail.adapters.sandboxes.containers.engine import KEPT, LABEL, Engine
from agentrail.adapters.sandboxes.containers.process_folder import (
    EMPTY_FILE,
    EMPTY_FOLDER,
    INSIDE,
    ProcessFolder,
    process_folder,
)
from agentrail.adapters.user_folders import is_in
from agentrail.errors import OutsideError
from agentrail.values.value import Value

HOME: Final = "/home/agent"
"""The home directory of commands: empty, in memory."""

IN_MEMORY: Final = ("/tmp", "/run", "/var/tmp", HOME)  # noqa: S108 - those of the container
"""Folders that commands can write to, beside the folder of the session."""

SCRATCH: Final = 512 * 1024**2
"""The most bytes of each of them; they count as memory of the container, too."""

OPEN_FILES: Final = 1024
"""The most files that each process may have open."""

OF_USER: Final = 32_768
"""The most processes of the user, whose limit counts those outside of the container, too.

It is there because podman asks for its own default, which a user whose processes are limited cannot give.
"""

IDLE: Final = "while :; do sleep 86400; done"
"""What the container itself runs: a shell, which also collects the exit codes of processes that others have left."""


class ContainerOptions(Value):
    """The options of a container; see `ContainerSandbox`."""

    engine: Engine
    """Who runs it."""
    image: str
    """Name or id of the image."""
    network: str
    """Name of the engine's network."""
    memory: int
    """Bytes of memory of all processes together."""
    processes: int
    """Number of processes and threads."""
    cpus: float | None
    """Number of processors; `None` for all."""
    user: str | None
    """Who runs commands; `None` if the engine's `default_user` does."""
    keep: bool
    """Whether the container stays when the session ends."""


class Mounts(Value):
    """What is mounted over paths in the folder of the session."""

    guarded: frozenset[str]
    """Protected files and folders, which are read-only."""
    covered: frozenset[str]
    """Hidden files and folders, in whose place is an empty one."""
    created: tuple[str, ...] = ()
    """Protected folders that were created to be mounted, and are removed with the container."""

    @property
    def points(self) -> frozenset[str]:
        """All of these paths."""
        return self.guarded | self.covered


class ContainerStart:
    """The start of one container. One thread calls `run`; `abandon` may be called meanwhile."""

    def __init__(
        self, options: ContainerOptions, root: str, hold: Callable[[], Mounts], let_go: Callable[[], None]
    ) -> None:
        self._options = options
        self._root = root
        self._hold = hold  # returns what is to be mounted, and has it stay until `_let_go`
        self._let_go = let_go
        self._lock = threading.Lock()
        self._is_abandoned = False
        self._is_done = False
        self.name = f"agentrail-{secrets.token_hex(8)}"
        """The name of the container; nothing of it comes from outside."""

    def run(self) -> Mounts:
        """Start the container and return what is mounted in it."""
        engine = self._options.engine
        own = process_folder(engine)
        mounts = self._hold()
        try:
            own.note_guards(self.name, mounts.created)
            engine.ask("run", *self._words(own, mounts), self._options.image, "-c", IDLE, folder=str(own.path))
        except BaseException as error:
            self._undo()  # it may be there, if the engine was only late
            engine.check_image(self._options.image)
            raise self._explained(error, own) from error  # noqa: ASYNC104 - a thread's: nothing is awaited
        with self._lock:
            self._is_done = True
            if self._is_abandoned:
                self._undo()
        return mounts

    def abandon(self) -> None:
        """Have the container removed: nobody waits for it any more. Does not block."""
        with self._lock:
            self._is_abandoned = True
            if self._is_done:
                threading.Thread(target=self._undo, daemon=True).start()

    def _undo(self) -> None:
        with suppress(OutsideError):
            self._options.engine.ask("remove", self.name)
        self._let_go()
        process_folder(self._options.engine).forget_guards(self.name)

    def _explained(self, error: BaseException, own: ProcessFolder) -> BaseException:
        """Return *error*; if the engine does not see the files of this machine, one that says so."""
        text = str(error)
        is_missing = "does not exist" in text or "no such file" in text
        if isinstance(error, OutsideError) and is_missing and (own.path.name in text or self._root in text):
            problem = (
                "it sees no files of this machine, so it cannot mount the folder; is it on another one (`DOCKER_HOST`, "
                "`CONTAINER_HOST`, a context)? Choose an engine on this machine"
            )
            return self._options.engine.failed(problem)
        return error

    def _words(self, files: ProcessFolder, mounts: Mounts) -> Iterator[str]:
        """Yield the options of the container."""
        options = self._options
        of_user = _processes_of_user()
        label = KEPT if options.keep else LABEL
        yield from (f"--name={self.name}", f"--label={label}={files.path.name}", f"--network={options.network}")
        yield from (f"--memory={options.memory}", f"--pids-limit={options.processes}")
        yield from (f"--ulimit=nofile={OPEN_FILES}:{OPEN_FILES}", "--ulimit=core=0:0")
        yield f"--ulimit=nproc={of_user}:{of_user}"
        if options.cpus is not None:
            yield f"--cpus={options.cpus:g}"
        user = options.engine.default_user() if options.user is None else options.user
        if user is not None:
            yield f"--user={user}"
        for folder in IN_MEMORY:
            if not is_in(folder, self._root):
                yield f"--tmpfs={folder}:rw,exec,nosuid,nodev,mode=1777,size={SCRATCH}"
        yield mount(str(files.seen), INSIDE, "readonly")
        yield mount(self._root, self._root)
        for path in sorted(mounts.guarded - mounts.covered):
            yield mount(path, path, "readonly")
        for path in sorted(mounts.covered):
            yield mount(str(files.seen / (EMPTY_FOLDER if Path(path).is_dir() else EMPTY_FILE)), path, "readonly")


def _processes_of_user() -> int:
    """Return the most processes of the user, `OF_USER` at most."""
    import resource  # noqa: PLC0415 - not there on every system

    own = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    return OF_USER if own == resource.RLIM_INFINITY else min(own, OF_USER)


def mount(source: str, target: str, *more: str) -> str:
    """Return the option that mounts *source* at *target*: fields of CSV, of which a path may have any character."""
    fields = ("type=bind", f"source={source}", f"target={target}", *more)
    return "--mount=" + ",".join('"' + field.replace('"', '""') + '"' for field in fields)


def counted(points: Iterable[str]) -> tuple[str, ...]:
    """Return the number of *points* and each of them as `/proc/self/mountinfo` writes it: arguments of `within.sh`."""
    escaped = ["".join(f"\\{ord(letter):03o}" if letter in " \t\n\\" else letter for letter in path) for path in points]
    return (str(len(escaped)), *escaped)
