"""Programs that are a client of a host in the process of the test."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

import trio

PATIENCE: Final = 180.0


async def run(*command: object, folder: Path, patience: float = PATIENCE, **environ: str) -> None:
    """Run a program in *folder*; it must succeed within *patience* seconds."""
    with trio.fail_after(patience):
        process = await trio.run_process(
            [str(word) for word in command],
            check=False,
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, **environ},
        )
    assert process.returncode == 0, process.stdout.decode()
