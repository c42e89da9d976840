"""Folders of skills that somebody hostile has filled: nothing of them stops a scan, or begins a line of a log."""

from __future__ import annotations

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from agentrail.errors import FileFailed, FileMissing, PathRefused, WrongType
from agentrail.sandboxes import Content, Entry, Kind, Listing, MemorySandbox
from agentrail.tools import LeftOut, Skill, Skills, list_skills
from agentrail.tools.skills.folder_scan import MAX_SKILLS, SkillFolder, find_skill, in_prompt, in_words
from agentrail.tools.skills.skill import NAME

NAMES = st.sampled_from(["a", "b-1", "A", "a b", "ü", "a'b", "x" * 70, "SKILL.md", "é"])
LINES = st.sampled_from(
    ["---", "name: a", "name: b-1", "description: x", "description: |", "  y", "\tz", "a: &b", "\x00", "- a"]
)
DATA = st.lists(LINES, max_size=8).map(lambda lines: "\n".join(lines).encode()) | st.binary(max_size=20)
FILES = st.dictionaries(st.tuples(st.sampled_from(["one", "two"]), NAMES), DATA, max_size=6)


@pytest.mark.long
@given(FILES)
def test_whatever_the_folders_hold_each_skill_is_taken_or_named(files: dict[tuple[str, str], bytes]) -> None:
    sandbox = MemorySandbox({f"{folder}/{name}/SKILL.md": data for (folder, name), data in files.items()})
    skills = trio.run(list_skills, sandbox, ["one", "two"])
    assert len(skills.found) + len(skills.shadowed) + len(skills.left_out) == len(files)
    assert all(NAME.fullmatch(skill.name) for skill in skills.found)
    assert (in_prompt(skills) or "").count("\n- ") == len(skills.found)
    assert in_words(skills.left_out, 9).isprintable()


class Lying(MemorySandbox):
    """A sandbox whose answers are of types that the port does not have."""

    async def list(self, path: str = ".", limit: int = 1000, *, ignored: bool = True) -> Listing:
        await trio.lowlevel.checkpoint()
        return Listing((Entry("skills/a", Kind.FOLDER), Entry("skills/b", Kind.FOLDER), Entry("skills/c", Kind.LINK)))

    async def read(self, path: str, offset: int = 0, limit: int = 1) -> Content:
        await trio.lowlevel.checkpoint()
        if path == "skills/a/SKILL.md":
            return Content("text", 4)  # type: ignore[arg-type]  # on purpose
        raise (FileMissing("read", path, "file") if "b" in path else PathRefused(path, "it leads out"))


async def test_a_sandbox_that_answers_with_something_else_stops_nothing() -> None:
    left_out = (
        LeftOut("skills/a", "AttributeError: 'str' object has no attribute 'decode'"),
        LeftOut("skills/c", "PathRefused: the path 'skills/c/SKILL.md' is refused: it leads out"),
    )
    assert await list_skills(Lying({}), ["skills"]) == Skills(left_out=left_out)


class Failing(MemorySandbox):
    async def list(self, path: str = ".", limit: int = 1000, *, ignored: bool = True) -> Listing:
        await trio.lowlevel.checkpoint()
        raise FileFailed("list", path, "the disk is broken")


async def test_a_folder_that_cannot_be_listed_is_named() -> None:
    assert await list_skills(Failing({}), ["skills"]) == Skills(
        left_out=(LeftOut("skills", "FileFailed: cannot list `skills`: the disk is broken"),)
    )


@pytest.mark.parametrize("folder", ["skills", "skills/", "./skills", "skills/."])
async def test_a_folder_may_be_written_in_other_ways(folder: str) -> None:
    sandbox = MemorySandbox({"skills/a/SKILL.md": b"---\nname: a\ndescription: Sews.\n---\n"})
    assert [skill.name for skill in (await list_skills(sandbox, [folder])).found] == ["a"]


async def test_shadowed_skills_are_listed() -> None:
    files = {
        f"{folder}/a/SKILL.md": f"---\nname: a\ndescription: {folder}\n---\n".encode()
        for folder in ("one", "two", "six")
    }
    skills = await list_skills(MemorySandbox(files), ["one", "two", "six"])
    one, two, six = (Skill("a", folder, f"{folder}/a") for folder in ("one", "two", "six"))
    assert skills == Skills((six,), (one, two))


async def test_a_skill_that_is_not_valid_hides_no_valid_one_from_its_reader() -> None:
    sandbox = MemorySandbox({"one/a/SKILL.md": b"---\nname: a\ndescription: one\n---\n", "two/a/SKILL.md": b""})
    places = [SkillFolder(sandbox, folder, folder) for folder in ("one", "two")]
    assert await find_skill(places, "a") == (places[0], Skill("a", "one", "one/a"))


async def test_folders_of_this_machine_are_listed_with_their_sandbox_as_a_session_finds_them() -> None:
    skill = "---\nname: {0}\ndescription: {1}\n---\n".format
    mine = MemorySandbox({f"{name}/SKILL.md": skill(name, "mine").encode() for name in "ab"})
    sandbox = MemorySandbox({"skills/a/SKILL.md": skill("a", "project").encode()})
    skills = await list_skills(sandbox, ["~/skills", "skills", "skills"], outside={"~/skills": mine})
    mine_a, mine_b = (Skill(name, "mine", f"~/skills/{name}") for name in "ab")
    assert skills == Skills((mine_b, Skill("a", "project", "skills/a")), (mine_a,))


@pytest.mark.parametrize("folder", ["~/skills", "/skills"])
async def test_a_folder_of_this_machine_without_a_sandbox_is_refused(folder: str) -> None:
    with pytest.raises(WrongType, match=r"for one of this machine give `outside=\{folder: LocalSandbox"):
        await list_skills(MemorySandbox(), [folder])


@pytest.mark.parametrize(
    ("folder", "why"), [(5, "a path is a text"), ("", "a path has characters"), ("../x", "leads out")]
)
async def test_what_is_no_path_of_a_folder_is_refused(folder: str, why: str) -> None:
    with pytest.raises(WrongType, match=why):
        await list_skills(MemorySandbox(), [folder])


def skill_text(name: str) -> bytes:
    return f"---\nname: {name}\ndescription: {name}\n---\n".encode()


async def test_of_two_skills_of_one_name_that_of_the_later_folder_is_read() -> None:
    sandbox = MemorySandbox({f"{folder}/a/SKILL.md": skill_text("a") for folder in ("one", "two")})
    found = await find_skill([SkillFolder(sandbox, name, name) for name in ("one", "two")], "a")
    assert found is not None
    assert found[0].path == "two"


async def test_there_are_so_many_skills_and_what_is_more_is_named() -> None:
    sandbox = MemorySandbox(
        {f"one/s{number:03}/SKILL.md": skill_text(f"s{number:03}") for number in range(MAX_SKILLS + 1)}
    )
    skills = await list_skills(sandbox, ["one"])
    assert (len(skills.found), [each.path for each in skills.left_out]) == (MAX_SKILLS, [f"one/s{MAX_SKILLS}"])


class Cut(MemorySandbox):
    """A sandbox with more entries than are listed."""

    async def list(self, path: str = ".", limit: int = 1000, *, ignored: bool = True) -> Listing:
        return (await super().list(path, limit, ignored=ignored)).but(cut=True)


async def test_entries_that_are_not_looked_at_are_told() -> None:
    skills = await list_skills(Cut({"one/a/SKILL.md": skill_text("a")}), ["one"])
    assert [each.why for each in skills.left_out] == ["it has more than 1000 entries; the others are not looked at"]
