"""What a reader has broken of skills and memory files, and the searches that find it."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Final

import trio
import trio.testing

from agentrail import SessionSpec, open_supervisor
from agentrail.journals import MemoryJournal
from agentrail.runtime.supervision import restore
from agentrail.sandboxes import MemorySandbox
from agentrail.testing import Choose, ScriptedModel
from agentrail.tools.skills import folder_scan, skill
from agentrail.tools.skills.folder_scan import SkillFolder
from property_tests.planted.change import Change

# ruff: noqa: SLF001 - private parts are what is broken here

CHANGES: Final = (
    Change(
        "first_folder_counts",
        "of two skills with one name, that of the earlier folder counts",
        folder_scan.find_skills,
        "shadowed.append(skills.pop(skill.name))",
        "continue",
        "skills",
    ),
    Change(
        "first_folder_is_read",
        "the text that is read is that of the earlier folder",
        folder_scan.find_skill,
        "reversed(places)",
        "places",
        "skills",
    ),
    Change(
        "invalid_skills_hide_valid_ones",
        "a skill that is not valid hides that of an earlier folder from its reader",
        folder_scan.find_skill,
        "continue",
        "return None",
        "skills",
    ),
    Change(
        "skills_of_any_size",
        "the size of a skill is not looked at",
        skill.skill_of,
        "if size > MAX_SKILL:",
        "if size < 0:",
        "skills",
    ),
    Change(
        "names_of_other_skills",
        "a skill may take the name of another",
        skill.skill_of,
        "if name != (here",
        "if not (here",
        "skills",
    ),
    Change(
        "gone_files_stay",
        "a memory file that is gone stays in the prompt of a session that comes back",
        restore._changed_sections,
        "(*gone, *changed)",
        "(*changed,)",
        "files_back",
    ),
    Change(
        "edited_files_stay",
        "a session that comes back shows the text of a memory file before it was edited",
        restore._changed_sections,
        "before[key].text != section.text",
        "section.text is None",
        "files_back",
    ),
)


KINDS: Final[Mapping[str, bytes]] = {
    "valid": b"---\nname: {name}\ndescription: {folder}\n---\n",
    "another": b"---\nname: other\ndescription: {folder}\n---\n",
    "silent": b"---\nname: {name}\n---\n",
    "large": b"---\nname: {name}\ndescription: {folder}\n---\n" + b"x" * skill.MAX_SKILL,
    "empty": b"",
}


def broken_skills(number: int) -> str | None:
    """Look for skills in folders that have them in many forms; compare what is found with a plain count."""
    choose = Choose(Random(number).randrange)
    folders = ("one", "two", "three")[: choose.number(1, 3)]
    kinds = {
        (folder, name): choose.pick(("valid", "valid", *KINDS))
        for folder in folders
        for name in "abc"
        if choose.below(3)
    }
    files = {
        f"{folder}/{name}/SKILL.md": KINDS[kind].replace(b"{name}", name.encode()).replace(b"{folder}", folder.encode())
        for (folder, name), kind in kinds.items()
    }
    wanted = {name: folder for (folder, name), kind in kinds.items() if kind == "valid"}
    return trio.run(_compared, files, folders, wanted)


async def _compared(files: Mapping[str, bytes], folders: tuple[str, ...], wanted: Mapping[str, str]) -> str | None:
    sandbox = MemorySandbox(files)
    places = [SkillFolder(sandbox, folder, folder) for folder in folders]
    found = await folder_scan.find_skills(places)
    if {each.name: each.description for each in found.found} != wanted:
        return "found"
    if len(found.found) + len(found.shadowed) + len(found.left_out) != len(files):
        return "lost"
    read = {name: await folder_scan.find_skill(places, name) for name in ("a", "b", "c", "other")}
    return None if {name: one[1].description for name, one in read.items() if one} == wanted else "read"


def broken_return(number: int) -> str | None:
    """Change the memory files of a session while nothing runs; compare its sections with the files."""
    choose = Choose(Random(number).randrange)
    before, after = ({name: choose.pick((b"x", b"y")) for name in "abc" if choose.below(3)} for _ in range(2))
    clock = trio.testing.MockClock(autojump_threshold=0)
    return trio.run(_back, before, after, clock=clock)


async def _back(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str | None:
    spec = SessionSpec(model=ScriptedModel([]), sandbox=MemorySandbox(before), memory=["a", "b", "c"])
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        await supervisor.spawn(spec, "s")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec.but(sandbox=MemorySandbox(after)))
        shown = {section.key: section.text for section in session.inspect().sections}
    return None if shown == {name: data.decode() for name, data in after.items()} else "sections"


SEARCHES: Final = {"skills": broken_skills, "files_back": broken_return}
"""The searches by name: each takes a seed, and returns what is wrong, or `None`."""
