"""Refuses what no hook may do while a hook runs: sockets, processes, changes of files, and `print`.

Sockets, processes and files raise audit events of Python. An audit hook cannot be removed, so one is installed at the
first use, and refuses something only inside `refusing`.
"""

from __future__ import annotations

import builtins
import inspect
import io
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import FrameType
from typing import Final, TypeVar

T = TypeVar("T")

_CALLS: Final[dict[str, str]] = {
    "os.exec": "started a process",
    "os.fork": "started a process",
    "os.forkpty": "started a process",
    "os.kill": "sent a signal",
    "os.killpg": "sent a signal",
    "os.posix_spawn": "started a process",
    "os.spawn": "started a process",
    "os.startfile": "started a process",
    "os.system": "started a process",
    "subprocess.": "started a process",
    "socket.": "used a socket",
    "os.chmod": "changed a file",
    "os.chown": "changed a file",
    "os.link": "changed a file",
    "os.mkdir": "made a folder",
    "os.remove": "removed a file",
    "os.rename": "renamed a file",
    "os.rmdir": "removed a folder",
    "os.symlink": "changed a file",
    "os.truncate": "changed a file",
    "os.utime": "changed a file",
    "shutil.rmtree": "removed a folder",
    "sqlite3.connect": "opened a database",
}
"""What a hook did that raises an audit event, by the name of the event; a name that ends in a dot is a prefix."""

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
"""Flags of a file that is opened for more than reading."""

_REFUSED: Final[ContextVar[list[str] | None]] = ContextVar("refused", default=None)
"""The calls that were refused while the hook runs; `None` if no hook runs."""

_COLLECTED: Final[ContextVar[list[str] | None]] = ContextVar("collected", default=None)
"""Where `refusing_if_collected` notes refused calls; `None` outside `collecting`."""


def refusing(ask: Callable[[], T], refused: list[str]) -> T:
    """Call *ask*, which calls hooks, and return its answer; refuse impure calls, and add each to *refused*.

    A refused call raises `PermissionError`; that is noted too, because a hook may catch it.
    """
    _listen()
    token, stdout = _REFUSED.set(refused), sys.stdout
    sys.stdout = _NoOutput()
    try:
        return ask()
    finally:
        sys.stdout = stdout
        _REFUSED.reset(token)


@contextmanager
def collecting() -> Generator[list[str]]:
    """Have simulations refuse impure calls in hooks; the list gets each such call once."""
    collected: list[str] = []
    token = _COLLECTED.set(collected)
    try:
        yield collected
    finally:
        _COLLECTED.reset(token)


def refusing_if_collected(ask: Callable[[], T]) -> T:
    """Call *ask* as `refusing` does inside `collecting`, else as it is; return its answer."""
    collected = _COLLECTED.get()
    return ask() if collected is None else refusing(ask, collected)


class _NoOutput(io.TextIOBase):
    """The standard output while a hook runs: refuses each text."""

    def write(self, text: str, /) -> int:
        _refuse(_REFUSED.get(), "printed")
        return len(text)


@cache
def _listen() -> None:
    """Install the audit hook, once."""
    sys.addaudithook(_Listener().hear)


class _Listener:
    """The audit hook; it has what it needs as attributes, because globals are gone when the interpreter ends."""

    def __init__(self) -> None:
        self._refused = _REFUSED
        self._refuse = _refuse
        self._deed = _deed

    def hear(self, event: str, args: tuple[object, ...]) -> None:
        """Refuse what *event* tells of, if a hook runs."""
        refused = self._refused.get()
        if refused is not None:
            self._refuse(refused, self._deed(event, args))


def _deed(event: str, args: tuple[object, ...]) -> str | None:
    """Return what the code did that raised *event*, in words; `None` if a hook may do it."""
    if event == "open":
        path, _, flags = args
        writes = isinstance(flags, int) and flags & _WRITES and path != os.devnull
        return f"opened {str(path)!r:.200} for writing" if writes else None
    deed = _CALLS.get(event) or _CALLS.get(f"{event.partition('.')[0]}.")
    return deed and f"{deed} (`{event}`)"


def _refuse(refused: list[str] | None, deed: str | None) -> None:
    """Raise `PermissionError`, and note *deed* with its place in *refused*; not if it is `None`, or of an import."""
    if deed is None or refused is None:
        return
    frames = list(_frames_of_hook(inspect.currentframe()))
    if any(frame.f_code.co_filename.startswith("<frozen importlib") for frame in frames):
        return  # Python writes the compiled files of what a hook imports
    outside = [frame for frame in frames if _package(frame) not in sys.stdlib_module_names] or frames
    where = f"it {deed} in {outside[0].f_code.co_filename}, line {outside[0].f_lineno}"
    if where not in refused:
        refused.append(where)
    raise PermissionError(f"refused while a hook runs: {where}; have a tool or a service do it")


def _frames_of_hook(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames from *frame* outwards, without those of this module, up to `refusing`.

    Nor with that of a `print` that a library has put in the place of Python's, as Ray does.
    """
    their_print: object = getattr(builtins.print, "__code__", None)
    while frame is not None and frame.f_code is not refusing.__code__:
        if frame.f_code.co_filename != __file__ and frame.f_code is not their_print:
            yield frame
        frame = frame.f_back


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]
