"""How long agentrail imported modules of its own while a step or task ran: nobody is blamed for that time.

Python does not say how long an import takes. So each look of the watchdog counts the time since the look before, if the
loop's thread is inside such an import, or if a module of agentrail has come since then.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from agentrail.runtime.diagnosis.crumb import Crumb
from agentrail.runtime.diagnosis.stacks import PACKAGE, in_the_loop

OWN: Final = "agentrail."
"""Prefix of the names of agentrail's own modules."""

MODULE: Final = "<module>"
"""What the code of a module is called in a stack, while it is imported."""

IMPORTER: Final = "importlib"
"""Part of the name of each file in which Python's own code imports a module."""


def imports_ours(frames: Sequence[str]) -> bool:
    """Whether *frames*, the innermost first, are inside an import of a module of agentrail, or by one.

    So what agentrail needs, such as a provider's library, counts too; what a tool imports does not.
    """
    is_importing = False
    for file, _, function in in_the_loop(frames):
        if file.startswith(PACKAGE) and (is_importing or function == MODULE):
            return True
        is_importing = IMPORTER in file
    return False


def imported_since(count: int) -> bool:
    """Whether a module of agentrail was imported since there were *count* modules in the process."""
    return len(sys.modules) > count and any(name.startswith(OWN) for name in list(sys.modules)[count:])


class OwnImports:
    """Counts the seconds of the running step or task in which agentrail imported modules of its own."""

    __slots__ = ("_last_look",)

    def __init__(self) -> None:
        self._last_look: tuple[Crumb | None, float, int, float] = (None, 0.0, 0, 0.0)
        """The step of the last look, its time, how many modules there were, and the seconds counted by then."""

    def seconds(self, step: Crumb, until: float, frames: Sequence[str] = ()) -> float:
        """Count the time since the last look at *step*; return all that was counted of it up to *until*.

        *frames* are where the loop's thread is, if the step still runs.
        """
        last_step, since, modules, seconds = self._last_look
        if last_step is not step:
            since, modules, seconds = step[2], step[4], 0.0
        if imports_ours(frames) or imported_since(modules):
            seconds += max(0.0, until - since)
        self._last_look = (step, until, len(sys.modules), seconds)
        return seconds
