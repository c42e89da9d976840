"""`listed_names`: names for an error, of which there may be any number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentrail.cli.output.screen import clean
from agentrail.errors.agentrail_error import listed

MOST_NAMED: Final = 10
"""The most names in one error."""


def listed_names(names: Sequence[str]) -> str:
    """Return the first `MOST_NAMED` of *names*, each in backquotes, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return f"{listed(map(clean, names[:MOST_NAMED]))}{more}"
