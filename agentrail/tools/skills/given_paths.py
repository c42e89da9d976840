"""Paths of skills and memory files, as a specification gives them."""

from __future__ import annotations


def is_outside(path: str) -> bool:
    """Whether *path* is that of a file or folder of this machine, and not of one in the session's sandbox."""
    return path.startswith(("/", "~/"))


def why_no_path(found: object) -> str | None:
    """Return why *found* cannot be the path of a file or folder; `None` if it can."""
    if not isinstance(found, str):
        return "a path is a text"
    if not found.strip() or "\0" in found:
        return "a path has characters, and none of them is NUL"
    if ".." in found.split("/") and not is_outside(found):
        return "it leads out of the sandbox; give a path that begins with `/` for what is elsewhere on this machine"
    return None
