"""A folder to play in: fresh, with a few files to look at, and gone at the end."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

SAMPLES: Final[Mapping[str, str]] = {
    "README.md": (
        "# A folder to play in\n\n"
        "Everything here is made up, and deleted when you leave.\n"
        "The agent can list, read, write and search these files, and nothing outside of this folder.\n"
    ),
    "notes.txt": (
        "Monday: water the plants.\n"
        "Tuesday: tea with Ada at four.\n"
        "Wednesday: the session that crashed is back by itself.\n"
    ),
    "docs/guide.md": (
        "# A short guide\n\n"
        "1. A session is an actor: it owns a mailbox and handles one message at a time.\n"
        "2. What you type while it works is steering.\n"
        "3. An abort never waits.\n"
    ),
    "src/tea.py": (
        '"""How long tea takes."""\n\n'
        "# TODO: green tea wants cooler water\n"
        'MINUTES = {"black": 4, "green": 2, "herbal": 6}\n'
    ),
}
"""Names and contents of the files."""


def fill(folder: Path) -> None:
    """Write the sample files into *folder*."""
    for name, text in SAMPLES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
