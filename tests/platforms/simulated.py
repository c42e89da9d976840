"""Runs a program where another system is simulated: `python -m tests.platforms.simulated win32 MODULE …`.

What the system does not have is hidden: modules, and names of modules as typeshed knows them. For Windows, files that
are open are not removed or replaced, folders are not opened, and only sockets can be waited for. The standard library
and Trio are loaded before, as they are on this system.
"""

import ast
import errno
import importlib
import os
import pathlib
import platform
import runpy
import shutil
import signal
import socket
import stat
import sys
import tempfile
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec

PRELOADED = (
    "anyio",
    "asyncio",
    "attr",
    "cattrs",
    "concurrent.futures.thread",
    "ctypes",
    "faulthandler",
    "fcntl",
    "getpass",
    "h11",
    "html.parser",
    "http.client",
    "httpx",
    "importlib.metadata",
    "linecache",
    "logging.handlers",
    "msgspec",
    "multiprocessing",
    "opentelemetry.sdk.metrics",
    "opentelemetry.sdk.trace",
    "random",
    "rich.console",
    "secrets",
    "sqlite3",
    "ssl",
    "subprocess",
    "tarfile",
    "tomllib",
    "trio",
    "urllib.request",
    "uuid",
    "webbrowser",
    "zoneinfo",
)
"""Loaded before anything is hidden: they chose what they use by the real system."""

MCP = "mcp"
"""As `PRELOADED`, but not for the command, which talks to no MCP server here: it takes longer than all the others."""

POSIX_MODULES = (
    *(
        "ctypes",
        "curses",
        "fcntl",
        "grp",
        "posix",
        "pty",
        "pwd",
        "readline",
        "resource",
        "spwd",
        "syslog",
        "termios",
        "tty",
    ),
)
"""Modules that Windows does not have; and `ctypes`, which is not needed there."""

NAMELESS = "-nameless"
"""At the end of a system's name: what it does not have is hidden, and `sys.platform` stays as it is."""

LINUX_MODULES = ("ctypes", "spwd")

CHANGED_MODULES = ("os", "signal", "socket")
SPAWN = ("POSIX_SPAWN_CLOSE", "POSIX_SPAWN_CLOSEFROM", "POSIX_SPAWN_DUP2", "POSIX_SPAWN_OPEN", "posix_spawn")
NEEDED = frozenset({"AF_UNIX", "sched_getaffinity", "statvfs", *SPAWN})
"""Names that the standard library or Trio use in passing on this system."""


def names_there(module: str, system: str) -> frozenset[str]:
    """Return the names that *module* has on *system*, as typeshed says."""
    spec = find_spec("mypy")
    assert spec is not None
    assert spec.origin is not None
    stubs = pathlib.Path(spec.origin).parent / "typeshed" / "stdlib"
    file = stubs / module / "__init__.pyi"
    tree = ast.parse((file if file.exists() else stubs / f"{module}.pyi").read_text())
    return frozenset(_names(tree.body, {"sys": types.SimpleNamespace(platform=system, version_info=sys.version_info)}))


def _names(body: list[ast.stmt], known: dict[str, object]) -> Iterator[str]:
    for statement in body:
        match statement:
            case ast.If(test=test):
                holds = eval(compile(ast.Expression(test), "", "eval"), known)  # noqa: S307 - typeshed's conditions
                yield from _names(statement.body if holds else statement.orelse, known)
            case ast.ImportFrom(names=names) | ast.Import(names=names):
                yield from (name.asname or name.name for name in names)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))


def simulate(system: str, preloaded: Sequence[str] = PRELOADED, *, has_name: bool = True) -> None:
    """Make this process look like one on *system*, `win32` or `darwin`; `sys.platform` only if *has_name*."""
    platform.uname()  # remembered: it would ask the system
    tempfile.gettempdir()
    for name in preloaded:
        importlib.import_module(name)
    for module in CHANGED_MODULES:
        _hide_names(importlib.import_module(module), names_there(module, system))
    tempfile._O_TMPFILE_WORKS = False  # type: ignore[attr-defined]  # noqa: SLF001
    if system == "win32":
        _like_windows()
    for name in POSIX_MODULES if system == "win32" else LINUX_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]  # so an import of it fails
    if has_name:
        sys.platform = system


