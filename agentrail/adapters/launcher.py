"""Runs one command and adopts all processes that it leaves behind, so that all can be ended; a script, never imported.

Processes whose parent has ended become children of this one (`PR_SET_CHILD_SUBREAPER`), even if they called `setsid` or
forked twice. The launcher exits only when it has no children left.

Orders come as single bytes on standard input. `t` sends SIGTERM to all processes, `b` to all except the command itself,
and `k` kills all. So does the end of the input, which also comes if the process that started the launcher is killed.

Usage: REPORT FOLDER TALK LIMITS PROGRAM ARGUMENT… The exit status of the command is written to the descriptor REPORT;
the command runs in the descriptor FOLDER. TALK is `in,out`, two descriptors for the command's standard input and
output, or the first alone. What is not named is no input, and the launcher's output.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36


def prctl(option: int, argument: int) -> None:
    """Call Linux's `prctl`; no-op on other systems."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, argument, 0, 0, 0)


def parents() -> dict[int, int]:
    """Return the parent's id of each process, by process id; empty on systems other than Linux."""
    parent_of: dict[int, int] = {}
    for name in os.listdir("/proc") if sys.platform == "linux" else ():  # noqa: PTH208 - nothing else is imported
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - nothing else is imported
                parent_of[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    return parent_of


class LaunchedTree:
    """The command's process, and all processes descended from it."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.status: int | None = None
        self.is_empty = False

    def tell(self, *signals: int, spared: int = 0) -> None:
        """Send *signals* to all processes of the tree but *spared*; if they cannot be listed, the first to the group.

        Parents get the signal before their children: a shell whose command ends first would take that for the normal
        end, and not run its trap.
        """
        above = parents()
        above.pop(os.getpid(), None)
        below: dict[int, list[int]] = {}
        for pid, parent in above.items():
            below.setdefault(parent, []).append(pid)
        mine = [os.getpid()]
        for pid in mine:
            mine += below.get(pid, ())
        for pid in mine[1:]:
            for number in () if pid == spared else signals:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, number)
        if not above:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.leader, signals[0])

    def reap(self) -> None:
        """Collect the exit statuses of processes that have ended; note whether any process is left."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.leader:
                    self.status = status
        except ChildProcessError:
            self.is_empty = True

    def end(self) -> None:
        """Kill processes until none of the tree is left."""
        pause = 0.001
        while True:
            self.reap()
            if self.is_empty:
                return
            self.tell(signal.SIGKILL)
            time.sleep(pause)
            pause = min(pause * 2, 0.05)


def become(argv: list[str], folder: int, talk: list[int], limits: str, launcher: int) -> None:
    """Replace this forked process by the command, in the launcher's session but in its own process group."""
    os.setpgid(0, 0)
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher:
        os._exit(125)
    os.fchdir(folder)
    for descriptor, source in enumerate(talk or [os.open(os.devnull, os.O_RDONLY)]):
        os.dup2(source, descriptor)
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for limit in filter(None, limits.split(",")):
        name, _, most = limit.partition("=")
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        value = int(most) if hard == resource.RLIM_INFINITY else min(int(most), hard)
        resource.setrlimit(kind, (value, value))
    os.execvp(argv[0], argv)  # noqa: S606 - running the given command is the purpose of this script


def watch(tree: LaunchedTree, woken: int) -> None:
    """Carry out orders from standard input; return when the command has ended, or all processes are to be killed."""
    while tree.status is None:
        ready = select.select([0, woken], [], [])[0]
        if woken in ready:
            os.read(woken, 4096)
            tree.reap()
        if 0 in ready:
            order = os.read(0, 1)
            if order not in {b"t", b"b"}:
                return
            tree.tell(signal.SIGTERM, signal.SIGCONT, spared=tree.leader if order == b"b" else 0)


def main() -> None:
    """Start the command, carry out orders until it ends, kill all processes that it left, and report its status."""
    report, folder, limits, argv = int(sys.argv[1]), int(sys.argv[2]), sys.argv[4], sys.argv[5:]
    talk = [int(number) for number in sys.argv[3].split(",") if number]
    for number in (report, folder, *talk):
        os.set_inheritable(number, False)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    launcher = os.getpid()
    leader = os.fork()
    if leader == 0:
        try:
            become(argv, folder, talk, limits, launcher)
        except Exception as error:  # noqa: BLE001 - the forked copy must exit, whatever the error is
            os.write(2, f"cannot run {argv[0]}: {getattr(error, 'strerror', None) or error}\n".encode())
        os._exit(127)
    for number in talk:
        os.close(number)
    tree = LaunchedTree(leader)
    watch(tree, woken)
    tree.end()
    os.write(report, str(tree.status).encode())


if __name__ == "__main__":
    main()
