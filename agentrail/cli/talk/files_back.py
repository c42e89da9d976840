"""What a person who goes back before a prompt chooses of words and files, and which files come back then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias, get_args

from agentrail.cli.output.screen import clipped, escaped
from agentrail.cli.talk.rendering import SHORT
from agentrail.values.rewinds import RewindPreview

Rewind: TypeAlias = Literal["words", "files", "both"]
"""What goes back: the conversation, in a copy; the files that the agent changed; or both."""

REWINDS: Final[tuple[Rewind, ...]] = get_args(Rewind)

WHAT: Final = "Go back with what? Arrows or its number, then Enter; Escape goes back."

ROWS: Final = (
    "1. words: a copy of the conversation; the files stay as they are",
    "2. files: those that the agent changed since; the conversation stays",
    "3. both",
)
"""The choice, in the order of `REWINDS`."""

MOST_FILES: Final = 4
"""The most files that are named of each kind."""

BACK: Final = {"restored": "as it was", "recreated": "there again", "removed": "gone, as it was new"}
"""What becomes of a file, by how it comes back."""


def rewind_named(text: str) -> Rewind | None:
    """Return what *text* names; `None` if it names nothing of it."""
    return next((rewind for rewind in REWINDS if rewind == text), None)


def rows_of(preview: RewindPreview) -> tuple[str, ...]:
    """Return rows that tell which files come back, which stay because a person edited them, and which cannot."""
    return (
        *_named([f"comes back: {escaped(file.path)} ({BACK.get(file.back, file.back)})" for file in preview.files]),
        *_named([f"stays, as somebody changed it since: {escaped(path)}" for path in preview.edited]),
        *_named([f"cannot come back: {escaped(file.path)} ({escaped(file.why)})" for file in preview.left_out]),
    ) or ("  no file was changed since",)


def files_named(preview: RewindPreview) -> Sequence[str] | None:
    """Return the files that are named when they come back; `None`, for all, if none of them stays."""
    return [file.path for file in preview.files] if preview.edited else None


def _named(rows: Sequence[str]) -> tuple[str, ...]:
    more = len(rows) - MOST_FILES
    named = tuple([clipped(f"  {row}", SHORT) for row in rows[:MOST_FILES]])
    return (*named, f"  … {more} more") if more > 0 else named
