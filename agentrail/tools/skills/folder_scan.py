"""Finds the skills in folders of sandboxes, and checks the paths of skills and memory files in a specification.

Later folders come before earlier ones; what is invalid is named.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from agentrail.errors import FileMissing, WrongType
from agentrail.ports.sandbox import Entry, Kind, Sandbox
from agentrail.tools.skills.skill import MAX_HEAD, Skill, SkillError, skill_of
from agentrail.values.argument_checks import checked
from agentrail.values.untrusted_values import brief, described
from agentrail.values.value import Authored


def is_outside(path: str) -> bool:
    """Whether *path* is a path of this machine, not one in the session's sandbox."""
    return path.startswith(("/", "~/"))


def why_no_path(path: object) -> str | None:
    """Return why *path* cannot be the path of a file or folder; `None` if it can."""
    if not isinstance(path, str):
        return "a path is a text"
    if not path.strip() or "\0" in path:
        return "a path has characters, and none of them is NUL"
    if ".." in path.split("/") and not is_outside(path):
        return "it leads out of the sandbox; give a path that begins with `/` for what is elsewhere on this machine"
    return None


T = TypeVar("T")

FILE: Final = "SKILL.md"

MAX_ENTRIES: Final = 1000
"""The most entries of one folder that are looked at."""

MAX_SKILLS: Final = 200
"""The most skills of a session: the prompt has name and description of each."""


class SkillFolder(NamedTuple):
    """A folder with skills in it."""

    sandbox: Sandbox
    """The sandbox that the folder is in."""
    path: str
    """Path of the folder there."""
    name: str
    """The folder as the specification names it."""


class LeftOut(Authored):
    """A file or folder that is left out of the prompt."""

    path: str
    """The file or folder, as the specification names it."""
    why: str
    """What is wrong with it."""


class Skills(Authored):
    """The skills of some folders."""

    found: tuple[Skill, ...] = ()
    """The skills by name, in the order of the folders."""
    shadowed: tuple[Skill, ...] = ()
    """The skills that a skill of the same name in a later folder hides."""
    left_out: tuple[LeftOut, ...] = ()
    """What is no valid skill, each with the reason."""


@checked
async def list_skills(
    sandbox: Sandbox, folders: Sequence[str], *, outside: Mapping[str, Sandbox] = MappingProxyType({})
) -> Skills:
    """Return the skills in *folders* of *sandbox*, as a session with these folders would find them.

    *outside* has a sandbox of each folder of this machine, whose path begins with `/` or `~/`.
    """
    for folder in folders:
        if (why := why_no_path(folder)) is not None:
            raise WrongType("folders", brief(folder), f"paths of folders: {why}")
        if is_outside(folder) and folder not in outside:
            expected = "folders of the sandbox; for one of this machine give `outside={folder: LocalSandbox(…)}`"
            raise WrongType("folders", brief(folder), expected)
    return await find_skills(skill_folders_of(folders, sandbox, outside))


def skill_folders_of(
    folders: Sequence[str], sandbox: Sandbox, outside: Mapping[str, Sandbox]
) -> tuple[SkillFolder, ...]:
    """Return each of *folders* with its sandbox: the session's, or that in *outside* for a folder of this machine."""
    return tuple(
        SkillFolder(outside[name], ".", name) if is_outside(name) else SkillFolder(sandbox, name, name)
        for name in dict.fromkeys(folders)
    )


async def find_skills(folders: Iterable[SkillFolder]) -> Skills:
    """Return the skills in *folders*; a missing folder has none. Errors of a sandbox are reported in `left_out`."""
    skills: dict[str, Skill] = {}
    shadowed: list[Skill] = []
    left_out: list[LeftOut] = []
    for folder in folders:
        for entry in await _entries(folder, left_out):
            path = f"{folder.name.rstrip('/')}/{entry.path.rpartition('/')[2]}"
            try:
                skill = await _skill_in(folder.sandbox, entry, path)
            except SkillError as error:
                left_out.append(LeftOut(path, str(error)))
                continue
            if skill is None:
                continue
            if skill.name not in skills and len(skills) == MAX_SKILLS:
                left_out.append(LeftOut(path, f"there are {MAX_SKILLS} skills already, and no more are taken"))
                continue
            if skill.name in skills:
                shadowed.append(skills.pop(skill.name))
            skills[skill.name] = skill
    return Skills(tuple(skills.values()), tuple(shadowed), tuple(left_out))


