"""Breaks the machine on purpose, one thing at a time, and sees that a test notices: `python -m property_tests.mutants`.

Rows of the transition table are blanked, their promises dropped, and the effects they promise swallowed; the rules by
which answers combine and the choices of the core are swapped, as data or in the source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import frozen

Break: TypeAlias = Callable[[], None]


@frozen
class Mutant:
    """One thing that is broken."""

    group: str
    """What kind of thing."""
    name: str
    """Which one, and how."""
    apply: Break
    """Breaks it, in this process."""
    tests: tuple[str, ...] = ()
    """Which modules of tests are likeliest to notice."""


@frozen
class Edit:
    """A mutant made in the source, before it is imported."""

    module: str
    """Which module."""
    old: str
    """What stands there, once."""
    new: str
    """What stands there instead."""

    @property
    def name(self) -> str:
        """How a report names it."""
        return f"{self.module.removeprefix('agentrail.')}: {_short(self.old)} → {_short(self.new)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 58 else f"{line[:57]}…"
