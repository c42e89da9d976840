"""`agentrail new`: each folder that it writes passes its own test, and nothing is overwritten.

Their types are checked in `tests/docs/test_types.py`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement

from agentrail.cli.authoring.new_files import KINDS
from agentrail.distribution import install_origin, requirement
from tests.cli.calling import subcommand
from tests.patience import PATIENCE

main = subcommand("new")

OF_TRIALS: Final = {
    "agent": "`steeping` answered: “2”.",
    "plugin": "",
    "tool": "`convert` answered: “100.0 celsius”.",
}
"""How what the trial of a kind prints begins: the demo model calls its tool, without a key."""


def made(kind: str, folder: Path) -> Path:
    assert main([kind, str(folder)]) == 0
    return folder


def python(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *argv]
    return subprocess.run(  # noqa: S603 - our own code
        command,
        cwd=folder,
        check=False,
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_the_test_of_a_folder_passes_as_it_is(kind: str, tmp_path: Path) -> None:
    ran = python(made(kind, tmp_path / "first"), "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.long
def test_what_is_written_is_formatted(tmp_path: Path) -> None:
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not installed: whether the files are formatted was not looked at")
    for kind in KINDS:
        made(kind, tmp_path / kind)
    command = [str(ruff), "format", "--isolated", "--check", "--line-length=120", "."]
    checked = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)  # noqa: S603
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.long
@pytest.mark.parametrize("kind", ["agent", "plugin", "tool"])
def test_the_command_that_it_prints_tries_the_code(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(kind, tmp_path / "with space")
    test, trial = (line for line in capsys.readouterr().out.splitlines() if line.startswith("  "))
    assert test == f"  cd '{folder}' && {sys.executable} -m pytest"
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    argv = shlex.split(trial.removeprefix(f"  {sys.executable} -m "))
    ran = python(folder, *argv, *(("--time", "1") if kind == "plugin" else ()))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.startswith(OF_TRIALS[kind])


@pytest.mark.campaign
@pytest.mark.long
def test_what_the_readme_says_works_where_nothing_is_installed(tmp_path: Path) -> None:
    folder = made("agent", tmp_path / "teahouse")
    (commands,) = re.findall(r"```sh\n(.*?)```", (folder / "README.md").read_text("utf-8"), re.DOTALL)
    make_environment, *rest = commands.splitlines()
    environment = {**os.environ, "AGENTRAIL_HOME": str(tmp_path / "home")}

    def run(*lines: str) -> subprocess.CompletedProcess[str]:
        script = "\n".join(["set -e", *lines])
        return subprocess.run(  # noqa: S603 - our own lines
            ["/bin/sh", "-c", script],
            cwd=folder,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=20 * PATIENCE,
        )

    reached = run(make_environment, "pip download -q --no-deps -d ../index 'setuptools>=77'")
    if reached.returncode != 0:
        pytest.skip(f"no index of packages can be reached: no project was installed ({reached.stderr[-200:]})")
    ran = run(". .venv/bin/activate", *rest)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.rstrip().endswith(OF_TRIALS["agent"])


def test_without_pytest_the_extra_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pytest", None)
    made("tool", tmp_path / "first")
    assert "cannot run the test: it needs packages of the extra `testing`" in capsys.readouterr().out


def test_the_project_is_called_like_the_folder(tmp_path: Path) -> None:
    folder = made("tool", tmp_path / "above" / "My Tools_2")
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
    assert (project["project"]["name"], project["tool"]["pytest"]["ini_options"]) == ("my-tools-2", {"trio_mode": True})
    assert (folder / "README.md").read_text("utf-8").startswith("# My Tools_2\n")
    assert sorted(path.name for path in folder.iterdir()) == [
        *("README.md", "converter.py", "pyproject.toml", "test_converter.py")
    ]


def test_the_project_installs_what_wrote_it(tmp_path: Path) -> None:
    project = tomllib.loads((made("tool", tmp_path / "first") / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["dependencies"] == [requirement(install_origin())]
    assert project["optional-dependencies"]["test"] == [requirement(install_origin(), "testing"), "mypy"]
    for needs in (project["dependencies"][0], project["optional-dependencies"]["test"][0]):
        assert Requirement(needs).name == "agentrail-otp"
        assert Requirement(needs).url is not None, "this one is installed from a clone"


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "full" / "a.txt"
    file.parent.mkdir()
    file.write_text("mine", "utf-8")
    dangling = tmp_path / "link"
    dangling.symlink_to(tmp_path / "nowhere")
    for path in (file.parent, file, dangling):
        assert main(["agent", str(path)]) == 2
        message = f"agentrail: {str(path)!r} is there already, and not empty; name a folder that is not there yet\n"
        assert capsys.readouterr() == ("", message)
    assert (file.read_text("utf-8"), [*file.parent.iterdir()]) == ("mine", [file])
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main(["host", str(empty)]) == 0


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (("agnet", "x"), "nothing is made for `agnet`; did you mean `agent`?"),
        (("agent",), "FOLDER is missing; `agentrail new --help` lists the options"),
    ],
    ids=["kind", "folder"],
)
def test_what_is_wrong_is_one_sentence(argv: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert capsys.readouterr() == ("", f"agentrail: {problem}\n")
