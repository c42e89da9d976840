"""Reads the skills and memory files of a session, which its prompt shows, when it starts and when it comes back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final

from agentrail.adapters.user_folders import with_home
from agentrail.app.spec import SessionSpec
from agentrail.errors import FileMissing
from agentrail.hooks.ruling import MEMORY, SKILLS, Section
from agentrail.plugins.shell.guarded_paths import BLOCKED_PATHS
from agentrail.plugins.shell.paths import HERE, fence, join
from agentrail.ports.sandbox import Sandbox
from agentrail.runtime.resources import SharedSurroundings
from agentrail.tools.skills.folder_scan import (
    LeftOut,
    Skills,
    find_skills,
    in_prompt,
    in_words,
    is_outside,
    skill_folders_of,
)
from agentrail.values.content import MAX_MEMORY, memory_text
from agentrail.values.untrusted_values import described

log = logging.getLogger("agentrail.skills")

MAX_TOLD: Final = 20
"""The most files and folders that one line of the log names."""


def outside(paths: Iterable[str], sandbox_at: Callable[[str], Sandbox]) -> Mapping[str, Sandbox]:
    """Return a sandbox for each folder in *paths*, which are on this machine."""
    return {path: sandbox_at(with_home(path)) for path in paths if is_outside(path)}


def _folder_of(path: str, sandbox_at: Callable[[str], Sandbox]) -> tuple[Sandbox, str]:
    """Return a sandbox with a file of this machine, and the path of the file there.

    Its root is the folder that contains the file, or the nearest one above that is not hidden itself: a sandbox hides
    nothing of what covers its root.
    """
    full_path = PurePosixPath(with_home(path))
    blocked = fence(BLOCKED_PATHS)
    root = next(folder for folder in full_path.parents if blocked.find(join(HERE, str(folder))) is None)
    return sandbox_at(str(root)), str(full_path.relative_to(root))


class SpecFiles:
    """The skills and memory files that a specification names."""

    __slots__ = ("_around", "_beside", "_memory", "_outside", "_skills")

    def __init__(self, spec: SessionSpec, around: SharedSurroundings, sandbox_at: Callable[[str], Sandbox]) -> None:
        self._skills = tuple(dict.fromkeys(spec.skills))
        self._memory = tuple(dict.fromkeys(spec.memory))
        self._around = around
        self._outside = outside(self._skills, sandbox_at)
        self._beside = {path: _folder_of(path, sandbox_at) for path in self._memory if is_outside(path)}

    async def sections(self, session_id: str, *, tell: bool) -> tuple[Section, ...]:
        """Return the sections of skills and memory, read now; with *tell*, log the files that are left out."""
        skills = Skills()
        if self._skills:
            skills = await find_skills(skill_folders_of(self._skills, self._around.sandbox, self._outside))
        listed = in_prompt(skills)
        sections = [] if listed is None else [Section("skills", listed, SKILLS)]
        left_out = list(skills.left_out)
        for path in self._memory:
            text = await self._text(path, left_out)
            if text.strip():
                sections.append(Section(path, text, MEMORY))
        if tell and left_out:
            log.warning("session %s: left out of its prompt: %s", session_id, in_words(left_out, MAX_TOLD))
        if tell and skills.shadowed:
            hidden = [LeftOut(skill.folder, "a later folder has one") for skill in skills.shadowed]
            log.info("session %s: skills hidden by others of their name: %s", session_id, in_words(hidden, MAX_TOLD))
        return tuple(sections)

    async def _text(self, path: str, left_out: list[LeftOut]) -> str:
        """Return the text of a memory file, empty if it is not there; add to *left_out* if it cannot be read."""
        try:
            if is_outside(path):
                sandbox, inner = self._beside[path]
                content = await sandbox.read(inner, 0, MAX_MEMORY + 1)
            else:
                content = await self._around.sandbox.read(path, 0, MAX_MEMORY + 1)
            if b"\0" not in content.data:
                return memory_text(content.data, content.size)
            why = "it is no text: some of its bytes are zero"
        except FileMissing:
            return ""
        except Exception as error:  # noqa: BLE001 - a sandbox of the user's may raise anything
            why = described(error)
        left_out.append(LeftOut(path, why))
        return ""
