"""A `SKILL.md` as a skill: all fields of the format, and the limits of each."""

from __future__ import annotations

import pytest

from agentrail.ports.tool import ToolContext
from agentrail.sandboxes import MemorySandbox
from agentrail.tools.skills.read_skill import ReadSkill
from agentrail.tools.skills.skill import MAX_SKILL, Skill, SkillError, skill_of
from agentrail.values.content import text_of
from agentrail.values.json import freeze_object
from agentrail.values.tools import Ok

WHOLE = """---
name: pdf-tools-2
description: >
  Fills forms.
  Use it for PDFs.
license: Apache-2.0
compatibility: Needs poppler
allowed-tools: Bash(git add:*), Read  web_fetch
metadata:
  author: me
  version: "1.0"
user-invocable: false
---
# PDF
"""


def made(folder: str = "skills/a", name: str = "a", **fields: str) -> Skill:
    said = {"name": name, "description": "Sews.", **fields}
    text = "".join(f"{key.replace('_', '-')}: {value}\n" for key, value in said.items())
    data = f"---\n{text}---\n".encode()
    return skill_of(folder, data, len(data))


def test_all_fields_of_the_format_are_read_and_others_are_left_alone() -> None:
    assert skill_of("skills/pdf-tools-2", WHOLE.encode(), len(WHOLE)) == Skill(
        "pdf-tools-2",
        "Fills forms. Use it for PDFs.",
        "skills/pdf-tools-2",
        "Apache-2.0",
        "Needs poppler",
        ("Bash(git add:*)", "Read", "web_fetch"),
        (("author", "me"), ("version", "1.0")),
    )


def test_a_list_of_tools_is_read_too() -> None:
    assert made(allowed_tools="[Read, Grep]").allowed_tools == ("Read", "Grep")


@pytest.mark.parametrize("name", ["a", "a1", "1-2-b", "x" * 64])
def test_a_name_that_is_valid(name: str) -> None:
    assert made(f"skills/{name}", name).name == name


@pytest.mark.parametrize("name", ["", "A", "é", "a_b", "-a", "a-", "a--b", "a b", "a/b", ".", "x" * 65])
def test_a_name_that_is_not_valid(name: str) -> None:
    with pytest.raises(SkillError, match=r"its name is .*; a name has 1 to 64 letters a-z, digits and single hyphens"):
        made(f"skills/{name}", name)


def test_a_description_of_more_than_1024_characters_is_refused() -> None:
    assert len(made(description="x" * 1024).description) == 1024
    with pytest.raises(SkillError, match="its description has 1025 characters, and may have 1024"):
        made(description="x" * 1025)


def test_a_compatibility_of_more_than_500_characters_is_refused() -> None:
    assert len(made(compatibility="x" * 500).compatibility) == 500
    with pytest.raises(SkillError, match="its compatibility has 501 characters, and may have 500"):
        made(compatibility="x" * 501)


def test_a_skill_of_more_than_64_kib_is_refused() -> None:
    head = b"---\nname: a\ndescription: Sews.\n---\n"
    assert skill_of("skills/a", head.ljust(MAX_SKILL, b"x"), MAX_SKILL).name == "a"
    with pytest.raises(
        SkillError, match=r"its SKILL\.md has 65537 bytes, and may have 65536; move parts of it to files"
    ):
        skill_of("skills/a", head, MAX_SKILL + 1)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"description": "[a]"}, "its description is no text"),
        ({"license": "[a]"}, "its license is no text"),
        ({"metadata": "text"}, "its metadata are no texts by key"),
        ({"metadata": "[a]"}, "its metadata are no texts by key"),
        ({"allowed_tools": "\n  a: b"}, "its allowed-tools are no list of names"),
        ({"description": "' '"}, "it has no description, by which the model chooses it"),
    ],
)
def test_a_field_of_another_form_is_refused(fields: dict[str, str], why: str) -> None:
    with pytest.raises(SkillError, match=why):
        made(**fields)


async def read(files: dict[str, bytes], **args: object) -> list[str]:
    """Return what `read_skill` gives the model, in paragraphs."""
    tool = ReadSkill(["skills"], {})
    sandbox = MemorySandbox({f"skills/a/{name}": data for name, data in files.items()})
    result = await tool.execute(freeze_object({"name": "a", **args}), ToolContext(sandbox=sandbox))
    assert isinstance(result, Ok)
    return text_of(result.content).split("\n\n")


HEAD = b"---\nname: a\ndescription: Sews.\n---\n"


async def test_at_most_2000_lines_are_read_at_once() -> None:
    lines = {"SKILL.md": HEAD, "long": b"x\n" * 2001}
    first, note = await read(lines, path="long")
    assert (first, note) == ("\n".join("x" * 2000), "[there is more: go on with `offset` 2001]")
    assert await read(lines, path="long", offset=2001) == ["x"]


async def test_at_most_50_files_of_a_skill_are_named() -> None:
    files = {f"f{number:02}": b"" for number in range(51)}
    named = ", ".join([*files][:50])
    assert (await read({"SKILL.md": HEAD} | dict([*files.items()][:50])))[1] == (
        f"[its files, to be read with `path`: {named}]"
    )
    assert (await read({"SKILL.md": HEAD} | files))[1] == f"[its files, to be read with `path`: {named}, …]"


async def test_an_empty_file_of_a_skill_is_empty() -> None:
    assert await read({"SKILL.md": HEAD, "void": b""}, path="void") == [""]
