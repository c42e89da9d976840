"""Each sentence that the page advertises for the demo model does what the page says."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio
from trio.testing import MockClock

from agentrail import SessionSpec, open_supervisor
from agentrail.cli.settings.console_tools import demo_tools
from agentrail.models import AssistantMessage, ToolMessage
from agentrail.tools import standard_tools

PAGE: Final = Path(__file__).parents[2] / "docs/guide/command-line.md"
ROWS: Final = re.findall(r"^\| [a-z ]+ \| `(\w+)` \| (“.*”) \|$", PAGE.read_text(), re.MULTILINE)
SENTENCES: Final = [(tool, sentence) for tool, texts in ROWS for sentence in re.findall("“(.+?)”", texts)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all that the sentences name."""
    for name in ("docs", "src"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.txt").write_text("TODO: tea\n")
    (tmp_path / "README.md").write_text("Tea.\n")
    (tmp_path / "c.md").write_text("a\n")
    return tmp_path


async def answered(sentence: str, folder: Path) -> list[ToolMessage]:
    spec = SessionSpec(model="demo", tools=(*standard_tools(), *demo_tools()), working_dir=str(folder))
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        reply = await session.ask(sentence)
    assert isinstance(reply.messages[-1], AssistantMessage)
    return [message for message in reply.messages if isinstance(message, ToolMessage)]


@pytest.mark.long
@pytest.mark.parametrize(("tool", "sentence"), SENTENCES)
def test_a_sentence_on_the_page_does_what_it_says(tool: str, sentence: str, folder: Path) -> None:
    clock = MockClock(autojump_threshold=0) if tool == "count" else None  # it counts a second each
    (result,) = trio.run(partial(answered, sentence, folder), clock=clock)
    assert (result.name, result.is_error) == (tool, False), result.text
    if tool == "edit_file":
        assert (folder / "c.md").read_text() == "b\n"
    if tool == "write_file":
        assert (folder / "notes.txt").read_text() in {"hello", "two words"}
    if tool == "grep":
        assert "TODO: tea" in result.text


def test_the_page_has_each_tool_and_each_way() -> None:
    assert len(ROWS) == 8
    assert len(SENTENCES) > 20


async def test_a_sentence_that_only_begins_so_is_answered_by_an_example(folder: Path) -> None:
    spec = SessionSpec(model="demo", tools=(*standard_tools(), *demo_tools()), working_dir=str(folder))
    async with open_supervisor() as supervisor:
        reply = await (await supervisor.spawn(spec)).ask("Edit c.md.")
    assert reply.text == "I skip “Edit c.md.”: to edit files, say “replace a by b in c.md”."
