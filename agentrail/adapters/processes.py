"""Runs commands as process trees, and ends whole trees: at a timeout, when killed, or when the caller is cancelled.

Each command is a child of its own launcher (`launcher.py`). The launcher adopts processes that the command leaves
behind, and kills them when the command ends. To end a tree, SIGTERM is sent first, and SIGKILL after a grace. Tasks of
their own read the output, so a process that has left the tree and still holds the pipe does not delay the result.

The beginning and the end of a long output are kept.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from agentrail.errors import CommandRefused, OutsideError
from agentrail.ports.sandbox import Command, Execution, Heard, OnOutput, Output
from agentrail.values.value import Value


class Capture:
    """Keeps the beginning and the end of an output, about half of *keep* bytes each.

    The end is cut only when it is twice as long as that, so that adding a piece is cheap.
    """

    __slots__ = ("_half", "_head", "_tail", "_total")

    def __init__(self, keep: int) -> None:
        self._half = max(keep // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, chunk: bytes) -> None:
        """Add the next piece of output."""
        self._total += len(chunk)
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._half:
            del self._tail[: -self._half]

    def output(self) -> Output:
        """Return the kept part of the output."""
        return Output(bytes(self._head), bytes(self._tail[-self._half :]), self._total)

    def heard(self, since: int) -> Heard:
        """Return the kept part of the output after byte *since*, and how many bytes after it are missing."""
        since = max(0, min(since, self._total))
        start = self._total - len(self._tail)  # the byte offset in the whole output at which the kept end begins
        head = bytes(self._head[since:])
        if since >= start:
            return Heard(bytes(self._tail[since - start :]), self._total)
        return Heard(head + bytes(self._tail), self._total, start - since - len(head))


log = logging.getLogger("agentrail.process")

GRACE: Final = 0.25
"""Seconds between SIGTERM and SIGKILL when a command is killed or its caller is cancelled."""

GRACE_AT_TIMEOUT: Final = 2.0
"""Seconds between SIGTERM and SIGKILL when a command has run out of time."""

PATIENCE: Final = 2.0
"""The most seconds for each step of killing: by the launcher, of the launcher itself, and of what that left running."""

DRAIN: Final = 0.1
"""Seconds to go on reading the output after the command has ended, if another process still holds the pipe."""

CHUNK: Final = 64 * 1024
"""The most bytes that one read takes of a command's output."""

MAX_COMMAND: Final = 100_000
"""The most bytes of a command with its arguments; a longer one is refused. Linux takes 128 KiB for one argument."""

SAFE_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The variable `PATH` of commands, unless a caller gives another."""

PASSED_ON: Final = ("HOME", "LANG", "LC_ALL", "LOGNAME", "TMPDIR", "TZ", "USER")
"""The environment variables of this process that a command gets by default, if they are set; none in bubblewrap."""

LAUNCHER: Final = str(Path(__file__).with_name("launcher.py"))
"""The script that runs a command, and adopts what it leaves behind."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LOADED: Final = re.compile(r"LD_.*|DYLD_.*|BASH_ENV|BASH_FUNC_.*|ENV|IFS|PATH|PS4|PROMPT_COMMAND|SHELLOPTS|BASHOPTS")


def clean_environment() -> dict[str, str]:
    """Return the environment of commands: `PASSED_ON` of this process, `SAFE_PATH`, and two others."""
    passed_on = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {"LANG": "C.UTF-8", "TERM": "dumb", **passed_on, "PATH": SAFE_PATH}


