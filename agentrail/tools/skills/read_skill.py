"""The tool `read_skill`: the full text of a skill, and the files beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

from agentrail.ports.sandbox import Sandbox
from agentrail.ports.tool import Past, ToolContext
from agentrail.tools.builtin.file_tools import WIDEST, lines_of
from agentrail.tools.builtin.workspace import refuse, report_errors, sandbox_of
from agentrail.tools.skills.folder_scan import FILE, SkillFolder, find_skill, find_skills, lines_about, skill_folders_of
from agentrail.tools.skills.skill import NAME, Skill
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.messages import Message, Origin, UserMessage
from agentrail.values.tools import EffectClass, Ok, ToolSpec, ok
from agentrail.values.untrusted_values import brief

MAX_LINES: Final = 2000
"""The most lines of a file that one call returns."""

MAX_FILES: Final = 50
"""The most files beside a `SKILL.md` that are named."""

ARGUMENTS: Final = "$ARGUMENTS"
"""In a `SKILL.md`: what the user sent after its name."""

OF_USER: Final = frozenset({Origin.PROMPT, Origin.STEERING})
"""Who writes a message that may begin a skill: neither plugins nor the session."""

AT_ONCE: Final = 100
"""How many messages are looked up at once."""

_DESCRIPTION: Final = (
    "Read a skill: instructions for one kind of task, as your prompt lists them. Without a name, list the skills that "
    "there are now."
)

_TAKES: Final = freeze_object(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 64, "description": "Name of the skill; leave it out for a list."},
            "path": {"type": "string", "maxLength": 1000, "description": f"A file of the skill, instead of {FILE}."},
            "offset": {"type": "integer", "minimum": 1, "maximum": 2**31, "description": "The first line, from 1."},
        },
        "additionalProperties": False,
    }
)


class ReadSkill:
    """The tool `read_skill` of a session with *folders*; *outside* has a sandbox for each folder of this machine."""

    def __init__(self, folders: Sequence[str], outside: Mapping[str, Sandbox]) -> None:
        self._folders = folders
        self._outside = outside
        self.spec = ToolSpec(
            "read_skill",
            _DESCRIPTION,
            _TAKES,
            timeout=30,
            effect=EffectClass.PURE,
            subject=("name", "path", "offset"),
            requires=frozenset({"files"}),
        )

    async def execute(self, args: JsonObject, ctx: ToolContext) -> Ok:
        """Return the text of the skill as it is now: the file may have changed since the session began."""
        name, path, offset = args.get("name", ""), args.get("path", FILE), args.get("offset", 1)
        folders = skill_folders_of(self._folders, sandbox_of(ctx), self._outside)
        with report_errors():
            if not name:
                return ok(_list_skills((await find_skills(folders)).found))
            located_skill = await find_skill(folders, str(name)) if NAME.fullmatch(str(name)) else None
            if located_skill is None:
                refuse(f"there is no skill {brief(name)}; {_list_skills((await find_skills(folders)).found)}")
            folder, skill = located_skill
            arguments = await _arguments_of_user(ctx.past, skill.name)
            if arguments is None and not skill.for_model:
                refuse(f"the skill `{skill.name}` is for the user's word alone: ask them to send `/{skill.name}`")
            return await _text_of(folder, skill, str(path), cast("int", offset), arguments)


def _list_skills(skills: Sequence[Skill]) -> str:
    for_model = [skill for skill in skills if skill.for_model]
    return f"the skills are:\n{lines_about(for_model)}" if for_model else "there are no skills"


async def _arguments_of_user(past: Past | None, name: str) -> str | None:
    """Return what followed `/NAME` the last time that the user sent it; `None` if they did not."""
    arguments: str | None = None
    number = 0

    def is_invocation(message: Message) -> bool:
        is_of_user = isinstance(message, UserMessage) and message.origin in OF_USER
        return is_of_user and message.text.split(maxsplit=1)[:1] == [f"/{name}"]

    while past is not None and (messages := await past.messages(number, AT_ONCE, is_invocation)):
        number, message = messages[-1]
        arguments = cast("UserMessage", message).text.strip().removeprefix(f"/{name}").strip()
    return arguments


async def _text_of(skill_folder: SkillFolder, skill: Skill, path: str, offset: int, arguments: str | None) -> Ok:
    """Return lines of a file of *skill*. The first lines of its `SKILL.md` come with the names of the other files.

    In its `SKILL.md` the *arguments* of the user, if there are any, are in the place of `$ARGUMENTS`.
    """
    if path.startswith("/") or ".." in path.split("/"):
        refuse(f"{brief(path)} leads out of the skill; give a path relative to its folder")
    folder = f"{skill_folder.path.rstrip('/')}/{skill.name}"
    lines_ = await lines_of(skill_folder.sandbox, f"{folder}/{path}", offset, MAX_LINES, WIDEST)
    if not lines_.lines and lines_.known:
        refuse(f"{brief(path)} has {lines_.known} lines, so there is no line {offset}; use a smaller `offset`")
    notes = [] if lines_.is_whole else [f"[there is more: go on with `offset` {lines_.last + 1}]"]
    if path == FILE and offset == 1:
        listing = await skill_folder.sandbox.glob("**", folder, limit=MAX_FILES + 2)
        prefix = "".join(f"{part}/" for part in folder.split("/") if part not in {"", "."})
        named = [entry.path.removeprefix(prefix) for entry in listing.entries]
        if beside := [name for name in named if name != FILE]:
            more = ", …" if len(beside) > MAX_FILES else ""
            notes.append(f"[its files, to be read with `path`: {', '.join(beside[:MAX_FILES])}{more}]")
        if skill_folder.path == skill_folder.name:
            notes.append(f"[its folder: {folder}]")
    text = "\n".join(lines_.lines)
    if path == FILE and arguments is not None:
        if arguments and ARGUMENTS not in text and offset == 1:
            notes.append(f"[its arguments: {arguments}]")
        text = text.replace(ARGUMENTS, arguments)
    return ok("\n\n".join((text, *notes)))
