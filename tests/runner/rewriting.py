"""Imports modules of tests in a second process, which writes them as pytest rewrites their asserts.

In a new clone none is written yet, and to rewrite them takes longer than to collect the tests. The collection begins
with the first module, this process with the last one; where they meet, each finds what the other has written.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

MANY: Final = 50
"""So many modules are worth a process."""


def unwritten(files: Sequence[Path]) -> list[Path]:
    """Return those of the *files* that this version of pytest has never rewritten here."""
    ending = f".{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"
    return [file for file in files if not (file.parent / "__pycache__" / f"{file.stem}{ending}").exists()]


@contextmanager
def imported_from_the_end(root: Path, files: Sequence[Path]) -> Iterator[None]:
    """Import the *files* in *root* in another process, the last one first, until the block ends."""
    if len(files) < MANY or sys.dont_write_bytecode:
        yield
        return
    is_over, end = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(end)
        _import_and_exit(root, files, is_over)
    os.close(is_over)
    try:
        yield
    finally:
        os.close(end)
        os.waitpid(pid, 0)


def _import_and_exit(root: Path, files: Sequence[Path], is_over: int) -> None:
    try:
        for file in reversed(files):
            # The collection tells what is wrong with a module
            with suppress(BaseException):
                import_module(".".join(file.relative_to(root).with_suffix("").parts))
            if select.select([is_over], [], [], 0)[0]:
                break
    finally:
        os._exit(0)
