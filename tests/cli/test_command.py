"""The command `agentrail`: its subcommands, and what each imports."""

from __future__ import annotations

import errno
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points, version
from inspect import Parameter, signature
from pathlib import Path
from typing import Final, TypeAlias

import click
import pytest

import agentrail
from agentrail.adapters.extras import install_command
from agentrail.api.operation_table import SCOPES
from agentrail.cli.authoring.new_files import KINDS
from agentrail.cli.chat_options import ChatOptions
from agentrail.cli.click_commands import CliCommand, CommandGroup
from agentrail.cli.command import main
from agentrail.cli.command_options import MODES_ABOUT
from agentrail.cli.evaluating.backtest_sessions import BackTestOptions
from agentrail.cli.evaluating.run_cases import RunCasesOptions
from agentrail.cli.exit_codes import COMPLETE, DEBUG
from agentrail.cli.host.serve_options import ServeOptions
from agentrail.cli.running.run_options import RunOptions
from agentrail.cli.settings.default_agent import MODES
from agentrail.cli.subcommands import PROGRAM, SUBCOMMANDS
from agentrail.host.builtin_plugins.request_log import FORMS
from tests.cli.talking import ENVIRONMENT

Row: TypeAlias = CliCommand | CommandGroup

HOME = Path(__file__).parents[2]
HEAVY = ("trio", "httpx", "asyncio", "hypothesis", "sqlite3", "click", "agentrail.app", "agentrail.testing")


def _imports(*argv: str) -> set[str]:
    """Return what a fresh process has imported when it has done *argv*."""
    code = f"""
import sys
from agentrail.cli.command import main
try:
    main({list(argv)!r})
except SystemExit:
    pass
print()
print(*sys.modules)
"""
    ran = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)  # noqa: S603
    return set(ran.stdout.splitlines()[-1].split())


def test_the_program_is_the_command() -> None:
    (script,) = entry_points(group="console_scripts", name="agentrail")
    assert script.load() is main


@pytest.mark.long
def test_the_version_is_told_and_nothing_heavy_imported(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"agentrail {version('agentrail-otp')}\n"
    assert agentrail.__version__ == version("agentrail-otp")
    assert [name for name in _imports("--version") if name.startswith(HEAVY)] == []


READY = """
import os, sys, threading
import agentrail.cli.talk.live.prompt_box
from agentrail.cli.command import main

class Ready:
    def find_spec(self, name, path=None, target=None):
        if name == "agentrail.cli.talk.chat_sessions":
            thread = [IN_THREAD] if threading.current_thread() is not threading.main_thread() else []
            os.write(shown, " ".join([*sys.modules, *thread]).encode())
            os._exit(0)

IN_THREAD = "beside Trio".replace(" ", "-")
shown = os.dup(1)
sys.meta_path.insert(0, Ready())
main(["chat", *sys.argv[1:]])
"""
"""Tells what is imported when `chat` reads keys, and begins to import the rest."""

AFTER_THE_PROMPT = (
    *("sqlite3", "cattrs", "h11", "jsonschema", "httpx", "rich", "importlib.metadata", "agentrail.cli.talk.console"),
    *(f"agentrail.{package}." for package in ("adapters.journals", "api", "core", "hooks", "host", "remote", "tools")),
)


MOST_AT_THE_PROMPT: Final = 85
"""The most modules of agentrail that are imported until keys are read; there were 400."""


@pytest.mark.long
@pytest.mark.parametrize("args", [(), ("--continue",)])
def test_chat_reads_keys_before_it_imports_what_serves_its_sessions(tmp_path: Path, args: tuple[str, ...]) -> None:
    command = [sys.executable, "-c", READY, *args]
    environment = {**ENVIRONMENT, "AGENTRAIL_HOME": str(tmp_path / "home")}
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path, env=environment)  # noqa: S603
    modules = ran.stdout.split()
    assert "beside-Trio" in modules, "keys are read meanwhile"
    assert [name for name in modules if name.startswith(AFTER_THE_PROMPT)] == []
    assert len([name for name in modules if name.startswith("agentrail")]) < MOST_AT_THE_PROMPT


def test_the_help_is_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    help_text = capsys.readouterr().out
    for row in SUBCOMMANDS:
        assert re.search(rf"^  {row.name} +{re.escape(row.purpose)}$", help_text, re.MULTILINE)


def commands(group: click.Group) -> Iterator[CliCommand]:
    """Yield all commands of *group*, and of the groups in it."""
    for command in group.commands.values():
        if isinstance(command, click.Group):
            yield from commands(command)
        elif isinstance(command, CliCommand):
            yield command


