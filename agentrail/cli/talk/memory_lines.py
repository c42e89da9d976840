"""Lines that a person adds to a memory file by `#`: which files there are, and how a line gets into one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import trio

from agentrail.adapters.sandboxes.local import LocalSandbox
from agentrail.adapters.user_folders import with_home
from agentrail.app.spec import SessionSpec
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.output.screen import one_line
from agentrail.cli.settings.default_agent import MEMORY
from agentrail.errors import FileFailed, FileMissing
from agentrail.ports.sandbox import MAX_FILE
from agentrail.tools.skills.folder_scan import is_outside

MARK: Final = "#"
"""Begins a line that is kept."""


def memory_line(typed: str) -> str | None:
    """Return the line that *typed* adds to a memory file: empty if nothing follows the mark, `None` if it is none.

    A text of several lines is none: a Markdown heading that is pasted, with what follows, is a prompt.
    """
    if not typed.startswith(MARK) or "\n" in typed.strip():
        return None
    text = one_line(typed.lstrip(MARK))
    return f"- {text}" if text else ""


async def memory_paths(agent: str | None) -> Sequence[str]:
    """Return the memory files that the agent with the id *agent* reads; those of the default agent if it is `None`."""
    source = None if agent is None else AgentSource.read(agent)
    if source is None:
        return MEMORY if agent is None else ()
    spec = (await trio.to_thread.run_sync(source.profile)).spec
    return tuple(dict.fromkeys(spec.memory)) if isinstance(spec, SessionSpec) else ()


async def add_to_memory(path: str, folder: Path, line: str, hidden: Iterable[str]) -> None:
    """Append *line* to the memory file *path*, as a session in *folder* reads it; the file is made if it is missing.

    Raise `PathRefused` if a link leads out of the folder that it is in, or to one of the *hidden* files.
    """
    name = path
    if is_outside(path):
        full_path = Path(with_home(path))
        folder, name = full_path.parent, full_path.name
        await trio.to_thread.run_sync(partial(folder.mkdir, mode=0o700, parents=True, exist_ok=True))
    sandbox = LocalSandbox(folder, hidden=hidden)
    try:
        old = await sandbox.read(name)
    except FileMissing:
        old_content = b""
    else:
        if old.size > MAX_FILE:
            raise FileFailed("add to", path, f"it has more than {MAX_FILE // 1024 // 1024} MiB")
        old_content = old.data
    joint = b"" if not old_content or old_content.endswith(b"\n") else b"\n"
    await sandbox.write(name, old_content + joint + f"{line}\n".encode())