def _hide_names(module: types.ModuleType, there: frozenset[str]) -> None:
    for name in vars(module).keys() - there - NEEDED:
        if not name.startswith("_") and not isinstance(vars(module)[name], types.ModuleType):
            delattr(module, name)


def _like_windows() -> None:
    import trio  # noqa: PLC0415 - after what it needs

    unix = socket.AF_UNIX
    del socket.AF_UNIX
    pair = socket.socketpair

    def socketpair(family: int | None = None, *args: int) -> tuple[socket.socket, socket.socket]:
        return pair(unix if family is None else family, *args)

    socket.socketpair = socketpair  # type: ignore[assignment]
    waits = trio.lowlevel.wait_readable

    async def wait_readable(sock: int | socket.socket) -> None:
        if isinstance(sock, int) and not stat.S_ISSOCK(os.fstat(sock).st_mode):
            raise OSError(errno.ENOTSOCK, "An operation was attempted on something that is not a socket")
        await waits(sock)

    trio.lowlevel.wait_readable = wait_readable  # type: ignore[assignment]
    del trio.lowlevel.FdStream
    for name in ("SIGHUP", "SIGTERM"):
        with suppress(AttributeError):
            delattr(signal, name)
    tempfile.TemporaryFile = tempfile.NamedTemporaryFile  # type: ignore[assignment]
    shutil._use_fd_functions = False  # type: ignore[attr-defined]  # noqa: SLF001
    shutil._winapi = types.SimpleNamespace(NeedCurrentDirectoryForExePath=bool)  # type: ignore[attr-defined]  # noqa: SLF001
    sys.modules["msvcrt"] = _msvcrt()
    _keep_open_files()


def _msvcrt() -> types.ModuleType:
    """Return a module with the one function of `msvcrt` that is used, by a lock of Linux."""
    import fcntl as locks  # noqa: PLC0415 - gone in a moment

    made = types.ModuleType("msvcrt")

    def locking(descriptor: int, mode: int, count: int) -> None:
        assert (mode, count) == (2, 1)
        assert os.lseek(descriptor, 0, os.SEEK_CUR) >= 1 << 30  # others may not even read what is locked
        try:
            locks.flock(descriptor, locks.LOCK_EX | locks.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(errno.EACCES, "Permission denied") from None

    made.locking = locking  # type: ignore[attr-defined]
    made.LK_NBLCK = 2  # type: ignore[attr-defined]
    return made


def _keep_open_files() -> None:
    """Have files that this process has open neither removed nor replaced, and folders not opened."""
    real_open = os.open

    def open_file(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is not None:
            message = "dir_fd unavailable on this platform"
            raise NotImplementedError(message)
        if pathlib.Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real_open(path, flags, mode)

    setattr(os, "open", open_file)  # noqa: B010 - its type has more kinds of paths
    for name in ("remove", "rename", "replace", "unlink"):
        setattr(os, name, _refusing_open(getattr(os, name)))


def _refusing_open(function: Callable[..., None]) -> Callable[..., None]:
    def call(*paths: str, **options: int | None) -> None:
        for path in paths:
            if _is_open(path):
                raise PermissionError(errno.EACCES, "it is being used by another process (WinError 32)", path)
        function(*paths, **options)

    return call


def _is_open(path: str) -> bool:
    with suppress(OSError):
        wanted = pathlib.Path(path).stat()
        for number in pathlib.Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                if os.path.samestat(os.fstat(int(number.name)), wanted):
                    return True
    return False


def main() -> None:
    """Run the module, or the file, that is named after the system, with the arguments that follow."""
    _, system, program, *_ = sys.argv
    preloaded = PRELOADED if program == "agentrail" else (*PRELOADED, MCP)
    simulate(system.removesuffix(NAMELESS), preloaded, has_name=not system.endswith(NAMELESS))
    sys.argv = sys.argv[2:]
    if program.endswith(".py"):
        runpy.run_path(program, run_name="__main__")
    else:
        runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
