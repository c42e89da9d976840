"""Finds the program that gives commands a network of their own: outward traffic, and nothing of this machine."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agentrail.adapters.processes import SAFE_PATH
from agentrail.errors import SandboxMissing

CONNECTORS: Final = ("slirp4netns", "pasta")
"""The programs that can do it, the one that needs less time first."""

RESOLVER: Final = str(Path(__file__).with_name("resolv.conf"))
"""The file that names their resolver; that of the host may name one on a loopback address."""

_SCRIPT: Final = str(Path(__file__).with_name("own_network.py"))
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
    try:
        result = subprocess.run(trial, capture_output=True, check=False, timeout=10, stdin=subprocess.DEVNULL, env={})  # noqa: S603 - constants
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if len(result.stdout.splitlines()) > 1:
        return ""
    return result.stderr.decode(errors="replace").strip() or "there is no route"
