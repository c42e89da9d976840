"""`LeaseTable`: who holds which sessions, kept in memory by the process that writes the file.

The lock on the file makes this process the only writer, so leases need not be stored. A process that gets the lock
after this one has ended, or takes the file over, begins without any: a restart after a crash waits for no lease to end.
"""

from __future__ import annotations

from typing import NamedTuple

from agentrail.ports.journal import NO_HOLDING, Holding


class HeldClaim(NamedTuple):
    """The latest claim of a session."""

    epoch: int
    """Epoch of the claim."""
    holder: str
    """Address of who has claimed the session."""
    is_held: bool
    """Whether the session is held while the lease of its holder lasts."""


class LeaseTable:
    """The sessions held since the file was opened, and their holders' leases; changes can be undone until kept."""

    __slots__ = ("_changed", "_changed_ends", "_ends", "_kept")

    def __init__(self) -> None:
        self._kept: dict[str, HeldClaim] = {}
        self._changed: dict[str, HeldClaim] = {}
        self._ends: dict[str, int] = {}  # by holder
        self._changed_ends: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, session_id: str) -> HeldClaim | None:
        """Return the latest claim of a session; `None` if the table has none."""
        return self._changed.get(session_id) or self._kept.get(session_id)

    def __setitem__(self, session_id: str, claim: HeldClaim) -> None:
        self._changed[session_id] = claim

    def holding(self, session_id: str) -> Holding:
        """Return the holder of a session and the end of its lease; `NO_HOLDING` if nobody holds it."""
        claim = self.get(session_id)
        return Holding(claim.holder, self.end(claim.holder)) if claim is not None and claim.is_held else NO_HOLDING

    def end(self, holder: str) -> int:
        """Return when the lease of *holder* ends, in milliseconds since 1970; 0 if it has none."""
        return self._changed_ends.get(holder) or self._ends.get(holder, 0)

    def extend(self, holder: str, until: int) -> None:
        """Let the lease of *holder* end at *until*."""
        self._changed_ends[holder] = until

    def keep(self) -> None:
        """Keep the changes: the transaction in which they were made is committed.

        A session that was released or deleted is forgotten: its row has its epoch.
        """
        for session_id, claim in self._changed.items():
            if claim.is_held:
                self._kept[session_id] = claim
            else:
                self._kept.pop(session_id, None)
        self._ends.update(self._changed_ends)
        self.undo()

    def undo(self) -> None:
        """Drop the changes: the transaction in which they were made is rolled back."""
        self._changed.clear()
        self._changed_ends.clear()

    def clear(self) -> None:
        """Forget all leases: another process may become the writer."""
        self._kept.clear()
        self._ends.clear()
        self.undo()
