"""Formats texts that the demo's sentences mention: on one line, shortened, in quotes, as a list."""

from __future__ import annotations

from collections.abc import Sequence


def shortened(text: str, limit: int) -> str:
    """Return *text* on one line, cut to *limit* characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def quoted(text: str, limit: int = 60) -> str:
    """Return *text* shortened to *limit* characters and in quotes, or the word `nothing` if it is empty."""
    line = shortened(text, limit)
    if not line:
        return "nothing"
    return f"“{line}”" if "`" in line else f"`{line}`"


def listed(names: Sequence[str]) -> str:
    """Return *names* as in a sentence: `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
