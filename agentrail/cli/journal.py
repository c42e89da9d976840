"""`agentrail journal`: copies a whole journal, and looks after one in PostgreSQL; none of its sessions is run."""

from __future__ import annotations

import trio

from agentrail.cli.journal_copy import copy
from agentrail.cli.journal_upkeep import restored, vacuum


def copy_journal(source: str, target: str) -> int:
    """Copy all sessions of *source* to *target*, and return the exit status."""
    return trio.run(copy, source, target)


def restored_journal(url: str) -> int:
    """Look after the journal at *url* after a restore, and return the exit status."""
    return trio.run(restored, url)


def vacuum_journal(url: str) -> int:
    """Write the tables of the journal at *url* anew, and return the exit status."""
    return trio.run(vacuum, url)
