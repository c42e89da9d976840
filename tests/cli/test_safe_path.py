"""`python -m agentrail` in the folder of a stranger runs no code of that folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.cli.talking import ENVIRONMENT

PLANTED: Final = "import pathlib; pathlib.Path(__file__ + '.ran').touch(); raise ImportError('planted')\n"
OTHERS: Final = (
    "attr",
    "attrs",
    "click",
    "httpx",
    "msgspec",
    "outcome",
    "prompt_toolkit",
    "rich",
    "sniffio",
    "trio",
    "yaml",
)

FIRST: Final = "import sys; print(*sys.modules)"
"""What Python itself has imported, by whatever way it was started: nothing of ours can come before it."""

COMMANDS: Final = (
    ("-m", "agentrail", "--version"),
    ("-m", "agentrail", "--help"),
    ("-magentrail", "doctor"),
    ("-Wd", "-m", "agentrail", "run", "--model", "demo", "hello"),
    ("-m", "agentrail", "chat", "--help"),
    ("-m", "agentrail.testing.simulator", "--help"),
    ("-m", "agentrail.cli.command"),
)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file for each module that an import may look for, but those that Python looks for before us."""
    folder = tmp_path_factory.mktemp("clone")
    (folder / "early").mkdir()
    (folder / "early" / "__init__.py").write_text(FIRST)
    (folder / "early" / "__main__.py").write_text("")
    ran = subprocess.run([sys.executable, "-m", "early"], cwd=folder, check=True, capture_output=True, text=True)
    for name in {*sys.stdlib_module_names, *OTHERS} - {*ran.stdout.split(), "__main__"}:
        (folder / f"{name}.py").write_text(PLANTED)
    assert (folder / "click.py").exists()
    assert (folder / "__future__.py").exists()
    return folder


@pytest.mark.long
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_module_of_the_current_folder_is_imported(words: tuple[str, ...], clone: Path) -> None:
    environment = {**ENVIRONMENT, "PYTHONDONTWRITEBYTECODE": "1"}
    ran = subprocess.run(  # noqa: S603 - our own
        [sys.executable, *words], cwd=clone, env=environment, check=False, capture_output=True, text=True
    )
    assert [name for name in os.listdir(clone) if name.endswith(".ran")] == [], ran.stderr  # noqa: PTH208 - names
    assert ran.returncode == 0, ran.stderr


@pytest.mark.long
def test_a_program_of_its_own_keeps_its_folder(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("import beside; print('fine')\n")
    (tmp_path / "beside.py").write_text("import agentrail\n")
    ran = subprocess.run(
        [sys.executable, "-m", "own"], cwd=tmp_path, env=dict(ENVIRONMENT), check=True, capture_output=True, text=True
    )
    assert ran.stdout == "fine\n"


@pytest.mark.long
def test_in_a_folder_that_was_removed_it_starts(tmp_path: Path) -> None:
    script = f"mkdir gone && cd gone && rmdir ../gone && exec {sys.executable} -m agentrail --version"
    ran = subprocess.run(  # noqa: S603 - our own
        ["/bin/sh", "-c", script], cwd=tmp_path, env=dict(ENVIRONMENT), check=True, capture_output=True
    )
    assert ran.stdout.startswith(b"agentrail ")