def check_environment(env: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return *env* as a mapping.

    Raise `CommandRefused` for an invalid variable, and for one that makes programs run other code (`LD_PRELOAD`).
    """
    for name, text in env:
        if not _NAME.fullmatch(name) or _LOADED.fullmatch(name) or "\0" in text:
            problem = f"the variable {name!r} cannot be set for it"
            raise CommandRefused(problem)
    return dict(env)


def argv_of(command: Command, shell: tuple[str, ...]) -> tuple[str, ...]:
    """Return program and arguments of *command*, a text as last argument of *shell*; may raise `CommandRefused`."""
    argv = (*shell, command.run) if isinstance(command.run, str) else command.run
    problem = ""
    if not argv or not argv[0].strip() or (isinstance(command.run, str) and not command.run.strip()):
        problem = "it is empty"
    elif any("\0" in word for word in argv):
        problem = "it has a NUL character"
    elif sum(len(word.encode(errors="surrogatepass")) for word in argv) > MAX_COMMAND:
        problem = f"it is longer than {MAX_COMMAND} bytes; write it to a file first"
    if problem:
        raise CommandRefused(problem)
    return argv


class Ready(Value):
    """A prepared start of a command: arguments and open descriptors, which the caller of `enter` closes."""

    argv: tuple[str, ...]
    """The program and its arguments."""
    folder: int
    """A descriptor of the folder where the command runs."""
    talk: tuple[int, ...] = ()
    """The command's ends of its standard input and output; of the input alone if the output is captured.

    Empty if it has no input either.
    """
    env: Mapping[str, str] | None = None
    """The whole environment of the command; `None` if it is that of the `Launch`."""


def _nothing() -> None:
    """No-op: the default of `leave`, for a command without clean-up."""


class Launch(Value, gc=True):
    """All settings that are needed to start a command."""

    name: str
    """The name of the command in error messages."""
    env: Mapping[str, str]
    """The whole environment of the command."""
    enter: Callable[[], Ready]
    """Function that prepares the start; called in a thread."""
    leave: Callable[[], None] = _nothing
    """Function that undoes `enter` after all processes of the command have ended; called in a thread."""
    limits: tuple[tuple[str, int], ...] = ()
    """Names of limits of the module `resource`, such as `RLIMIT_AS`, with their values."""
    wraps: bool = False
    """Whether the program only wraps another. It then gets no SIGTERM, because it would not wait for the other."""


class ProcessTree:
    """The processes of one command. One task calls `run`, once; any task may call `heard` and `kill`."""

    __slots__ = (
        "_command",
        "_drained",
        "_errors",
        "_execution",
        "_killed",
        "_launch",
        "_on_output",
        "_output",
        "_scope",
    )

    def __init__(self, command: Command, launch: Launch, on_output: OnOutput | None = None) -> None:
        self._command = command
        self._launch = launch
        self._on_output = on_output
        self._output = Capture(command.keep)
        self._errors = Capture(command.keep)
        self._scope = trio.CancelScope()
        self._killed = False
        self._drained = trio.Event()
        self._execution: Execution | None = None

    @property
    def execution(self) -> Execution | None:
        """The result of the command; `None` if it has not ended."""
        return self._execution

    @property
    def _seconds(self) -> float:
        """The most seconds from the start of the process on."""
        return self._command.timeout

    def heard(self, since: int = 0) -> Heard:
        """Return the kept part of the output after byte *since*."""
        return self._output.heard(since)

    def kill(self) -> None:
        """End the command with all its processes; `run` returns soon after."""
        self._killed = True
        self._scope.cancel()

    async def run(self) -> Execution:
        """Start the command and return its result when it has ended. If cancelled, end all its processes first."""
        ready = await trio.to_thread.run_sync(self._launch.enter)
        try:
            return await self._run(ready)
        finally:
            # Shielded: also a cancelled command must undo `enter`, which may have put files into the folder:
            # tests/sandboxes/test_trees.py::test_cancelled_at_any_moment_nothing_is_left
            with trio.CancelScope(shield=True):  # shielded, but short: only a few calls to the file system
                await trio.to_thread.run_sync(self._launch.leave)

    async def _run(self, ready: Ready) -> Execution:
        process, report = await self._start(ready)
        try:
            timed_out = await self._attend(process)
        finally:
            status = _status(report)
            os.close(report)
            # Shielded: also a cancelled command kills what a killed launcher left, and closes the pipes:
            # tests/sandboxes/test_trees.py::test_what_a_killed_launcher_leaves_is_ended_also_by_a_cancelled_command
            with trio.move_on_after(PATIENCE, shield=True):
                if status is None:
                    await _sweep(process.pid)
                for pipe in (process.stdin, process.stdout, process.stderr):
                    if pipe is not None:
                        await pipe.aclose()
        code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
        self._execution = Execution(
            code, self._output.output(), self._errors.output(), timed_out, self._killed, status is not None
        )
        return self._execution

    async def _start(self, ready: Ready) -> tuple[trio.Process, int]:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        started = False
        limits = ",".join(f"{name}={most}" for name, most in self._launch.limits)
        talk = ",".join(map(str, ready.talk))
        try:
            process = await trio.lowlevel.open_process(
                [sys.executable, "-I", "-S", LAUNCHER, str(writing), str(ready.folder), talk, limits, *ready.argv],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if self._command.merge else subprocess.PIPE,
                cwd="/",
                env=self._launch.env if ready.env is None else ready.env,
                pass_fds=(writing, ready.folder, *ready.talk),
                start_new_session=True,
            )
            started = True
        except OSError as error:
            raise OutsideError("command-failed", self._launch.name, error.strerror or str(error)) from error
        finally:
            for number in (writing, ready.folder, *ready.talk):
                os.close(number)
            if not started:
                os.close(reading)
        return process, reading

    async def _attend(self, process: trio.Process) -> bool:
        """Read the output until the process tree has ended; return whether the command ran out of time.

        At the timeout, after `kill` and if cancelled, end the tree.
        """
        async with trio.open_nursery() as readers:  # noqa: TID251 - those who read the pipes of one process end with it
            readers.start_soon(self._listen, process)
            try:
                self._scope.deadline = trio.current_time() + self._seconds
                with self._scope:
                    await process.wait()
                timed_out = self._scope.cancelled_caught and not self._killed
                if process.returncode is None:
                    await self._end(process, GRACE_AT_TIMEOUT if timed_out else GRACE)
            finally:
                if process.returncode is None:
                    # Shielded: if cancelled, the whole tree of processes is ended before this returns:
                    # tests/sandboxes/test_trees.py::test_after_a_cancel_none_is_alive
                    with trio.move_on_after(GRACE + 2 * PATIENCE, shield=True):
                        await self._end(process, GRACE)
            with trio.move_on_after(DRAIN):
                await self._drained.wait()
            readers.cancel_scope.cancel()
        return timed_out

    async def _end(self, process: trio.Process, grace: float) -> None:
        """End the tree: SIGTERM, *grace* seconds, SIGKILL; kill the launcher itself if it does not exit after that."""
        for order, patience in ((b"b" if self._launch.wraps else b"t", grace), (b"k", PATIENCE)):
            with trio.move_on_after(patience):
                with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                    if process.stdin is not None:
                        await process.stdin.send_all(order)
                await process.wait()
                return
        process.kill()
        with trio.move_on_after(PATIENCE):
            await process.wait()

    async def _listen(self, process: trio.Process) -> None:
        async with trio.open_nursery() as both:  # noqa: TID251 - the readers end with the process
            if process.stdout is not None:
                both.start_soon(self._read, process.stdout, self._output)
            if process.stderr is not None:
                both.start_soon(self._read, process.stderr, self._errors)
        self._drained.set()

    async def _read(self, pipe: trio.abc.ReceiveStream, capture: Capture) -> None:
        while chunk := await pipe.receive_some(CHUNK):
            self._take(bytes(chunk), capture)

    def _take(self, chunk: bytes, capture: Capture) -> None:
        """Keep a piece of output, and tell who listens."""
        capture.add(chunk)
        if self._on_output is not None:
            try:
                self._on_output(chunk)
            except Exception:
                log.exception("whoever hears the output of `%s` raised, and is not told any more", self._launch.name)
                self._on_output = None


def _status(report: int) -> int | None:
    try:
        status = os.read(report, 64)
    except BlockingIOError:
        return None
    return int(status) if status.isdigit() else None


async def _sweep(session: int) -> None:
    """Kill the processes of *session* after its launcher was killed; those that left the session are not found.

    The caller bounds how long it may take (`PATIENCE`): a process that the kernel does not end stays.
    """
    log.warning("the launcher of session %d was killed; what left its session may be alive", session)
    while pids := await trio.to_thread.run_sync(_members, session):
        for pid in pids:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        await trio.sleep(0.01)


def _members(session: int) -> list[int]:
    """Return the ids of the living processes of *session*. The system does not reuse its id while one is alive."""
    pids: list[int] = []
    for folder in Path("/proc").glob("[0-9]*") if sys.platform == "linux" else ():
        with suppress(OSError, ValueError):
            fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
            if int(fields[3]) == session and fields[0] != b"Z":
                pids.append(int(folder.name))
    return pids
