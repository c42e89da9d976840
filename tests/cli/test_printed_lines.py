"""What tools print while a conversation has the terminal."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from agentrail.cli.output.printed_lines import LONGEST, MOST_AT_ONCE, PrintedLines
from agentrail.cli.output.screen import ScreenText
from tests.cli.talking import at_a_terminal, through_pipes
from tests.patience import PATIENCE

PRINTING = """
import os, subprocess, sys
from agentrail import SessionSpec, tool
from agentrail.testing import ScriptedModel, call, say

@tool
async def chatter() -> str:
    '''Print.'''
    print("one")
    os.write(2, b"two\\n")
    subprocess.run([sys.executable, "-c", "print('three')"])
    return "done"

noisy = SessionSpec(model=ScriptedModel([say("I print.", calls=[call("chatter")]), "That was it."]), tools=[chatter])
"""


class Heard:
    """What was shown."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.more = trio.Event()

    def show(self, pieces: Sequence[ScreenText]) -> None:
        self.rows += [piece.text for piece in pieces]
        self.more.set()

    async def wait_for(self, row: str) -> None:
        with trio.fail_after(PATIENCE):
            while row not in self.rows:
                self.more = trio.Event()
                await self.more.wait()


def files_of_streams() -> list[tuple[int, int]]:
    """Return which files standard output and standard error lead to; `capfd` has some in the place of both."""
    return [(status.st_dev, status.st_ino) for status in (os.fstat(1), os.fstat(2))]


@pytest.mark.long
@pytest.mark.usefixtures("capfd")
async def test_what_is_printed_is_shown_at_once() -> None:
    heard, files = Heard(), files_of_streams()
    with PrintedLines(heard.show).caught():
        os.write(1, b"hello\nhalf")
        await heard.wait_for("  printed: hello")
        assert heard.rows == ["  printed: hello"]
        subprocess.run([sys.executable, "-c", "print(' a line')"], check=True)  # noqa: ASYNC221 - our own
        await heard.wait_for("  printed: half a line")
        os.write(1, b"the end")
    assert heard.rows == ["  printed: hello", "  printed: half a line", "  printed: the end"]
    assert files_of_streams() == files


@pytest.mark.usefixtures("capfd")
async def test_who_prints_without_end_blocks_nobody_and_is_not_followed() -> None:
    heard, files = Heard(), files_of_streams()
    with PrintedLines(heard.show).caught():
        os.write(1, b"x" * 10 * LONGEST + b"\n")
        os.write(1, b"again\n" * 100_000)  # more than a pipe has room for, in the thread of Trio
        os.write(1, b"\xff\n")
    assert heard.rows[0] == f"  printed: {'x' * LONGEST}"
    assert len(heard.rows) <= 2 * (MOST_AT_ONCE + 1)
    assert any(row.endswith(" more lines") for row in heard.rows)
    assert files_of_streams() == files


@pytest.mark.long
def test_a_tool_that_prints_does_not_spoil_the_screen(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PRINTING)
    journal = str(tmp_path / "j.db")
    with at_a_terminal("chat", f"{tmp_path / 'app.py'}", "--journal", journal, NO_COLOR="1") as (talk, _):
        talk.sees(">\n  idle")
        talk.say("go\r")
        seen = talk.sees("That was it.\n\n>\n  idle")
    assert [row for row in seen.splitlines() if row.startswith("  printed")] == [
        "  printed: one",
        "  printed: two",
        "  printed: three",
    ]
    with through_pipes("chat", f"{tmp_path / 'app.py'}", "--journal", journal) as talk:
        talk.say("go\n")
        assert "  printed: one\n" in talk.wait_for("That was it.\n")