@pytest.mark.long
def test_each_command_has_a_function_that_takes_its_parameters() -> None:
    for command in commands(PROGRAM):
        module, _, name = command.run.partition(":")
        parameters = signature(getattr(import_module(module), name)).parameters
        names = {param.name for param in command.params}
        if "words" in parameters and parameters["words"].kind is Parameter.VAR_KEYWORD:
            options = OPTIONS[module.removeprefix("agentrail.cli.")]
            assert names <= set(options.__annotations__), command.name
        else:
            assert names == {*parameters}, command.name


OPTIONS: Final = {
    "acp.acp_command": ChatOptions,
    "evaluating.backtest_sessions": BackTestOptions,
    "evaluating.run_cases": RunCasesOptions,
    "host.serve": ServeOptions,
    "mcp_serving.serve_command": ChatOptions,
    "running.run": RunOptions,
    "talk.chat": ChatOptions,
}
"""The classes of which the functions with any parameters make a value, by the module of the function."""


def test_what_the_declarations_write_again_is_what_the_code_has() -> None:
    assert tuple(MODES_ABOUT) == MODES
    log_form = next(param for param in PROGRAM.commands["serve"].params if param.name == "log_form")
    assert isinstance(log_form.type, click.Choice)
    assert log_form.type.choices == FORMS
    kind = next(param for param in PROGRAM.commands["new"].params if param.name == "kind")
    assert isinstance(kind.type, click.Choice)
    assert {*kind.type.choices} == {*KINDS}
    assert all(scope in str(param.help) for scope in SCOPES for param in _make_key().params if param.name == "scopes")


def _make_key() -> click.Command:
    keys = PROGRAM.commands["serve keys"]
    assert isinstance(keys, click.Group)
    return keys.commands["make"]


@pytest.mark.long
@pytest.mark.parametrize("row", SUBCOMMANDS, ids=lambda row: row.name)
def test_the_help_of_a_subcommand_imports_no_code_of_it(row: Row) -> None:
    modules = {command.run.partition(":")[0] for command in commands(PROGRAM)}
    assert _imports(str(row.name), "--help") & modules == set()


@pytest.mark.long
def test_nothing_is_collected_while_a_subcommand_is_imported() -> None:
    code = """
import gc
from agentrail.cli.command import main
found = []
gc.callbacks.append(lambda phase, info: found.append(phase))
try:
    main(["serve", "--reload"])
except SystemExit:
    pass
print()
print(len(found) // 2, gc.isenabled(), gc.get_freeze_count() > 10_000)
"""
    ran = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)  # noqa: S603
    collections, *rest = ran.stdout.splitlines()[-1].split()
    assert rest == ["True", "True"]
    assert int(collections) < 10  # those of the work after it; there were 120


@pytest.mark.long
def test_a_process_that_calls_a_subcommand_again_has_nothing_of_its_own_frozen() -> None:
    code = """
import gc
from agentrail.cli.command import main
def call():
    try:
        main(["serve", "--reload"])
    except SystemExit:
        pass
    return gc.get_freeze_count()
before = call()
own = [[] for _ in range(1000)]
print()
print(call() <= before)
"""
    ran = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True, text=True)  # noqa: S603
    assert ran.stdout.splitlines()[-1] == "True"


def test_a_subcommand_that_is_not_there_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chekc", "plugins.py"]) == 2
    assert capsys.readouterr().err == ("agentrail: there is no subcommand `chekc`; did you mean `check`?\n")


