"""A `SKILL.md` as a skill: all fields of the format, and the limits of each."""

from __future__ import annotations

import pytest

from agentrail.sandboxes import MemorySandbox
from agentrail.tools import LeftOut, Ok, Skill, ToolContext, list_skills
from agentrail.tools.skills.read_skill import ReadSkill
from agentrail.tools.skills.skill import MAX_HEAD, MAX_SKILL, SkillError, skill_of
from agentrail.values.content import text_of
from tests.each_case import each_case
from tests.kit import freeze_object

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
        for_user=False,
    )


@each_case(["true", "True", "'true'"])
def test_a_skill_may_be_for_the_word_of_the_user_alone(word: str) -> None:
    assert not made(description=f"Sews.\ndisable-model-invocation: {word}").for_model
    assert made(description="Sews.\ndisable-model-invocation: false").for_model
    assert made().for_model
    assert made().for_user


@each_case(["yes", "1", "no", "tru", "[true]"])
def test_what_is_neither_true_nor_false_is_refused(word: str) -> None:
    with pytest.raises(SkillError, match="its user-invocable is"):
        made(description=f"Sews.\nuser-invocable: {word}")


def test_a_list_of_tools_is_read_too() -> None:
    assert made(allowed_tools="[Read, Grep]").allowed_tools == ("Read", "Grep")


@pytest.mark.parametrize("name", ["a", "a1", "1-2-b", "x" * 64])
def test_a_name_that_is_valid(name: str) -> None:
    assert made(f"skills/{name}", name).name == name


@each_case(["", "A", "é", "a_b", "-a", "a-", "a--b", "a b", "a/b", ".", "x" * 65])
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


def test_a_skill_of_more_than_1_mib_is_refused() -> None:
    head = b"---\nname: a\ndescription: Sews.\n---\n"
    assert skill_of("skills/a", head.ljust(MAX_HEAD, b"x"), MAX_SKILL).name == "a"
    with pytest.raises(
        SkillError, match=r"its SKILL\.md has 1048577 bytes, and may have 1048576; move parts of it to files"
    ):
        skill_of("skills/a", head, MAX_SKILL + 1)


async def test_front_matter_ends_in_the_first_64_kib() -> None:
    begins, ends = b"---\nname: a\ndescription: Sews.\n#", b"\n---\n"
    room = MAX_HEAD - len(begins) - len(ends)
    files = {f"at{size}/a/SKILL.md": begins + b"x" * size + ends + b"Text." for size in (room, room + 1)}
    cut = {"cut/a/SKILL.md": HEAD + "é".encode() * MAX_HEAD}
    skills = await list_skills(MemorySandbox(files | cut), ["cut", f"at{room + 1}", f"at{room}"])
    assert skills.left_out == (LeftOut(f"at{room + 1}/a", "its front matter has no end: a second line `---`"),)
    assert [skill.folder for skill in (*skills.shadowed, *skills.found)] == ["cut/a", f"at{room}/a"]


async def test_a_skill_of_more_than_64_kib_is_found_and_read_in_pieces() -> None:
    text = "".join(f"line {number}\n" for number in range(9000))
    files = {"SKILL.md": HEAD + text.encode()}
    first, note, *_ = await read(files)
    assert (first.splitlines()[4], note) == ("line 0", "[there is more: go on with `offset` 1713]")
    assert (await read(files, offset=9000))[0].splitlines()[-1] == "line 8999"


async def test_a_long_line_of_a_skill_is_whole() -> None:
    paragraph = "word " * 3000
    files = {"SKILL.md": HEAD + b"".join(f"{number} {paragraph}\n".encode() for number in range(3))}
    lines = [(await read(files, offset=offset))[0] for offset in (1, 6, 7)]
    assert [line.splitlines()[-1] for line in lines] == [f"{number} {paragraph}" for number in range(3)]


async def test_at_most_20_000_characters_of_a_line_are_read() -> None:
    lines = {"SKILL.md": HEAD, "at": b"x" * 20_000, "over": b"x" * 20_001}
    assert await read(lines, path="at") == ["x" * 20_000]
    assert (await read(lines, path="over"))[0].startswith("x" * 20_000 + "\u2026")


NESTED = """---
name: a
hooks:
  PreToolUse:
    - matcher: "Bash"
      run: [{a: b}]
allow:
- deep:
  - deeper

description: Sews.
---
"""


def test_what_is_nested_in_a_field_of_another_program_is_left_alone() -> None:
    assert skill_of("skills/a", NESTED.encode(), len(NESTED)) == Skill("a", "Sews.", "skills/a")


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
