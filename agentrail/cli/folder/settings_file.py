"""The file in which a folder has settings: found without what reads it, as most folders have none."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from agentrail.cli.output.bad_input import BadInputError

FILE: Final = "agentrail.toml"
PYPROJECT: Final = "pyproject.toml"
TABLE: Final = "agentrail"
"""Name of the table below `[tool]` in `pyproject.toml`."""

MAX_SIZE: Final = 1024 * 1024
"""The most bytes of a file of settings, or of one with Python code."""

WITHOUT: Final = "--no-config works without the file"
"""What a person can do about settings that cannot be used."""


def settings_file(folder: Path) -> Path | None:
    """Return the file that has settings for *folder*, or may have; `None` if there is none."""
    with told_unreadable(folder):
        if (folder / FILE).exists():
            return folder / FILE
        project = folder / PYPROJECT
        return project if project.exists() and TABLE.encode() in content_of(project) else None


@contextmanager
def told_unreadable(folder: Path) -> Generator[None, None, None]:
    """Raise `BadInputError` for an error of the system within the block, which reads the settings of *folder*."""
    try:
        yield
    except (OSError, RuntimeError) as error:  # no right to look there; links in a circle
        raise BadInputError(f"the settings of {folder} cannot be read: {error}; {WITHOUT}") from None


def content_of(path: Path) -> bytes:
    """Return the bytes of a file; raise `BadInputError` unless it is a regular one: reading a pipe may never end."""
    if not path.is_file():
        raise BadInputError(f"{path}: there is no such file, and it has to be one")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SIZE + 1)
    except OSError as error:
        raise BadInputError(f"{path} cannot be read: {error.strerror}") from None
    if len(content) > MAX_SIZE:
        raise BadInputError(f"{path} has more than {MAX_SIZE // 1024} KiB")
    return content
