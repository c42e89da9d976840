"""`ContainerSandbox`: files as in `LocalSandbox`, and commands in a container of docker or podman.

The folder is mounted at the path that it has on this machine. Beside it, commands see what is in the image, read-only,
and write to `/tmp`, `/var/tmp`, `/run` and their home, which are in memory. They have no network unless one is named.
Hidden files are not mounted: an empty file or folder is in their place. What other programs obey is read-only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from copy import copy
from pathlib import Path
from typing import Final, get_args

from agentrail.adapters.processes import argv_of, check_environment
from agentrail.adapters.sandboxes.bubblewrap import AT_HOME, Guards, check_root
from agentrail.adapters.sandboxes.containers.container import Container
from agentrail.adapters.sandboxes.containers.container_command import ContainerCommand
from agentrail.adapters.sandboxes.containers.container_start import HOME, ContainerOptions
from agentrail.adapters.sandboxes.containers.engine import Engine, EngineName
from agentrail.adapters.sandboxes.local import PLAIN_SHELL, LocalSandbox
from agentrail.adapters.sandboxes.paths import PROTECTED, parts_of
from agentrail.adapters.user_folders import is_in
from agentrail.errors import BadChoice, WrongType
from agentrail.plugins.shell.guarded_paths import BLOCKED_PATHS
from agentrail.ports.sandbox import Command, OnOutput, Process
from agentrail.values.argument_checks import checked

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}")
"""The name of an image, a network or a user; none can be taken for an option of the engine."""


ENGINES: Final = get_args(EngineName)

LEAST_MEMORY: Final = 16 * 1024**2
"""The fewest bytes of memory with which engines start a container."""

LEAST_PROCESSES: Final = 16
"""The fewest processes: the container itself and each command take a few."""

LEAST_CPUS: Final = 0.01
"""The least part of a processor that both engines can give."""

MOST: Final = 1 << 60
MAX_SHOWN: Final = 60
"""The most characters of a bad name that an error repeats."""


class ContainerSandbox(LocalSandbox):
    """Files below *folder*; commands run in a container of *image*, one for each session.

    The container is started at the first command, paused while the session sleeps, and removed when the session ends;
    with *keep*, it stays. If this process is killed, the next one that starts a container removes it. The image must be
    there already, and have a shell (`/bin/sh`).

    *network* is the name of a network of the engine. *memory* (bytes) and *processes* hold for all processes of the
    container together, *cpus* is a number of processors. *user* runs commands, by default one whose files in the folder
    are those of the user of this process.
    """

    __slots__ = ("_container", "_guards", "_options")

    @checked
    def __init__(  # noqa: PLR0913 - each is an option of its own
        self,
        image: str,
        *,
        engine: EngineName = "docker",
        folder: str | Path = ".",
        network: str = "none",
        memory: int = 4 * 1024**3,
        processes: int = 512,
        cpus: float | None = None,
        user: str | None = None,
        keep: bool = False,
        hard_links: bool = False,
        protected: Iterable[str] = PROTECTED,
        env: Iterable[tuple[str, str]] = (),
        hidden: Iterable[str] = BLOCKED_PATHS,
        snapshots: bool = False,
    ) -> None:
        if engine not in ENGINES:
            raise BadChoice.among("engine", engine, ENGINES)
        for argument, name in (("image", image), ("network", network), ("user", user)):
            if name is not None and not NAME.fullmatch(name):
                raise WrongType(argument, repr(name[:MAX_SHOWN]), f"a name of {argument} as {engine} has it")
        for argument, figure, least in (("memory", memory, LEAST_MEMORY), ("processes", processes, LEAST_PROCESSES)):
            if isinstance(figure, bool) or not least <= figure < MOST:
                raise WrongType(argument, repr(figure), f"a whole number from {least} on")
        if (cpus is not None and not (LEAST_CPUS <= cpus < MOST)) or isinstance(cpus, bool):
            raise WrongType("cpus", repr(cpus), f"a number from {LEAST_CPUS} on, or None")
        protected = tuple(protected)
        super().__init__(
            folder, hard_links=hard_links, protected=protected, env=env, hidden=hidden, snapshots=snapshots
        )
        self._options = ContainerOptions(Engine(engine), image, network, memory, processes, cpus, user, keep)
        self._guards = Guards(self.root, protected, frozenset() if self.root == str(Path.home()) else AT_HOME)
        self._container = self._new_container()

    def _new_container(self) -> Container:
        return Container(self._options, self.root, self._guards, self._hidden_paths)

    @property
    def hidden(self) -> tuple[str, ...]:
        """The patterns of the paths that commands do not see."""
        return self._hidden_paths.patterns

    @property
    def container(self) -> str | None:
        """The name of the container; `None` if none was started."""
        return self._container.name

    def for_session(self) -> ContainerSandbox:
        """Return a sandbox with the same files and a container of its own."""
        sandbox = copy(self)
        sandbox._container = self._new_container()  # noqa: SLF001 - a copy of its own
        return sandbox

    async def pause(self) -> None:
        """Pause the container until the next command. No-op if none was started, or if commands run in it."""
        await self._container.pause()

    async def close(self) -> None:
        """Remove the container with all that runs in it, unless it is to be kept; no further command runs."""
        await self._container.close()

    def prepare(self, command: Command, on_output: OnOutput | None = None) -> Process:
        """Return *command* as a process that is not started; the caller starts it by `run`, in its own nursery."""
        parts = parts_of(command.folder)
        check_root(self.root)
        argv_of(command, PLAIN_SHELL)
        home = "/tmp" if is_in(HOME, self.root) else HOME  # noqa: S108 - that of the container
        variables = {"HOME": home, "USER": "agent", "LOGNAME": "agent", "LANG": "C.UTF-8", "TERM": "dumb"}
        variables |= self._env | check_environment(command.env)

        def check_folder() -> None:
            os.close(self._files.open_folder(command.folder))

        folder = "/".join((self.root, *parts))
        return ContainerCommand(self._container, command, folder, variables, check_folder, on_output)
