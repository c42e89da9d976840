"""Hooks that do what no hook may do: each is refused, and told of with its place."""

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from attrs import frozen

from agentrail import Context, Continue, Plugin
from agentrail.plugins import BeforePrompt
from agentrail.testing import LawBrokenError, check_hook, check_init, check_plugin, check_screen, prompt, simulate
from tests.kit import collecting

FOLDER = Path(__file__).parent
FILE = FOLDER / "not_there.txt"

IMPURE: dict[str, tuple[Callable[[], object], str]] = {
    "print": (lambda: print("hello"), "printed"),  # noqa: T201 - it is refused
    "stdout": (lambda: sys.stdout.writelines(["hello"]), "printed"),
    "socket": (lambda: socket.create_connection(("127.0.0.1", 9)), "used a socket (`socket.getaddrinfo`)"),
    "name": (lambda: socket.gethostbyname("localhost"), "used a socket (`socket.gethostbyname`)"),
    "write": (lambda: FILE.write_text("x"), f"opened {str(FILE)!r} for writing"),
    "append": (lambda: FILE.open("a"), f"opened {str(FILE)!r} for writing"),
    "descriptor": (lambda: os.open(FILE, os.O_CREAT), f"opened {str(FILE)!r} for writing"),
    "remove": (lambda: FILE.unlink(missing_ok=True), "removed a file (`os.remove`)"),
    "rename": (lambda: FILE.rename(FOLDER / "other.txt"), "renamed a file (`os.rename`)"),
    "folder": (lambda: Path(FOLDER, "new").mkdir(), "made a folder (`os.mkdir`)"),
    "tree": (lambda: shutil.rmtree(FOLDER / "not_there", ignore_errors=True), "removed a folder (`shutil.rmtree`)"),
    "database": (lambda: sqlite3.connect(FILE), "opened a database (`sqlite3.connect`)"),
    "process": (
        lambda: subprocess.run([sys.executable, "-c", ""], check=True),
        "started a process (`subprocess.Popen`)",
    ),
    "system": (lambda: os.system("true"), "started a process (`os.system`)"),  # noqa: S605, S607 - it is refused
    "signal": (lambda: os.kill(os.getpid(), 0), "sent a signal (`os.kill`)"),
}

PROCESSES = {"process", "system"}


@frozen
class Impure(Plugin[None]):
    """Does at each prompt what it is told to do."""

    what: str

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None]:
        IMPURE[self.what][0]()
        return Continue()


class Quiet(Impure):
    """Hides that it was refused."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None]:
        try:
            return super().before_prompt(hook, state, ctx)
        except OSError:
            return Continue()


class AtFirst(Plugin[int]):
    """Prints in `init`."""

    def init(self, ctx: Context) -> int:
        sys.stdout.write("hello")
        return 0


class Screen(Plugin[None]):
    """Prints in `screen`."""

    def screen(self, text: str) -> str:
        sys.stdout.write(text)
        return text


class Imports(Plugin[None]):
    """Imports at its first prompt, reads a file, and writes where nothing is kept."""

    def before_prompt(self, hook: BeforePrompt, state: None, ctx: Context) -> Continue[None]:
        import_module("imported_at_a_prompt")
        Path(__file__).read_bytes()
        with Path(os.devnull).open("w") as nowhere:
            nowhere.write("x")
        return Continue()


def broken_by(check: Callable[[], object]) -> LawBrokenError:
    with pytest.raises(LawBrokenError) as broken:
        check()
    assert broken.value.law == "a pure hook"
    return broken.value


@pytest.mark.parametrize("cls", [Impure, Quiet])
@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=pytest.mark.long if what in PROCESSES else ()) for what in IMPURE]
)
def test_an_impure_call_in_a_hook_breaks_a_law(what: str, cls: type[Impure]) -> None:
    """Also if the hook hides it; a test that tries to start a process is long."""
    act, report = IMPURE[what]
    broken = broken_by(lambda: check_hook(cls(what), BeforePrompt("a", "p1")))
    assert broken.problem.startswith(f"it {report}")
    assert broken.problem.endswith(f" in {__file__}, line {act.__code__.co_firstlineno}")
    assert not FILE.exists()


def test_what_stands_in_the_place_of_print_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "own = print\ndef safe_print(*words): own(*words)"
    exec(compile(script, "library.py", "exec"), namespace := dict[str, Callable[..., None]]())  # noqa: S102 - ours
    monkeypatch.setattr("builtins.print", namespace["safe_print"])
    act, _ = IMPURE["print"]
    broken = broken_by(lambda: check_hook(Impure("print"), BeforePrompt("a", "p1")))
    assert broken.problem == f"it printed in {__file__}, line {act.__code__.co_firstlineno}"


def test_the_search_for_broken_laws_finds_it_with_the_smallest_example() -> None:
    broken = broken_by(lambda: check_plugin(Quiet("write")))
    assert "BeforePrompt(" in broken.example


@pytest.mark.parametrize("check", [lambda: check_init(AtFirst()), lambda: check_screen(Screen(), "a")])
def test_all_that_a_plugin_is_asked_is_pure(check: Callable[[], object]) -> None:
    assert broken_by(check).problem.startswith(f"it printed in {__file__}, line ")


def test_a_hook_may_import_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "imported_at_a_prompt.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    check_hook(Imports(), BeforePrompt("a", "p1"))
    assert list((tmp_path / "__pycache__").iterdir())


def test_only_hooks_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken_by(lambda: check_hook(Quiet("print"), BeforePrompt("a", "p1")))
    sys.stdout.write("printed")
    (tmp_path / "a.txt").write_text("x")
    assert capsys.readouterr().out == "printed"


def test_a_simulation_by_itself_refuses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """So that a hook may print while somebody looks for a fault in it."""
    simulate([Impure("print")], [prompt("a")])
    assert capsys.readouterr().out == "hello\n"


def test_simulations_of_a_check_refuse_and_tell_each_call_once(capsys: pytest.CaptureFixture[str]) -> None:
    with collecting() as calls:
        for _ in range(2):
            simulate([Quiet("print")], [prompt("a"), prompt("b")])
        sys.stdout.write("of the invariant")
    assert [call.partition(" in ")[0] for call in calls] == ["it printed"]
    assert capsys.readouterr().out == "of the invariant"
