"""The skills that an agent of the command line has, for `/skills`."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.talk.skill_list import skill_rows


def write(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)


async def test_skills_are_listed_with_those_that_are_hidden_or_not_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    about = "---\nname: tea\ndescription: How to\n  make tea.\n---\nBoil water.\n"
    write(tmp_path / "home" / ".agents" / "skills" / "tea", about)
    write(tmp_path / ".claude" / "skills" / "tea", about)
    write(tmp_path / ".agents" / "skills" / "bad", "Boil water.")
    assert await skill_rows(AgentSource(str(tmp_path), model="demo").id) == [
        "  tea  How to make tea.",
        "  hidden by a later one: ~/.agents/skills/tea",
        "  not valid: .agents/skills/bad: it does not begin with a line `---`, as front matter must",
    ]


async def test_an_agent_of_another_program_has_none_that_are_known() -> None:
    assert await skill_rows("desk") == []
