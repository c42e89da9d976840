"""Every block of a console in the README and the docs shows what its commands print, in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.docs.pages import PAGES, blocks_of, programs_of
from tests.docs.sources import ROOT
from tests.patience import PATIENCE

pytestmark = pytest.mark.long

SAVED: Final = re.compile(r"^Write this into `([\w.]+)`:$", re.MULTILINE)
"""Stands above a program that commands of its page use."""


def commands_of(page: Path) -> list[tuple[str, str]]:
    """Return the commands of *page*, and what each prints."""
    shown = "".join(block.text for block in blocks_of(page) if block.language == "console")
    parts = re.split(r"^\$ (.*)\n", shown, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("page", [page for page in PAGES if commands_of(page)], ids=lambda page: page.name)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    for name, program in zip(SAVED.findall(page.read_text(encoding="utf-8")), programs_of(page), strict=False):
        (tmp_path / name).write_text(program.text, encoding="utf-8")
    environment = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYTHONPATH": str(ROOT),
        "LC_ALL": "C.UTF-8",
    }
    for command, expected in commands_of(page):
        done = subprocess.run(  # noqa: S603 - the commands of our own pages
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
            env=environment,
            cwd=tmp_path,
            text=True,
        )
        assert done.stdout == expected, command
