"""The views of `agentrail sessions`, and the subcommands that they were before, which work and are not shown."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
import trio
from click.shell_completion import ShellComplete

from agentrail import SessionSpec, open_supervisor
from agentrail.cli.command import main
from agentrail.cli.subcommands import PROGRAM, SUBCOMMANDS
from agentrail.journals import SqliteJournal

VIEWS = ("why", "seen", "replay", "top")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A journal with the session `trip`."""
    path = tmp_path / "j.db"

    async def fill() -> None:
        async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
            session = await supervisor.spawn(SessionSpec(model="demo"), "trip")
            await session.ask("hi")

    trio.run(fill)
    return path


@pytest.mark.parametrize(
    "words", [("why", "trip"), ("seen", "trip", "--json"), ("replay", "trip"), ("replay", "trip", "2"), ("top",)]
)
def test_an_old_word_does_what_the_view_does(
    words: tuple[str, ...], journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["sessions", *words, "--journal", str(journal)])
    new = capsys.readouterr()
    assert new.out or new.err
    assert main([*words, "--journal", str(journal)]) == status
    assert capsys.readouterr() == new


def test_the_help_shows_the_views_under_sessions_alone(capsys: pytest.CaptureFixture[str]) -> None:
    def names_in(*words: str) -> list[str]:
        assert main([*words, "--help"]) == 0
        lines = capsys.readouterr().out.splitlines()
        return [line.split()[0] for line in lines if line.startswith("  ") and not line.startswith("   ")]

    assert not {*VIEWS} & {*names_in()}
    assert {*VIEWS} <= {*names_in("sessions")}
    assert not {*VIEWS} & {row.name for row in SUBCOMMANDS}


@pytest.mark.parametrize("name", VIEWS)
def test_the_examples_have_the_new_word(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([name], ["sessions", name]):
        assert main([*words, "--help"]) == 0
        assert f"example: agentrail sessions {name}" in capsys.readouterr().out


def test_no_old_word_is_completed() -> None:
    def offered(*before: str) -> set[str]:
        return {item.value for item in ShellComplete(PROGRAM, {}, "agentrail", "").get_completions([*before], "")}

    assert not {*VIEWS} & offered()
    assert {*VIEWS} <= offered("sessions")


def test_a_misspelt_word_is_told_with_no_old_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replai"]) == 2
    assert capsys.readouterr().err == (
        "agentrail: there is no subcommand `replai`; `agentrail --help` lists those there are\n"
    )
    assert main(["sessions", "replai"]) == 2
    assert "did you mean `replay`?" in capsys.readouterr().err


def test_an_old_word_is_the_same_command() -> None:
    sessions = PROGRAM.commands["sessions"]
    assert isinstance(sessions, click.Group)
    for name in VIEWS:
        assert PROGRAM.commands[name].params == sessions.commands[name].params
        assert (PROGRAM.commands[name].hidden, sessions.commands[name].hidden) == (True, False)
