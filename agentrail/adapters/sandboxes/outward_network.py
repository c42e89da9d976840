"""Finds the program that gives commands a network of their own: outward traffic, and nothing of this machine."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agentrail.adapters.processes import LAUNCHER, SAFE_PATH
from agentrail.errors import SandboxMissing

CONNECTORS: Final = ("slirp4netns", "pasta")
"""The programs that can do it, the one that needs less time first."""

RESOLVER: Final = str(Path(__file__).with_name("resolv.conf"))
"""The file that names their resolver; that of the host may name one on a loopback address."""

_SCRIPT: Final = str(Path(__file__).with_name("own_network.py"))
TRIAL: Final = 10.0
"""The most seconds that a trial may take."""

_ROUTES: Final = "cat /proc/net/route"
"""Prints a title, and a line for each route."""


def connected(program: str, argv: Sequence[str]) -> tuple[str, ...]:
    """Return the command line that runs *argv*, a `bwrap` with `--unshare-net`, with a network by *program*."""
    return (sys.executable, "-I", "-S", _SCRIPT, program, *argv)


@functools.cache
def find_connector(argv: tuple[str, ...]) -> str:
    """Return the path of the program that gives *argv*, a `bwrap` with its namespaces, a network.

    Each is tried. Raise `SandboxMissing` if none works on this machine; only a success is remembered.
    """
    problems: list[str] = []
    for name in CONNECTORS:
        path = shutil.which(name, path=SAFE_PATH)
        if path is None:
            problems.append(f"{name} is not in {SAFE_PATH}")
        elif problem := _problem(path, argv):
            problems.append(f"{name} does not work: {problem}")
        else:
            return path
    raise SandboxMissing(" or ".join(CONNECTORS), "; ".join(problems))


def _problem(path: str, argv: tuple[str, ...]) -> str:
    """Return why the program at *path* gives no network to a command in a `bwrap`; empty if it does."""
    trial = connected(path, (*argv, "--ro-bind", "/", "/", "--proc", "/proc", "--", "/bin/sh", "-c", _ROUTES))
    report, reported = os.pipe()
    folder = os.open("/", os.O_RDONLY)
    # By the launcher, as each command: it waits for all that the trial starts, also where nothing else would
    command = [sys.executable, "-I", "-S", LAUNCHER, str(reported), str(folder), "", "", *trial]
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(  # noqa: S603 - constants
            command, stdin=pipe, stdout=pipe, stderr=pipe, env={}, pass_fds=(reported, folder)
        ) as process:
            try:
                process.wait(TRIAL)
            except subprocess.TimeoutExpired:  # the end of its input has the launcher end all of it
                return f"it took more than {TRIAL:g} seconds"
            output, errors = (stream.read() if stream else b"" for stream in (process.stdout, process.stderr))
    except OSError as error:
        return str(error)
    finally:
        for number in (report, reported, folder):
            os.close(number)
    if len(output.splitlines()) > 1:
        return ""
    return errors.decode(errors="replace").strip() or "there is no route"
