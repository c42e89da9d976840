"""Asks the person at the terminal whether the settings of a folder may do what they want."""

from __future__ import annotations

import sys
from pathlib import Path

from agentrail.cli.project_settings import read_settings
from agentrail.cli.trust_store import allow, described, open_surfaces


def ask_about(folder: Path) -> None:
    """At a terminal, ask the person to allow the settings of *folder* that are not allowed yet; store a yes."""
    settings = read_settings(folder)
    if settings is None or not sys.stdin.isatty() or not (surfaces := open_surfaces(settings)):
        return
    print(f"{settings.path.name} of this folder wants what has to be allowed once:\n{described(surfaces)}")
    if says_yes():
        allow(settings.folder, surfaces)


def says_yes() -> bool:
    """Ask the person; return whether the answer is yes. Without a terminal, return false."""
    if not sys.stdin.isatty():
        return False
    try:
        return input("Allow this? [y]es / [n]o ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False
