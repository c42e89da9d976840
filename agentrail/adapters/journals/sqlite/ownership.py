"""Who writes a journal: one process, as long as it lives, or until another takes over.

The lock is the kernel's, on a file beside the journal: it goes with the process that holds it, however that ends.
Whoever takes over puts a new file in its place, so the old holder's lock says nothing any more. All this happens inside
a write transaction, so no two do it at a time.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from agentrail.adapters.journals.sqlite.places import ONLY_ITS_OWNERS_FILE
from agentrail.errors import JournalInUse

LONGEST_NAME = 200


class Ownership:
    """The lock of one journal, held or not."""

    def __init__(self, path: Path) -> None:
        self._journal = path
        self._path = path.with_name(f"{path.name}.lock")
        self._held: int | None = None

    def take(self, *, over: bool) -> None:
        """Become the owner; raise `JournalInUse` if there is one, unless it is to be taken *over*."""
        held = os.open(self._path, os.O_RDWR | os.O_CREAT, ONLY_ITS_OWNERS_FILE)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(held, LONGEST_NAME).decode(errors="replace")
            os.close(held)
            if not over:
                raise JournalInUse(str(self._journal), owner or "its owner has not said who it is") from None
            held = self._replace()
        self._held = held
        os.truncate(held, 0)
        os.write(held, f"process {os.getpid()}".encode())

    def _replace(self) -> int:
        """Put a new file in the place of the one that is locked, and lock it."""
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        held = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC, ONLY_ITS_OWNERS_FILE)
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        new.replace(self._path)
        return held

    def release(self) -> None:
        """Let others in."""
        held, self._held = self._held, None
        if held is not None:
            os.close(held)