async def find_skill(folders: Sequence[SkillFolder], name: str) -> tuple[SkillFolder, Skill] | None:
    """Return the skill *name* and its folder, without reading other skills; `None` if no folder has a valid one."""
    for folder in reversed(folders):
        try:
            entry = Entry(f"{folder.path}/{name}", Kind.FOLDER)
            skill = await _skill_in(folder.sandbox, entry, f"{folder.name.rstrip('/')}/{name}")
        except SkillError:
            continue
        if skill is not None:
            return folder, skill
    return None


async def _entries(folder: SkillFolder, left_out: list[LeftOut]) -> Sequence[Entry]:
    """Return the folders and links in *folder*; add to *left_out* if some cannot be read."""
    try:
        listing = await _if_there(folder.sandbox.list(folder.path, MAX_ENTRIES))
    except SkillError as error:
        left_out.append(LeftOut(folder.name, str(error)))
        return ()
    if listing is None:
        return ()
    if listing.cut:
        left_out.append(LeftOut(folder.name, f"it has more than {MAX_ENTRIES} entries; the others are not looked at"))
    if any(entry.kind is Kind.FILE and entry.path.rpartition("/")[2] == FILE for entry in listing.entries):
        left_out.append(LeftOut(folder.name, "it is a skill itself; give the folder around it"))
    named = ((entry, entry.path.rpartition("/")[2]) for entry in listing.entries)
    return [entry for entry, name in named if entry.kind in {Kind.FOLDER, Kind.LINK} and name[:1] != "."]


async def _skill_in(sandbox: Sandbox, entry: Entry, folder: str) -> Skill | None:
    """Return the skill in the folder *entry*; `None` if it has no `SKILL.md`. Raise `SkillError` if it is invalid."""
    content = await _if_there(sandbox.read(f"{entry.path}/{FILE}", 0, MAX_HEAD))
    try:
        return None if content is None else skill_of(folder, content.data, content.size)
    except (AttributeError, TypeError) as error:  # a user's sandbox may return anything
        raise SkillError(described(error)) from error


async def _if_there(awaitable: Awaitable[T]) -> T | None:
    """Await a sandbox call and return its result, `None` if the file is missing; raise `SkillError` if it fails."""
    try:
        return await awaitable
    except FileMissing:
        return None
    except Exception as error:  # a user's sandbox may raise anything, and a skill must not stop a session
        raise SkillError(described(error)) from error


CHOICE: Final = (
    "Skills are instructions for kinds of tasks. If a task is of one of these kinds, first read its skill with the "
    "tool `read_skill`, and follow it."
)
BY_NAME: Final = (
    "If a message of the user begins with `/` and the name of a skill, as `/name rest`, read that skill with "
    "`read_skill` first, also one that is not listed here, and follow it; the rest of the message is its arguments."
)


def in_prompt(skills: Skills) -> str | None:
    """Return the section of the system prompt that lists *skills*; `None` if there are none."""
    for_model = [skill for skill in skills.found if skill.for_model]
    texts = [CHOICE] if for_model else []
    texts += [BY_NAME] if any(skill.for_user for skill in skills.found) else []
    return "\n\n".join([part for part in (" ".join(texts), lines_about(for_model)) if part]) or None


def lines_about(skills: Iterable[Skill]) -> str:
    """Return a line for each of *skills*, with its name and description."""
    return "\n".join(f"- {skill.name}: {skill.description}" for skill in skills)


def in_words(left_out: Sequence[LeftOut], most: int) -> str:
    """Return at most *most* of *left_out*, with the reasons, as text for a log."""
    text = "; ".join(f"{brief(skill.path)}: {skill.why}" for skill in left_out[:most])
    return text if len(left_out) <= most else f"{text}; and {len(left_out) - most} more"
