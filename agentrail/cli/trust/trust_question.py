"""Asks the person at the terminal whether the settings of a folder may do what they want."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Final

from agentrail.cli.folder.surface import Surface
from agentrail.cli.output.screen_question import SEEN
from agentrail.cli.trust.trust_store import allow, described, is_shown_whole

QUESTION: Final = "Allow this? [y]es / [n]o "

TOO_EARLY: Final = "That was typed before the question could be read."

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
        return _is_allowed()
    except EOFError:
        return False


def _is_allowed() -> bool:
    """Return whether the person says yes; a yes that was typed before the question could be read is asked for again."""
    while True:
        _drop_typed_ahead()
        asked_at = monotonic()
        is_yes = input(QUESTION).strip().lower() in {"y", "yes"}
        if not is_yes or monotonic() - asked_at > SEEN:
            return is_yes
        print(TOO_EARLY)


def _drop_typed_ahead() -> None:
    """Discard what was typed and not read yet; no-op where the system does not tell (Windows)."""
    if find_spec("termios") is not None:
        from agentrail.cli.output import terminal_modes  # noqa: PLC0415 - not there on every system

        terminal_modes.drop_typed_ahead(sys.stdin.fileno())
