"""Finds where threads and tasks are in the source, for lines of the log and for errors.

No thread may use a frame that another thread is running: the frame object lies in memory that the other thread frees at
its next return. CPython 3.11 has crashed there (python/cpython#111363), and `sys._current_frames` can lock up
(#106883). So `faulthandler` is used: it reads names and line numbers in place, makes no object, takes no reference, and
keeps the interpreter's lock until it is done, so that no thread goes on meanwhile.
"""

from __future__ import annotations

import faulthandler
import linecache
import os
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType, MappingProxyType
from typing import BinaryIO, Final, Self, cast

import trio

ROOT_TASK: Final = "root"
"""The name of the task that holds the nursery of everything under a supervisor."""

JOURNAL: Final = "agentrail journal "
"""Prefix of the names of a journal's threads: tasks of a supervisor wait for no other thread of agentrail's own.

The watchdog's thread only looks on, and may look at any time.
Trio's worker threads have other names: that of a tool, or Trio's own.
"""

NOWHERE: Final[Mapping[int, tuple[str, ...]]] = MappingProxyType({})

UNKNOWN: Final = "an unknown place"

TRIO: Final = os.path.join(os.path.dirname(trio.__file__), "")  # noqa: PTH118, PTH120 - compared with names of files

PACKAGE: Final = os.path.join(str(Path(__file__).parents[2]), "")  # noqa: PTH118 - as above
"""The folder of agentrail's own modules."""

STANDARD_LIBRARY: Final = os.path.join(os.path.dirname(os.__file__), "")  # noqa: PTH118, PTH120 - as above

INSTALLED: Final = "-packages"
"""Part of the names of the folders in the standard library's where other packages are installed."""

LOOP: Final = "unrolled_run"
"""The function in which Trio's loop runs tasks: what called it is the program that started the loop."""

_THREAD: Final = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)")
_FRAME: Final = re.compile(r'  File "(.*)", line (\d+) in (.*)')


def called(task: trio.lowlevel.Task) -> str:
    """Return the name of *task*, preceded under a supervisor by the names of its parent tasks, separated by ` / `."""
    names = [task.name]
    above = task.parent_nursery
    while above is not None:
        if above.parent_task.name == ROOT_TASK:
            return " / ".join(reversed(names))
        names.append(above.parent_task.name)
        above = above.parent_task.parent_nursery
    return task.name


def position_of(task: trio.lowlevel.Task) -> str:
    """Return where *task*, which does not run now, waits: file, line and function of its last frame outside Trio."""
    frames = [(frame.f_code, line) for frame, line in task.iter_await_frames()]
    outside = [entry for entry in frames if not entry[0].co_filename.startswith(TRIO)]
    return _placed(outside or frames) or UNKNOWN


def foreign_position_of(task: trio.lowlevel.Task) -> str | None:
    """Do as `position_of`, for the last frame outside Trio and agentrail; `None` if it has none: it is our own."""
    frames = [(frame.f_code, line) for frame, line in task.iter_await_frames()]
    return _placed([entry for entry in frames if not entry[0].co_filename.startswith((TRIO, PACKAGE))])


def _placed(frames: Sequence[tuple[CodeType, int]]) -> str | None:
    """Return file, line and function of the last of *frames*; `None` if there is none."""
    for code, line in frames[-1:]:
        return f"{code.co_filename}:{line} in {code.co_name}"
    return None


def tasks_in(nursery: trio.Nursery) -> Iterator[trio.lowlevel.Task]:
    """Yield the tasks in *nursery* and in the nurseries that they have opened, sorted by name."""
    for task in sorted(nursery.child_tasks, key=lambda task: task.name):
        yield task
        for inner in task.child_nurseries:
            yield from tasks_in(inner)


