"""The skills that an agent of the command line has, for `/skills`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.talk.console_commands import NAMES, command_advice
from agentrail.cli.talk.skill_list import offered_skills, skill_rows, skills_of
from tests.cli.talking import at_a_terminal, through_pipes


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
    assert skill_rows(await skills_of(AgentSource(str(tmp_path), model="demo").id)) == [
        "  tea  How to make tea.",
        "  hidden by a later one: ~/.agents/skills/tea",
        "  not valid: .agents/skills/bad: it does not begin with a line `---`, as front matter must",
    ]


async def test_a_folder_whose_name_has_a_line_end_forges_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write(tmp_path / ".agents" / "skills" / "a\n  tea  How to make tea.", "Boil water.")
    (row,) = skill_rows(await skills_of(AgentSource(str(tmp_path), model="demo").id))
    assert row.isprintable()


async def test_an_agent_of_another_program_has_none_that_are_known() -> None:
    assert skill_rows(await skills_of("desk")) == []


def test_the_beginning_of_a_command_is_advised_before_one_that_is_similar() -> None:
    names = ["/init", "/invoices", "/new", "/page", "/permissions", "/resume", "/rewind", "/status", "/steer", "/stop"]
    advised = [command_advice(typed, names) for typed in ("/rew", "/inv", "/perm", "/re", "/nwe", "/st")]
    assert advised == [
        "did you mean `/rewind`?",
        "did you mean `/invoices`?",
        "did you mean `/permissions`?",
        "did you mean `/resume` or `/rewind`?",
        "did you mean `/new`?",
        "did you mean `/status` or `/steer` or `/stop`?",
    ]
    assert command_advice("/", names).startswith("there are `/init`, ")


async def test_a_skill_is_a_command_unless_it_has_the_name_of_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / ".agents" / "skills"
    write(folder / "tea", "---\nname: tea\ndescription: Makes tea.\ndisable-model-invocation: true\n---\nBoil.\n")
    write(folder / "milk", "---\nname: milk\ndescription: Adds milk.\nuser-invocable: false\n---\nPour.\n")
    write(folder / "help", "---\nname: help\ndescription: Forged.\n---\nBoil.\n")
    write(folder / "forged", '---\nname: forged\ndescription: "a\\n  /quit  leave \\e[2J"\n---\nBoil.\n')
    skills = await skills_of(AgentSource(str(tmp_path), model="demo").id)
    offered = dict(offered_skills(skills, NAMES))
    assert sorted(offered) == ["/forged", "/tea"] or offered == {"/tea": "skill: Makes tea."}
    assert offered["/tea"] == "skill: Makes tea."
    assert all("\n" not in about and "\x1b" not in about for about in offered.values())


@pytest.mark.long
def test_the_word_of_the_user_is_a_prompt_in_a_conversation(tmp_path: Path) -> None:
    write(tmp_path / ".agents" / "skills" / "tea", "---\nname: tea\ndescription: Makes tea.\n---\nBoil.\n")
    write(tmp_path / ".agents" / "skills" / "new", "---\nname: new\ndescription: Forged.\n---\nBoil.\n")
    with through_pipes("chat", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db")) as talk:
        talk.say("/tea green\n/te\n/help\n/quit\n")
        screen = talk.rest()
        assert talk.code() == 1  # there is no /te
    assert "/tea green" in screen
    assert "there is no /te; " in screen
    assert "skill: Makes tea." in screen
    assert "Forged" not in screen


@pytest.mark.long
def test_a_skill_is_begun_that_was_written_just_before_and_with_lines_that_are_pasted(tmp_path: Path) -> None:
    skills = tmp_path / ".agents" / "skills"
    with at_a_terminal("chat", "--dir", str(tmp_path), "--journal", str(tmp_path / "j.db"), NO_COLOR="1") as (talk, _):
        talk.sees(">\n  idle")
        talk.say("/tea green\r")
        talk.sees("there is no /tea; ")
        write(skills / "tea", "---\nname: tea\ndescription: Makes tea.\n---\nBoil.\n")
        talk.say("/tea green\r")
        talk.sees("> /tea green\n", "I am the built-in demo model", ">\n  idle")
        talk.say("\x1b[200~/tea\nblack\x1b[201~\r")
        talk.sees("> /tea\n", "I am the built-in demo model", ">\n  idle")
        shutil.rmtree(skills / "tea")
        talk.say("/tea white\r")
        talk.sees("there is no /tea; ")
