"""The program that commands of tests are forked from: it imports what `agentrail` imports once, and not at each start.

Its argument is a socket. Each packet is a JSON object with `args`, `cwd`, `env` and whether the command has a terminal
of its own, with the descriptors of its standard streams. It answers with the process id. Who has started this program
is the parent of the commands, too, so that it can wait for them; and Python ends them as if it had begun them.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import platform
import runpy
import signal
import socket
import sys
from importlib import import_module

MODULES = (
    *("agentrail.cli.running.run", "agentrail.cli.talk.chat", "agentrail.cli.talk.terminal"),
    *("agentrail.cli.subcommands", "agentrail.cli.stored.stored_sessions", "agentrail.cli.talk.live.prompt_box"),
    *("agentrail.app.session_code", "agentrail.codec.plugin_states", "agentrail.runtime.actor.journal_log"),
    *("agentrail.adapters.httpx_alone", "agentrail.adapters.models.http", "agentrail.adapters.models.demo"),
    *("agentrail.adapters.sandboxes.local", "agentrail.tools.json_schema.metered"),
)
"""Most of what `run`, `chat` and `serve` import when they begin."""

CLONE_PARENT = 0x8000
"""Makes the parent of this process that of the new one: <https://man7.org/linux/man-pages/man2/clone.2.html>."""

CLONE = {"x86_64": 56, "aarch64": 220}
"""The number of the system call, by machine."""

_SYSTEM = ctypes.PyDLL(None)


def fork() -> int:
    """Do what `os.fork` does, by a call that can name another parent."""
    ctypes.pythonapi.PyOS_BeforeFork()
    pid: int = _SYSTEM.syscall(CLONE[platform.machine()], CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    return pid


def become(packet: bytes, streams: list[int]) -> None:
    """Take the streams, the folder, the environment and the arguments of a command."""
    command = json.loads(packet)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if command["has_terminal"]:
        os.login_tty(os.dup(0))
    os.chdir(command["cwd"])
    os.environ.clear()
    os.environ.update(command["env"])
    encoding, errors = sys.stdin.encoding, sys.stdin.errors
    sys.stdin = open(0, encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115 - to its end
    sys.stdout = open(1, "w", encoding=encoding, errors=errors, closefd=False)  # noqa: SIM115 - as above
    sys.stderr = open(2, "w", 1, encoding, "backslashreplace", closefd=False)  # noqa: SIM115 - as above
    sys.argv[:] = ["agentrail", *command["args"]]
    sys.orig_argv[:] = [sys.executable, "-m", "agentrail", *command["args"]]


def main() -> None:
    """Fork commands until nobody can ask for one; return in each of them."""
    del sys.path[0]  # the folder of this program
    for name in MODULES:
        import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as link:
        while True:
            packet, streams, _, _ = socket.recv_fds(link, 1_000_000, 3)
            if not packet:
                os._exit(0)
            pid = fork()
            if pid == 0:
                break
            for descriptor in streams:
                os.close(descriptor)
            link.send(str(pid).encode())
    become(packet, streams)


if __name__ == "__main__":
    main()
    runpy.run_module("agentrail", run_name="__main__", alter_sys=True)
