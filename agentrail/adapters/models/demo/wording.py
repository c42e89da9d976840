"""How the demo mentions what others wrote: on one line, short, in quotes."""

from __future__ import annotations

from collections.abc import Sequence


def shortened(text: str, limit: int) -> str:
    """Return *text* on one line, cut to *limit* characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def quoted(text: str, limit: int = 60) -> str:
    """Return *text*, shortened, as a sentence mentions it."""
    line = shortened(text, limit)
    if not line:
        return "nothing"
    return f"“{line}”" if "`" in line else f"`{line}`"


def listed(names: Sequence[str]) -> str:
    """Return *names* as a sentence lists them."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
