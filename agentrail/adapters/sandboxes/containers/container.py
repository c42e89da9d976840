"""`Container`: the container of one session, from its first command to the end of the session."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import trio

from agentrail.adapters.sandboxes.bubblewrap import COVERS, Guards
from agentrail.adapters.sandboxes.containers.container_start import ContainerOptions, ContainerStart, Mounts, counted
from agentrail.adapters.sandboxes.containers.engine import Engine
from agentrail.adapters.sandboxes.containers.process_folder import INSIDE, SCRIPT, process_folder
from agentrail.adapters.sandboxes.hidden_paths import HiddenPaths
from agentrail.errors import CommandRefused, OutsideError
from agentrail.values.value import Value

T = TypeVar("T")

AT_ONCE: Final = 32
"""The most commands that run in one container at the same time; further ones wait."""

THREADS: Final = 4
"""The most threads that ask the engine about one container at the same time."""

REMOVED_WITHIN: Final = 20.0
"""Seconds within which a container is removed when its session ends."""

ENDED: Final = "ended 0"
"""What `within.sh` answers if no process of the command is left, and all covers are where they were."""


class StartedIn(Value):
    """Where a command runs."""

    name: str
    """Name of the container."""
    points: tuple[str, ...]
    """Paths that are to be covered while it runs."""


class Container:
    """The container of one session: started, paused, replaced and removed; one at a time."""

    __slots__ = (
        "_guards",
        "_hidden_paths",
        "_is_closed",
        "_is_paused",
        "_limiter",
        "_lock",
        "_mounts",
        "_options",
        "_root",
        "_running",
        "_threads",
        "is_stale",
        "name",
    )

    def __init__(self, options: ContainerOptions, root: str, guards: Guards, hidden_paths: HiddenPaths) -> None:
        self._options = options
        self._root = root
        self._guards = guards
        self._hidden_paths = hidden_paths
        self.name: str | None = None
        """The name of the container; `None` if there is none."""
        self._mounts = Mounts(frozenset(), frozenset())
        self._running = 0  # number of commands
        self._is_paused = False
        self._is_closed = False
        self.is_stale = False
        """Whether something is to be covered that is not, so that no further command may run in it."""
        self._lock: trio.Lock | None = None
        self._limiter: trio.CapacityLimiter | None = None
        self._threads: trio.CapacityLimiter | None = None

    @property
    def engine(self) -> Engine:
        """Who runs it."""
        return self._options.engine

    @property
    def limiter(self) -> trio.CapacityLimiter:
        """Lets `AT_ONCE` commands run."""
        if self._limiter is None:
            self._limiter = trio.CapacityLimiter(AT_ONCE)
        return self._limiter

    async def begin(self) -> StartedIn:
        """Return the container for a command; start it if need be.

        Raise `CommandRefused` if another one is needed and commands still run in this one.
        """
        async with self._exclusive():
            if self._is_closed:
                raise CommandRefused("its sandbox was closed, as its session has ended")
            mounts = await trio.to_thread.run_sync(self._find_mounts)
            if self.name is not None and (self.is_stale or not mounts.points <= self._mounts.points):
                if self._running:
                    raise CommandRefused(
                        "a hidden or protected file was created or moved since its container was started, so it needs "
                        "a new one, and other commands still run in the old one; wait for them, or end them"
                    )
                await self._remove()
            if self.name is None:
                await self._start()
            elif self._is_paused:
                await self._unpause(self.name)
            self._running += 1
            return StartedIn(self.name or "", tuple(sorted(mounts.points)))

    async def _unpause(self, name: str) -> None:
        """Have the container go on; raise `OutsideError` if it is gone."""
        try:
            await self._ask("unpause", name)
        except OutsideError as error:
            await self._forget()  # noqa: ASYNC120 - a cancellation in it counts more than this error
            raise OutsideError("container-gone", name, str(error)) from error
        self._is_paused = False

    async def _forget(self) -> None:
        """Remove a container in which nothing can run any more, if it is there at all."""
        with suppress(OutsideError):
            await self._remove()

    async def end(self, started_in: StartedIn, mark: int, *, must_look: bool) -> None:
        """Note the end of a command; with *must_look*, see that nothing of it is left, and that the container runs.

        Raise `OutsideError` if the container is gone.
        """
        name = started_in.name
        self._running -= 1
        if not must_look or name != self.name:
            return
        words = (name, "/bin/sh", f"{INSIDE}/{SCRIPT.name}", "end", str(mark), *counted(started_in.points))
        try:
            answer = await self._ask("end", *words)
        except OutsideError as error:
            answer, problem = "", str(error)
        else:
            problem = "its processes could not be ended"
        if answer.startswith("ended"):
            self.is_stale = self.is_stale or answer != ENDED
            return
        async with self._exclusive():
            if name == self.name:
                await self._forget()
        raise OutsideError("container-gone", name, problem)

    async def pause(self) -> None:
        """Pause the container until the next command. No-op if there is none, or if commands run in it."""
        async with self._exclusive():
            if self.name is not None and not self._running and not self._is_paused:
                await self._ask("pause", self.name)
                self._is_paused = True

    async def close(self) -> None:
        """Remove the container, unless it is to be kept, with all that runs in it, and refuse further commands."""
        was_closed, self._is_closed = self._is_closed, True
        async with self._exclusive():
            if self.name is None or was_closed:
                return
            if self._options.keep:
                await self._thread(partial(leave, self.engine, self.name, self._let_go))
            else:
                await self._remove()

    def _exclusive(self) -> trio.Lock:
        """Return the lock that is held while the container is started, paused, replaced or removed."""
        if self._lock is None:
            self._lock = trio.Lock()
        return self._lock

    async def _start(self) -> None:
        """Start a container; if that is cancelled, it is removed as soon as the engine has started it."""
        start = ContainerStart(self._options, self._root, self._hold, self._let_go)
        try:
            self._mounts = await self._thread(start.run)
        except trio.Cancelled:
            # The engine may have started it already, or will:
            # tests/sandboxes/containers/test_kills.py::test_a_start_that_is_cancelled_leaves_no_container
            start.abandon()
            raise
        self.name, self._is_paused, self.is_stale = start.name, False, False

    async def _remove(self) -> None:
        """Remove the container, and the empty folders that were made for it."""
        name, self.name = self.name, None
        if name is not None:
            await self._thread(partial(remove, self.engine, name, self._let_go))

    def _find_mounts(self) -> Mounts:
        """Return what is to be mounted now."""
        try:
            return self._hold()
        finally:
            self._let_go()

    def _hold(self) -> Mounts:
        """Return what is to be mounted, and keep the folders and files that are made for that until `_let_go`."""
        guarded = self._guards.hold()
        try:
            covered = COVERS.hold(self._root, (self._root,), self._hidden_paths.find(self._root, ()))
        except BaseException:
            self._guards.release()
            raise
        paths = frozenset(filter(os.path.exists, covered))
        return Mounts(frozenset(f"{self._root}/{name}" for name in guarded), paths, self._guards.created)

    def _let_go(self) -> None:
        self._guards.release()
        COVERS.release()

    async def _ask(self, question: str, *more: str) -> str:
        return await self._thread(partial(self.engine.ask, question, *more))

    async def _thread(self, work: Callable[[], T]) -> T:
        """Run *work* in a thread; if cancelled, do not wait for it: an engine may hang."""
        if self._threads is None:
            self._threads = trio.CapacityLimiter(THREADS)
        return await trio.to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)


def remove(engine: Engine, name: str, let_go: Callable[[], None]) -> None:
    """Remove the container *name*, also one that has ended; *let_go* undoes what was made for it."""
    try:
        engine.ask("remove", name, within=REMOVED_WITHIN)
    finally:
        leave(engine, name, let_go)


def leave(engine: Engine, name: str, let_go: Callable[[], None]) -> None:
    """Undo by *let_go* what was made on this machine for the container *name*, in which no further command runs."""
    let_go()
    process_folder(engine).forget_guards(name)
