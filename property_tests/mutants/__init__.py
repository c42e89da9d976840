"""Breaks the machine on purpose, one part at a time, and checks that a test fails: `python -m property_tests.mutants`.

Rows of the transition table are blanked, phases and effects removed from them, and effects swallowed. Tables of the
core and the pipeline are changed in memory, and rules in the source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from attrs import frozen

Break: TypeAlias = Callable[[], None]


@frozen
class Mutant:
    """One change that breaks the machine."""

    group: str
    """Kind of the change, for the report."""
    name: str
    """Which part is changed, and how."""
    apply: Break
    """Makes the change in this process."""
    tests: tuple[str, ...] = ()
    """Test modules that are run first, because they are likeliest to fail."""


@frozen
class Edit:
    """A mutant made by changing the source of a module before it is imported."""

    module: str
    """Name of the module."""
    old: str
    """Text in its source that is replaced; it must occur once."""
    new: str
    """Text that replaces it."""

    @property
    def name(self) -> str:
        """Name of the edit in reports."""
        return f"{self.module.removeprefix('agentrail.')}: {_short(self.old)} → {_short(self.new)}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 58 else f"{line[:57]}…"
