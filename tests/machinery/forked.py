"""Starts `python -m agentrail` by a fork of a process that has imported it."""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from tests.patience import PATIENCE

SERVER: Final = Path(__file__).with_name("fork_server.py")


class Forked(subprocess.Popen[bytes]):
    """`agentrail` with the arguments *args*: in all else what `subprocess.Popen` gives.

    Three quarters of what `run` and `chat` take are imports. A test of what happens in these, or of the paths on which
    modules are found, starts the program itself.
    """

    def __init__(
        self,
        args: Sequence[str],
        *,
        env: Mapping[str, str],
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        cwd: Path | None = None,
        has_terminal: bool = False,
    ) -> None:
        self._has_terminal = has_terminal
        super().__init__(args, env=env, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd)

    def _execute_child(  # noqa: PLR0913, PLR0917 - as it is called
        self,
        args: Sequence[str],
        executable: object,
        preexec_fn: object,
        close_fds: object,
        pass_fds: object,
        cwd: Path | None,
        env: Mapping[str, str],
        startupinfo: object,
        creationflags: object,
        shell: object,
        stdin: int,
        stdin_pipe: int,
        stdout_pipe: int,
        stdout: int,
        stderr_pipe: int,
        stderr: int,
        *_: object,
    ) -> None:
        """Start the process; `Popen` calls this with one side of each pipe, or -1."""
        sys.audit("subprocess.Popen", sys.executable, args, cwd, env)
        command = {"args": args, "cwd": str(cwd or Path.cwd()), "env": env, "has_terminal": self._has_terminal}
        streams = [number if given == -1 else given for number, given in enumerate((stdin, stdout, stderr))]
        link = _link(os.getpid())
        socket.send_fds(link, [json.dumps(command).encode()], streams)
        self.pid = int(link.recv(100))
        self._child_created = True
        self._close_pipe_fds(stdin, stdin_pipe, stdout_pipe, stdout, stderr_pipe, stderr)  # type: ignore[attr-defined]


def run_forked(
    args: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None, piped: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run `agentrail` with the arguments *args*, and *piped* as its input; return its output, errors and exit code."""
    pipe = subprocess.PIPE
    with Forked(args, stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=cwd) as process:
        try:
            output, errors = process.communicate(piped, PATIENCE)
        finally:
            process.kill()
    return subprocess.CompletedProcess(args, process.returncode, output, errors)


@cache
def _link(pid: int) -> socket.socket:  # noqa: ARG001 - a fork has a server of its own
    """Return the socket of the server that the process with the id *pid*, which is this one, has started."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(  # noqa: S603 - our own
            [sys.executable, str(SERVER), str(theirs.fileno())],
            env={"LC_ALL": "C.UTF-8", "PYTHONPATH": str(SERVER.parents[2])},
            pass_fds=(theirs.fileno(),),
        )

    def end() -> None:
        ours.close()
        server.wait()

    atexit.register(end)
    return ours
