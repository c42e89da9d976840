"""Asks the person at the terminal whether the settings of a folder may do what they want."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from agentrail.cli.project_settings import ProjectSettings, Surface
from agentrail.cli.trust_store import allow, described


def ask_about(settings: ProjectSettings, surfaces: Sequence[Surface]) -> bool:
    """At a terminal, ask the person to allow *surfaces*; store a yes. Return whether they are allowed."""
    if not sys.stdin.isatty():
        return False
    print(f"{settings.path.name} of this folder wants what has to be allowed once:\n{described(surfaces)}")
    is_allowed = says_yes()
    if is_allowed:
        allow(settings.folder, surfaces)
    return is_allowed


def says_yes() -> bool:
    """Ask the person; return whether the answer is yes. Without a terminal, return false."""
    if not sys.stdin.isatty():
        return False
    try:
        return input("Allow this? [y]es / [n]o ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False
