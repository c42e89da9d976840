"""`LeaseTable`: the leases of sessions, kept in memory by the process that writes the file.

The lock on the file makes this process the only writer, so leases need not be stored. A process that gets the lock
after this one has ended, or takes the file over, begins without any: a restart after a crash waits for no lease to end.
"""

from __future__ import annotations

from typing import NamedTuple

from agentrail.ports.journal import Claim, Holding


class HeldClaim(NamedTuple):
    """The latest claim of a session, by its epoch, and its lease."""

    epoch: int
    held: Holding


class LeaseTable:
    """The leases of sessions claimed since the file was opened, while they last; changes can be undone until kept."""

    __slots__ = ("_changed", "_kept")

    def __init__(self) -> None:
        self._kept: dict[str, HeldClaim] = {}
        self._changed: dict[str, HeldClaim] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, session_id: str) -> HeldClaim | None:
        """Return the latest claim of a session, with its lease; `None` if the table has none."""
        return self._changed.get(session_id) or self._kept.get(session_id)

    def __setitem__(self, session_id: str, claim: HeldClaim) -> None:
        self._changed[session_id] = claim

    def extend(self, claim: Claim, until: int) -> bool:
        """Let the lease of *claim* end at *until*; return false if that is not the latest claim of its session."""
        claimed = self.get(claim.session_id)
        if claimed is None or claimed.epoch != claim.epoch:
            return False
        self[claim.session_id] = HeldClaim(claim.epoch, Holding(claimed.held.holder, until))
        return True

    def keep(self) -> None:
        """Keep the changes: the transaction in which they were made is committed.

        A lease that was given back, or whose session was deleted, is forgotten: the session's row has its epoch.
        """
        for session_id, claim in self._changed.items():
            if claim.held.until:
                self._kept[session_id] = claim
            else:
                self._kept.pop(session_id, None)
        self._changed.clear()

    def undo(self) -> None:
        """Drop the changes: the transaction in which they were made is rolled back."""
        self._changed.clear()

    def clear(self) -> None:
        """Forget all leases: another process may become the writer."""
        self._kept.clear()
        self._changed.clear()
