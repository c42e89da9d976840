"""`agentrail completion`: the scripts complete subcommands, options and files in the real shells."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from agentrail.cli.subcommands import SHELLS
from tests.cli.calling import subcommand
from tests.patience import PATIENCE

main = subcommand("completion")

READY: Final = "ready> "
"""The prompt of the shells, which is typed in two parts: what is typed is shown too."""

BEGIN: Final = {
    "bash": (
        ("--norc", "--noprofile", "-i"),
        "bind 'set enable-bracketed-paste off'; source {script}; PS1='rea''dy> '\n",
    ),
    "zsh": (("-f", "-i"), "autoload -Uz compinit; compinit -u -D; source {script}; PS1='rea''dy> '\n"),
}
"""The arguments of a shell without a person's own files, and what is typed first."""

CASES: Final = (
    ("agentrail sess", "agentrail sessions "),
    ("agentrail sessions --lab", "agentrail sessions --label "),
    ("agentrail sessions exp", "agentrail sessions export "),
    ("agentrail --contin", "agentrail --continue "),
    ("agentrail serve --log-form js", "agentrail serve --log-form json "),
    ("agentrail serve keys with", "agentrail serve keys withdraw "),
    ("agentrail check onlyh", "agentrail check onlyhere.py "),
    ("agentrail doctor --dir onlyf", "agentrail doctor --dir onlyfolder/"),
)
"""What is typed before the key Tab, and what then stands there."""


ENVIRONMENT: Final = {
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
    "TERM": "dumb",
    "LC_ALL": "C.UTF-8",
}
"""That of the shells, which find the command in it."""


def path_of_shell(shell: str) -> str:
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed: `make shell-tools` installs it")
    return path


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with the scripts, a file and a folder."""
    for shell in SHELLS:
        assert main([shell]) == 0
        (tmp_path / f"script.{shell}").write_text(capsys.readouterr().out, "utf-8")
    (tmp_path / "onlyhere.py").touch()
    (tmp_path / "onlyfolder").mkdir()
    (tmp_path / "onlyfile").touch()
    return tmp_path


class Typing:
    """A shell at a terminal."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._text = ""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def wait_for(self, text: str) -> None:
        """Read until *text* is there, and forget all up to its end."""
        while text not in self._text:
            assert select.select([self._terminal], [], [], PATIENCE)[0], f"{text!r} did not come: {self._text!r}"
            self._text += os.read(self._terminal, 4096).decode(errors="replace")
        self._text = self._text.partition(text)[2]


@contextmanager
def at_a_terminal(shell: str, folder: Path) -> Generator[Typing, None, None]:
    argv, first = BEGIN[shell]
    ours, theirs = pty.openpty()
    with subprocess.Popen(  # noqa: S603 - our own script
        [path_of_shell(shell), *argv],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**ENVIRONMENT, "HOME": str(folder)},
        process_group=0,
    ) as process:
        try:
            typing = Typing(ours)
            typing.type(first.format(script=f"script.{shell}"))
            typing.wait_for(READY)
            yield typing
        finally:
            process.kill()
            process.wait()
            os.close(theirs)
            os.close(ours)


@pytest.mark.long
@pytest.mark.parametrize("shell", list(BEGIN))
def test_the_key_tab_completes_at_a_terminal(shell: str, folder: Path) -> None:
    with at_a_terminal(shell, folder) as typing:
        for typed, completed_line in CASES:
            typing.type(f"{typed}\t")
            typing.wait_for(completed_line)
            typing.type("\x15")  # erases the line


@pytest.mark.long
@pytest.mark.parametrize(("typed", "completed_line"), CASES, ids=[typed for typed, _ in CASES])
def test_fish_offers_what_can_follow(typed: str, completed_line: str, folder: Path) -> None:
    code = f"source script.fish; complete -C '{typed}'"
    ran = subprocess.run(  # noqa: S603 - our own script
        [path_of_shell("fish"), "--no-config", "-c", code],
        cwd=folder,
        env={**ENVIRONMENT, "HOME": str(folder)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    offered = [line.partition("\t")[0] for line in ran.stdout.splitlines()]
    assert offered == [completed_line.rsplit(maxsplit=1)[-1]]


@pytest.mark.long
def test_each_shell_reads_its_script(folder: Path) -> None:
    for shell in SHELLS:
        if shutil.which(shell) is not None:
            ran = subprocess.run(  # noqa: S603 - our own script
                [path_of_shell(shell), "-n", f"script.{shell}"], cwd=folder, check=False, capture_output=True, text=True
            )
            assert (shell, ran.returncode, ran.stderr) == (shell, 0, "")


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (("bsh",), "there is no script for `bsh`; did you mean `bash`?"),
        ((), "SHELL is missing; `agentrail completion --help` lists the options"),
    ],
    ids=["shell", "none"],
)
def test_what_is_wrong_is_one_sentence(argv: Sequence[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert capsys.readouterr() == ("", f"agentrail: {problem}\n")
