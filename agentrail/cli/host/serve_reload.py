"""`agentrail serve --reload`: serves by a process that is started anew whenever a Python file of the folder changes.

This process listens and keeps the socket, so clients that come in between wait, and the address stays the same.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import Final

import trio

from agentrail.adapters.system import HAS_INHERITED_SOCKETS
from agentrail.app.process import SignalRepeats, ending_signals
from agentrail.cli.exit_codes import WRONG_USAGE
from agentrail.cli.host.serve_options import RELOAD, ServeOptions
from agentrail.cli.host.workers.worker_supervisor import exit_code, listening
from agentrail.errors import AgentrailError
from agentrail.host.served_file import NothingToServeError

LOOK_SECONDS: Final = 0.5
"""Seconds between two looks at the files."""

MOST_FOLDERS: Final = 1_000
"""The most folders that are looked at, those first that are nearest to the served file."""

VIRTUAL: Final = "pyvenv.cfg"
"""File in the folder of a virtual environment, whose modules nobody edits."""

ADDRESS: Final = ("--host", "--port")
"""The options that say where to listen."""

NOT_HERE: Final = "--reload needs a system on which processes share sockets, such as Linux; leave it out"
WATCHES: Final = "watching the Python files of {0}; sessions that no journal keeps are gone at each new start"
CHANGED: Final = "{0} has changed: the host starts anew"
ENDED: Final = "the host has ended with status {0}; it starts anew when a Python file changes"


def files_below(folder: Path) -> Mapping[Path, tuple[int, int]]:
    """Return time and size of each Python file of *folder* and of the folders below it.

    Hidden folders and virtual environments are left out.
    """
    stats: dict[Path, tuple[int, int]] = {}
    folders, index = [folder], 0
    while index < min(len(folders), MOST_FOLDERS):
        with suppress(OSError), os.scandir(folders[index]) as entries:
            for entry in entries:
                path = Path(entry)
                if entry.is_dir(follow_symlinks=False):
                    if not entry.name.startswith((".", "__pycache__")) and not (path / VIRTUAL).exists():
                        folders.append(path)
                elif path.suffix == ".py":
                    with suppress(OSError):  # it is just being replaced
                        stat = entry.stat()
                        stats[path] = stat.st_mtime_ns, stat.st_size
        index += 1
    return stats


class Reloader:
    """Runs the *command* that serves, again after each change of a file below *folder*."""

    def __init__(self, command: Sequence[str], folder: Path, descriptors: Sequence[int]) -> None:
        self._command = command
        self._folder = folder
        self._descriptors = descriptors
        self._process: trio.Process | None = None
        self._is_ending = trio.Event()

    async def run(self) -> int:
        """Serve until a signal ends it; return the exit status of the last process."""
        _tell(WATCHES.format(self._folder))
        status = 0
        async with trio.open_nursery() as nursery:  # noqa: TID251 - around the whole program
            await nursery.start(self._obey)
            while not self._is_ending.is_set():
                status = await self._serve_once()
            nursery.cancel_scope.cancel()
        return exit_code(status)

    async def _obey(self, task_status: trio.TaskStatus[None]) -> None:
        """Have all end at a signal that ends a program; at the next one, the process ends at once."""
        repeats = SignalRepeats()
        with trio.open_signal_receiver(*ending_signals()) as signals:
            task_status.started()
            async for number in signals:
                if repeats.has(number):
                    continue
                if self._is_ending.is_set():
                    self._stop()
                self._is_ending.set()

    async def _serve_once(self) -> int:
        """Serve by one process until a file changes or all ends; return its exit status."""
        former = files_below(self._folder)  # before the start: what changes meanwhile is not missed
        self._process = process = await trio.lowlevel.open_process(
            [*self._command],
            stdin=DEVNULL,
            pass_fds=self._descriptors,
            start_new_session=True,  # Ctrl-C is for this process, which tells the other
        )
        async with trio.open_nursery() as nursery:  # noqa: TID251 - it ends with the process
            nursery.start_soon(self._tell_end, process)
            changed = await self._next_change(former)
            nursery.cancel_scope.cancel()
        if changed is not None:
            _tell(CHANGED.format(changed.relative_to(self._folder)))
        self._stop()
        return await process.wait()

    async def _next_change(self, former: Mapping[Path, tuple[int, int]]) -> Path | None:
        """Return a file that is no longer as it was in *former*; `None` if all ends."""
        while True:
            with trio.move_on_after(LOOK_SECONDS):
                await self._is_ending.wait()
                return None
            now = files_below(self._folder)
            if now != former:
                return min(path for path, _ in now.items() ^ former.items())

    async def _tell_end(self, process: trio.Process) -> None:
        status = await process.wait()
        if not self._is_ending.is_set():
            _tell(ENDED.format(exit_code(status)))

    def _stop(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)


def serve_reloading(options: ServeOptions) -> int:
    """Serve, anew after each change of a file, and return the exit code."""
    if not HAS_INHERITED_SOCKETS:
        raise NothingToServeError(NOT_HERE)
    return trio.run(_serve, options)


async def _serve(options: ServeOptions) -> int:
    command = [sys.executable, "-P", *[word for word in sys.orig_argv[1:] if not _is_reload(word)]]
    try:
        async with AsyncExitStack() as stack:
            if options.unix is not None:  # its path stays the same
                return await Reloader(command, options.folder, ()).run()
            descriptor = await stack.enter_async_context(listening(options))
            command = [*_without_address(command), "--descriptor", str(descriptor)]
            return await Reloader(command, options.folder, (descriptor,)).run()
    except AgentrailError as error:  # raised here, outside of all nurseries
        print(f"agentrail: {error}", file=sys.stderr)
        return WRONG_USAGE


def _is_reload(word: str) -> bool:
    """Whether *word* is the option, maybe shortened: `--re` is none, as another option begins so too."""
    return len(word) > len("--re") and RELOAD.startswith(word)


def _without_address(words: Sequence[str]) -> Iterator[str]:
    """Yield *words* without the address and the port: the socket that is passed on has its own."""
    rest = iter(words)
    for word in rest:
        name, is_joined, _ = word.partition("=")
        if name not in ADDRESS:
            yield word
        elif not is_joined:
            next(rest, None)


def _tell(text: str) -> None:
    print(f"agentrail: {text}", file=sys.stderr, flush=True)
