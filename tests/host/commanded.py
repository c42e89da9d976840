"""`agentrail serve` in a process of its own."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Final

import trio
from attrs import frozen

SERVE: Final = (sys.executable, "-m", "agentrail", "serve")

LOG: Final = "serve.log"
"""File in the folder of the process to which its log is appended."""


@frozen
class Served:
    """A process that serves, and what it has printed."""

    process: trio.Process
    printed: str
    folder: Path

    @property
    def url(self) -> str:
        """Its address."""
        match = re.search(r" at (https?://[^/\s]+)", self.printed)
        assert match is not None, self.printed
        return match[1]

    @property
    def token(self) -> str:
        """The token for this machine."""
        match = re.search(r"/#token=(\S+)", self.printed)
        assert match is not None, self.printed
        return match[1]

    @property
    def log(self) -> str:
        """All that processes in this folder have logged."""
        return (self.folder / LOG).read_text(encoding="utf-8")


@asynccontextmanager
async def commanded(
    command: Sequence[str], folder: Path, *, descriptors: Sequence[int] = (), env: Mapping[str, str] | None = None
) -> AsyncGenerator[Served]:
    """Run a *command* that serves in *folder*, with these *descriptors*; kill it at the end if it still runs.

    Its environment is *env*; if `None`, that of this process, with a home in *folder*.
    """
    env = {**os.environ, "AGENTRAIL_HOME": str(folder / "home")} if env is None else env
    async with trio.open_nursery() as nursery:
        with (folder / LOG).open("ab") as log:
            run = partial(
                trio.run_process, cwd=folder, stdout=PIPE, stderr=log, check=False, pass_fds=descriptors, env=env
            )
            process: trio.Process = await nursery.start(run, command)
        assert process.stdout is not None
        content = b""
        while b"Ctrl-C" not in content:
            piece = await process.stdout.receive_some()
            assert piece, (content, (folder / LOG).read_text(encoding="utf-8"))
            content += piece
        try:
            yield Served(process, content.decode(), folder)
        finally:
            if process.returncode is None:
                process.kill()
