"""`Skill`: what the front matter of a `SKILL.md` says, in the public Agent Skills format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from agentrail.values.untrusted_values import brief
from agentrail.values.value import Authored

if TYPE_CHECKING:  # imported late: it imports yaml
    from agentrail.tools.skills.front_matter import Field

MAX_SKILL: Final = 1024 * 1024
"""The most bytes of a `SKILL.md`. The format has no limit, and there are public skills of more than 64 KiB."""

MAX_HEAD: Final = 64 * 1024
"""How many bytes of a `SKILL.md` are read for its front matter, which must end in them."""

NOT_FOR_MODEL: Final = "disable-model-invocation"
FOR_USER: Final = "user-invocable"

FIELDS: Final = frozenset(
    {"name", "description", "license", "compatibility", "allowed-tools", "metadata", NOT_FOR_MODEL, FOR_USER}
)
"""The fields of the format, and two that Claude Code has beside it. Others are left alone."""

MAX_DESCRIPTION: Final = 1024
"""The most characters of a skill's description."""

MAX_COMPATIBILITY: Final = 500
"""The most characters of what a skill says it needs."""

NAME: Final = re.compile(r"(?!.{65})[a-z0-9]+(?:-[a-z0-9]+)*")
"""Pattern of the names that a skill may have."""

_TOOL: Final = re.compile(r"[^\s,()]+(?:\([^()]*\))?")


class Skill(Authored):
    """A skill: instructions for one kind of task, in a folder with a `SKILL.md`."""

    name: str
    """Name of the skill, and of its folder."""
    description: str
    """What the skill is for, on one line: by this the model chooses it."""
    folder: str
    """The folder of the skill, as the specification names the folder around it."""
    license: str = ""
    """The licence, as the skill names it."""
    compatibility: str = ""
    """What the skill says that it needs."""
    allowed_tools: tuple[str, ...] = ()
    """The tools that the skill says it uses. They are no permission: a skill cannot approve its own calls."""
    metadata: tuple[tuple[str, str], ...] = ()
    """Further facts, as pairs of key and text."""
    for_model: bool = True
    """Whether the model may choose the skill; if not (`disable-model-invocation`), the user's word alone begins it."""
    for_user: bool = True
    """Whether it is offered to the user as the command `/NAME` (`user-invocable`)."""


class SkillError(ValueError):
    """A `SKILL.md` is not valid."""


def skill_of(folder: str, data: bytes, size: int) -> Skill:
    """Return the skill in *folder*, whose `SKILL.md` has *size* bytes and begins with *data*; raise `SkillError`."""
    if size > MAX_SKILL:
        message = f"its SKILL.md has {size} bytes, and may have {MAX_SKILL}; move parts of it to files beside it"
        raise SkillError(message)
    from agentrail.tools.skills.front_matter import FrontMatterError, front_matter  # noqa: PLC0415 - it imports yaml

    try:
        fields = front_matter(_whole_lines(data, size).decode("utf-8-sig"), FIELDS)
    except UnicodeDecodeError as error:
        message = f"its SKILL.md is no text in UTF-8: byte {error.start + 1} does not fit"
        raise SkillError(message) from error
    except FrontMatterError as error:
        raise SkillError(str(error)) from error
    name = _text(fields, "name")
    if NAME.fullmatch(name) is None:
        message = f"its name is {brief(name)}; a name has 1 to 64 letters a-z, digits and single hyphens between them"
        raise SkillError(message)
    if name != (here := folder.rstrip("/").rpartition("/")[2]):
        message = f"its name is `{name}`, and its folder {brief(here)}; give both the same name"
        raise SkillError(message)
    description = " ".join(_text(fields, "description").split())
    if not description:
        message = "it has no description, by which the model chooses it; write `description: …`"
        raise SkillError(message)
    return Skill(
        name,
        _of_length("description", description, MAX_DESCRIPTION),
        folder,
        _text(fields, "license").strip(),
        _of_length("compatibility", _text(fields, "compatibility").strip(), MAX_COMPATIBILITY),
        _tools(fields.get("allowed-tools", "")),
        _metadata(fields.get("metadata", "")),
        for_model=not _flag(fields, NOT_FOR_MODEL, default=False),
        for_user=_flag(fields, FOR_USER, default=True),
    )


def _whole_lines(data: bytes, size: int) -> bytes:
    """Return *data*, the beginning of a file of *size* bytes, without the incomplete last line."""
    return data if len(data) >= size else data[: data.rfind(b"\n") + 1]


def _text(fields: Mapping[str, Field], key: str) -> str:
    """Return the text under *key*; empty if the key is missing."""
    value = fields.get(key, "")
    if not isinstance(value, str):
        message = f"its {key} is no text"
        raise SkillError(message)
    return value


def _flag(fields: Mapping[str, Field], key: str, *, default: bool) -> bool:
    """Return whether the text under *key* is `true`; *default* if the key is missing."""
    text = _text(fields, key).strip().lower()
    if text not in {"", "true", "false"}:
        message = f"its {key} is {brief(text)}; write true or false"
        raise SkillError(message)
    return default if not text else text == "true"


def _of_length(key: str, text: str, most: int) -> str:
    if len(text) > most:
        message = f"its {key} has {len(text)} characters, and may have {most}"
        raise SkillError(message)
    return text


def _tools(field: Field) -> tuple[str, ...]:
    """Return the names of tools in a list, or in a text that separates them by spaces or commas."""
    if isinstance(field, str):
        return tuple(_TOOL.findall(field))
    if isinstance(field, Mapping):
        message = "its allowed-tools are no list of names"
        raise SkillError(message)
    return field


def _metadata(field: Field) -> tuple[tuple[str, str], ...]:
    if isinstance(field, Mapping):
        return tuple(field.items())
    if field:
        message = "its metadata are no texts by key"
        raise SkillError(message)
    return ()