def test_more_of_an_error_is_told_on_request(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(DEBUG, "")  # so that it is taken back
    assert main(["trust", "/no/such/folder"]) == 2
    assert capsys.readouterr().err == "agentrail: there is no folder '/no/such/folder'\n"
    assert main(["--debug", "trust", "/no/such/folder"]) == 2
    line, traceback = capsys.readouterr().err.split("\n", 1)
    assert line == "agentrail: there is no folder '/no/such/folder'"
    assert traceback.startswith("Traceback (most recent call last):\n")
    assert traceback.endswith("BadInputError: there is no folder '/no/such/folder'\n")
    assert main(["--debug", "--debug", "--version"]) == 0


def test_without_a_subcommand_it_is_chat(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dir", "/no/such/folder"]) == 2
    assert capsys.readouterr().err == "agentrail: --dir: there is no folder '/no/such/folder'\n"


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["sessions", "--journal", "x.db", "show", "trip"], "got unexpected extra arguments (show trip); if `show` is"),
        (["sessions", "--messages", "3", "show", "trip"], "there is no option `--messages`; if `show` is"),
        (["--model", "demo", "run", "hello"], "there is no file 'run'; if `run` is"),
    ],
)
def test_options_before_the_name_of_a_command_are_told_where_they_stand(
    argv: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert capsys.readouterr().err == f"agentrail: {problem} the command, its options stand behind it\n"


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["serve", "--name", "--origin", "x"], "--name needs a value, and `--origin` is an option"),
        (["serve", "--tls", "cert.pem", "--reload"], "--tls needs a value, and `--reload` is an option"),
    ],
)
def test_an_option_with_several_values_takes_no_option_for_one(
    argv: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert capsys.readouterr().err == f"agentrail: {problem}; `agentrail serve --help` lists the options\n"


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["chat", "--resume", "\udcff"], "--resume: '\\udcff' is no UTF-8"),
        (["run", "--model", "\udcff", "hello"], "--model: '\\udcff' is no UTF-8"),
        (["serve", "--name", "\udcff"], "--name: '\\udcff' is no UTF-8"),
        (["run", "--journal", "\udcff", "hello"], "--journal: '\\udcff' is no UTF-8"),
        (["console", "\udcff"], "'\\udcff' is no UTF-8"),
        (["sessions", "why", "\udcff"], "'\\udcff' is no UTF-8"),
        (["new", "agent", "\udcff"], "'\\udcff' is no UTF-8"),
    ],
)
def test_an_argument_that_is_no_utf_8_is_wrong_usage(
    argv: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    assert capsys.readouterr().err == f"agentrail: {problem}\n"


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["chat", "--resume", ""], "--resume: the name is empty; without one, you choose from a list"),
        (["trust", "--yes", ""], "the name of the folder is empty; leave it out for this one"),
        (["trust", "--forget", ""], "the name of the folder is empty; leave it out for this one"),
    ],
)
def test_an_empty_name_stands_for_nothing(argv: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Such as that of a variable that is not set."""
    assert main(argv) == 2
    assert capsys.readouterr().err == f"agentrail: {problem}\n"


class FullDisk(io.StringIO):
    """A file on a disk without room."""

    def write(self, text: str) -> int:
        """Fail."""
        del text
        raise OSError(errno.ENOSPC, "no room")


@pytest.mark.parametrize("argv", [["--version"], ["--help"], ["completion", "bash"]])
def test_a_disk_without_room_for_the_output_is_one_sentence(
    argv: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", FullDisk())
    assert main(argv) == 1
    assert capsys.readouterr().err == f"agentrail: [Errno {errno.ENOSPC}] no room\n"


def test_a_command_whose_output_is_closed_ends_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["completion", "bash"]) == 0


@pytest.mark.parametrize("instruction", ["nonsense", "_", "bash_source", "bash_complete"])
def test_a_variable_of_no_script_that_completes_changes_nothing(
    instruction: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(COMPLETE, instruction)
    monkeypatch.delenv("COMP_WORDS", raising=False)
    assert main(["completion", "fish"]) == 0
    assert "complete --no-files --command agentrail" in capsys.readouterr().out


@pytest.mark.long
def test_a_subcommand_that_is_interrupted_while_it_is_imported_ends_quietly() -> None:
    code = """
import sys
from agentrail.cli.command import main


class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "agentrail.cli.running.run":
            raise KeyboardInterrupt


sys.meta_path.insert(0, Interrupting())
sys.exit(main(["run", "hello"]))
"""
    ran = subprocess.run([sys.executable, "-I", "-c", code], check=False, capture_output=True, text=True)  # noqa: S603
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")


def _without_the_extra(*argv: str) -> subprocess.CompletedProcess[str]:
    code = f"""
import sys
sys.modules["hypothesis"] = None
from agentrail.cli.command import main
sys.exit(main({list(argv)!r}))
"""
    command = [sys.executable, "-I", "-c", code]
    return subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own code


@pytest.mark.long
def test_a_subcommand_without_its_extra_says_which() -> None:
    ran = _without_the_extra("check", __file__)
    assert ran.returncode == 2
    assert ran.stderr == (
        "agentrail: cannot check plugins: it needs packages of the extra `testing`, which are not installed; "
        f"run `{install_command('testing')}`\n"
    )


@pytest.mark.long
@pytest.mark.parametrize("row", SUBCOMMANDS, ids=lambda row: row.name)
def test_the_help_of_a_subcommand_needs_no_extra_and_fits_a_screen(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = _without_the_extra(str(row.name), "--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith(f"usage: agentrail {row.name} ")
    assert "example: " in ran.stdout
    lines = ran.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_the_command_to_install_an_extra_is_that_of_this_interpreter_and_clone() -> None:
    assert shlex.split(install_command("testing")) == [sys.executable, "-m", "pip", "install", "-e", f"{HOME}[testing]"]


@pytest.mark.long
def test_a_character_that_the_output_cannot_have_is_escaped() -> None:
    command = [sys.executable, "-m", "agentrail", "tools"]
    environment = {**ENVIRONMENT, "PYTHONIOENCODING": "cp437"}  # as that of a pipe of Windows may be
    ran = subprocess.run(command, check=True, capture_output=True, env=environment)  # noqa: S603 - our own
    assert rb"\u2026" in ran.stdout
