"""Asks the person at the terminal whether the settings of a folder may do what they want."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from agentrail.cli.surface import Surface
from agentrail.cli.trust_store import allow, described, is_shown_whole

TOO_MUCH: Final = "It is too much to be shown, so you are not asked: read the file; `agentrail trust --yes` allows it."


def ask_about(folder: Path, name: str, surfaces: Sequence[Surface]) -> bool:
    """At a terminal, ask the person to allow *surfaces*, that the file *name* of *folder* wants; store a yes.

    Return whether they are allowed.
    """
    if not sys.stdin.isatty():
        return False
    print(f"{name} of this folder wants what has to be allowed once:\n{described(surfaces)}")
    is_allowed = says_yes(surfaces)
    if is_allowed:
        allow(folder, surfaces)
    return is_allowed


def says_yes(surfaces: Sequence[Surface], too_much: str = TOO_MUCH) -> bool:
    """Ask the person, who was shown *surfaces*; return whether the answer is yes.

    Without a terminal, or if not all could be shown, return false: nobody allows by a key what was out of sight.
    *too_much* then says what to do instead.
    """
    if not sys.stdin.isatty():
        return False
    if not is_shown_whole(surfaces):
        print(too_much)
        return False
    try:
        return input("Allow this? [y]es / [n]o ").strip().lower() in {"y", "yes"}
    except EOFError:
        return False