def threads_among(
    tasks: Collection[str], names: Mapping[int, str], stacks: Mapping[int, tuple[str, ...]] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield name and place of each thread that is in *names*, works for one of *tasks*, or is a journal's.

    Left out are the one that asks, and one of a journal that only waits for work: it has called nothing outside of its
    own file. *stacks* are frames by thread, if they were read already.
    """
    if stacks is None:
        with Scratch() as scratch:
            stacks = scratch.stacks()
    asks = threading.current_thread()
    for thread in threading.enumerate():
        if thread is asks:
            continue
        frames = [match for line in stacks.get(thread.ident or 0, ()) if (match := _FRAME.match(line))]
        files = [frame[1] for frame in frames if not frame[1].endswith("threading.py")]
        is_of_journal = tasks and thread.name.startswith(JOURNAL) and files[:1] != files[-1:]
        if thread.ident in names or is_of_journal or thread.name.rpartition(" from ")[2] in tasks:
            position = f"{frames[0][1]}:{frames[0][2]} in {frames[0][3]}" if frames else UNKNOWN
            yield names.get(thread.ident or 0, thread.name), position


class Scratch:
    """Reads the frames of all threads, by way of a file without a name.

    A pipe could fill up and block while the interpreter's lock is held. The file is opened before the frames are
    needed, because opening one gives up the lock, and the other threads would go on.
    """

    __slots__ = ("_file",)

    def __init__(self) -> None:
        self._file = _opened()

    def stacks(self) -> Mapping[int, tuple[str, ...]]:
        """Return the frames of each thread by its id, the innermost first; each is a line with file, line and function.

        `faulthandler` gives at most 100 threads, the youngest first, and at most 100 frames of each. In a build of
        Python without the interpreter's lock it gives only the thread that calls. If no file could be opened, or the
        disk is full, the result is empty.
        """
        file = self._file
        if file is None:
            return NOWHERE
        try:
            faulthandler.dump_traceback(file.fileno())
            file.seek(0)
            lines = file.read().decode("ascii", "backslashreplace").splitlines()
            file.seek(0)
            file.truncate()
        except OSError:
            return NOWHERE
        return dict(_by_thread(lines))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def _by_thread(lines: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield each thread's id and frames, from the lines that `faulthandler` wrote."""
    frames: tuple[str, ...] = ()
    for line in reversed(lines):  # the header of a thread comes before its frames
        thread = _THREAD.match(line)
        if thread is not None:
            yield int(thread[1], 16), frames[::-1]
            frames = ()
        elif _FRAME.match(line):
            frames = (*frames, line)


def in_the_loop(frames: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield file, line number and function of each frame below Trio's loop, the innermost first as in *frames*."""
    for frame in frames:
        match = _FRAME.match(frame)
        if match is None:
            continue
        file, line, function = match.groups()
        if function == LOOP and file.startswith(TRIO):
            return
        yield file, line, function


def line_of_user(frames: Sequence[str]) -> str:
    """Return where in the code of the program a task is: file, line and function of the innermost such frame.

    *frames* are those of the loop's thread, the innermost first. If none is of the program, it is one of a package that
    is installed, and else of agentrail.
    """
    every = [*in_the_loop(frames)]
    foreign = [frame for frame in every if not _is_library(frame[0])]
    program = [frame for frame in foreign if INSTALLED not in frame[0]]
    for file, line, function in (program or foreign or every)[:1]:
        return f"{file}:{line} in {function}"
    return UNKNOWN


def _is_library(file: str) -> bool:
    """Whether *file* is of Trio or agentrail, or comes with Python."""
    is_of_python = file.startswith((STANDARD_LIBRARY, "<")) and INSTALLED not in file
    return is_of_python or file.startswith((TRIO, PACKAGE))


def with_source(frames: Sequence[str]) -> str:
    """Return the frames of a thread as text with their lines of source, the innermost last; empty if there are none."""
    return "".join(f"{frame}\n{_source(frame)}" for frame in reversed(frames))


def _source(frame: str) -> str:
    """Return the source line of *frame*, indented; empty if it cannot be read."""
    match = _FRAME.match(frame)
    line = "" if match is None else linecache.getline(match[1], int(match[2])).strip()
    return line and f"    {line}\n"


def _opened() -> BinaryIO | None:
    """Return an open file without a name; `None` if none can be opened."""
    try:
        if hasattr(os, "memfd_create"):
            return os.fdopen(os.memfd_create("agentrail-stacks"), "w+b", buffering=0)
        import tempfile  # noqa: PLC0415 - brings much, and only systems without `memfd_create` need it

        return cast("BinaryIO", tempfile.TemporaryFile(buffering=0))
    except OSError:  # no file can be opened: callers go on without frames
        return None
