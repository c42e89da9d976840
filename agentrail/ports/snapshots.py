"""Snapshots: which ones a journal takes, and which one a session comes back from."""

from __future__ import annotations

from agentrail.errors import BadRecord
from agentrail.ports.journal import Claim, Snapshot


def check_snapshot(claim: Claim, snapshot: Snapshot, head: int) -> None:
    """Raise `BadRecord` if *snapshot* is of another session than the claimed one, or of a record after its *head*."""
    if snapshot.session_id != claim.session_id or not 0 < snapshot.number <= head:
        found = f"there is no such one, so session `{snapshot.session_id}` has no snapshot behind it"
        raise BadRecord(claim.session_id, snapshot.number, found)
