"""Runs the code of the docs as a reader would: in an empty folder, in a process of its own, with the package alone.

This file is also the program that does it, so it imports nothing of the tests: `python -I as_user.py SECONDS FILE…`
runs each file in a process that it forks, some at once, so that the package is imported once for all of them.
"""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

SECONDS: Final = 120
"""How long one program may take. Most take none; this ends one that hangs, however busy the machine is."""

AT_ONCE: Final = 4

MOST: Final = (
    "agentrail.adapters.models.demo",
    "agentrail.app.preimport",
    "agentrail.app.build",
    "agentrail.tools.builtin",
    "agentrail.tools.signature",
)
"""Modules that a session imports and most programs so need: imported once, before the programs are forked."""

OUTPUT: Final = "output.txt"
TROUBLE: Final = "trouble.txt"


def run_programs(programs: Sequence[Path]) -> Sequence[Path]:
    """Run *programs*, each in its folder, and return those that failed.

    What one prints is in `OUTPUT` beside it; what it logs, and its traceback, is in `TROUBLE`.
    """
    command = [sys.executable, "-I", __file__, str(SECONDS), *map(str, programs)]
    limit = SECONDS * len(programs)
    done = subprocess.run(  # noqa: S603
        command, env=_environment(programs[0].parent), timeout=limit, check=True, stdout=subprocess.PIPE, text=True
    )
    return [Path(line) for line in done.stdout.splitlines()]


def run_tests(folder: Path) -> str | None:
    """Run pytest in *folder*, and return what it says if a test fails."""
    command = [sys.executable, "-I", "-m", "pytest", "-q", "-W", "error"]
    done = subprocess.run(  # noqa: S603
        command, cwd=folder, env=_environment(folder), timeout=9 * SECONDS, check=False, capture_output=True, text=True
    )
    return None if done.returncode == 0 else done.stdout + done.stderr


def _environment(home: Path) -> Mapping[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home)}


def _run(program: Path, seconds: int) -> int:
    """Run *program* in a process of its own, and return its id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.chdir(program.parent)
        for name, descriptor in ((OUTPUT, 1), (TROUBLE, 2)):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600), descriptor)
        signal.alarm(seconds)
        runpy.run_path(str(program), run_name="__main__")
        status = 0
    except BaseException:  # noqa: BLE001 - whatever it is, it is told, and this process ends
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Run the programs that are named, and name those that fail."""
    for public in ("agentrail", "agentrail.plugins", "agentrail.testing", "agentrail.values.events"):
        module = import_module(public)
        for name in module.__all__:  # imported when it is asked for: once here, and not by each program
            getattr(module, name)
    for name in MOST:
        import_module(name)
    seconds, *programs = sys.argv[1:]
    waiting = [Path(program) for program in reversed(programs)]
    running: dict[int, Path] = {}
    while waiting or running:
        while waiting and len(running) < AT_ONCE:
            program = waiting.pop()
            running[_run(program, int(seconds))] = program
        child, status = os.wait()
        program = running.pop(child)
        if os.WIFSIGNALED(status):
            with (program.parent / TROUBLE).open("a") as trouble:
                trouble.write(f"ended by signal {os.WTERMSIG(status)}; {signal.SIGALRM:d}: it took over {seconds} s\n")
        if status:
            sys.stdout.write(f"{program}\n")
            sys.stdout.flush()  # else the next child has it in its output too


if __name__ == "__main__":
    main()
