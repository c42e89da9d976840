"""`Diagnosis`: what `agentrail doctor` says of one thing that it has looked at."""

from __future__ import annotations

from typing import Final

from agentrail.values.value import Value

GOOD: Final = "ok"
NOTE: Final = "note"
BAD: Final = "bad"


class Diagnosis(Value):
    """The result of one check of this machine, or of what it reaches."""

    about: str
    """What was looked at, in one word."""
    level: str
    """`ok`, `note` (agents run, with less), or `bad` (they do not)."""
    state: str
    """What is there."""
    to_do: str = ""
    """What to do about it; empty if nothing."""
