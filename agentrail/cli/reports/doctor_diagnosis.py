"""`Diagnosis`: what `agentrail doctor` says of one thing that it has looked at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def differences(about: str, wording: str, kinds: Mapping[str, str], to_do: str) -> Iterator[Diagnosis]:
    """Yield a note if not all are of one kind; *kinds*: by name, each as it is said before the names."""
    names: dict[str, list[str]] = {}
    for name, kind in kinds.items():
        names.setdefault(kind, []).append(name)
    if len(names) > 1:
        parts = [f"{kind} {', '.join(those)}" for kind, those in names.items()]
        yield Diagnosis(about, NOTE, f"{wording}: {'; '.join(parts)}", to_do)
