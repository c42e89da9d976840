"""The journal that forgets: for tests, and for sessions that need not survive their process."""

from __future__ import annotations

from collections.abc import Sequence

from agentrail.errors import Fenced
from agentrail.ports.journal import Claim, Record, StoredAnswer


class MemoryJournal:
    """Keeps records in memory; with *encode*, as the text that a file would hold."""

    def __init__(self, *, encode: bool = False) -> None:
        self._encode = encode
        self._records: dict[str, list[Record | str]] = {}
        self._epochs: dict[str, int] = {}
        self._commands: dict[tuple[str, str], int] = {}

    async def claim(self, session_id: str, owner: str) -> Claim:  # noqa: ARG002 - nobody asks who
        """Become the only writer of a session."""
        epoch = self._epochs[session_id] = self._epochs.get(session_id, 0) + 1
        return Claim(session_id, epoch, len(self._records.get(session_id, ())))

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        """Write *records* behind record *expected* and return the new head."""
        epoch = self._epochs.get(claim.session_id, 0)
        kept = self._records.setdefault(claim.session_id, [])
        if claim.epoch != epoch or expected != len(kept):
            raise Fenced(claim.session_id, epoch)
        for record in records:
            kept.append(self._stored(record))
            if record.command is not None:
                self._commands[claim.session_id, record.command] = len(kept) - 1
        return len(kept)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        """Return up to *limit* records behind number *after*."""
        return tuple(self._loaded(kept) for kept in self._records.get(session_id, [])[after : after + limit])

    async def answer(self, session_id: str, command: str) -> StoredAnswer | None:
        """Return what was answered to a command id, if it is known."""
        place = self._commands.get((session_id, command))
        if place is None:
            return None
        record = self._loaded(self._records[session_id][place])
        return None if record.answer is None else StoredAnswer(record.arrival.input, record.answer)

    async def sessions(self, after: str = "", limit: int = 1000) -> tuple[str, ...]:
        """Return up to *limit* ids of stored sessions behind *after*, in order."""
        return tuple(sorted(name for name in self._records if name > after)[:limit])

    def _stored(self, record: Record) -> Record | str:
        if not self._encode:
            return record
        from agentrail.codec import encode, to_text  # noqa: PLC0415 - costs 20 ms that most sessions need not pay

        return to_text(encode(record))

    def _loaded(self, kept: Record | str) -> Record:
        if isinstance(kept, Record):
            return kept
        from agentrail.codec import decode, from_text  # noqa: PLC0415 - see `_stored`

        return decode(Record, from_text(kept))
