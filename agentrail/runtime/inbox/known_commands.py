"""What was answered to command ids: a call that is made again gets the answer of then, and nothing happens twice."""

from __future__ import annotations

from typing import Final

from agentrail.core.vocabulary.commands import Answer, Refused
from agentrail.errors import BadRecord, BrokenJournal, CommandConflict, JournalUnavailable
from agentrail.ports.failpoints import Failpoint, reach
from agentrail.ports.journal import Journal
from agentrail.runtime.inbox.digests import digest_of

MOST_KEPT: Final = 1000
"""Answers that are kept at hand; older ones are looked up in the journal."""


class Answers:
    """The answers of one session."""

    __slots__ = ("_journal", "_kept", "_session_id", "are_all_kept")

    def __init__(self, session_id: str, journal: Journal, *, new: bool = False) -> None:
        self._session_id = session_id
        self._journal = journal
        self.are_all_kept = new
        self._kept: dict[str, tuple[bytes, Answer]] | None = None

    def has(self, command: str | None) -> bool:
        """Whether the answer to *command* is at hand."""
        return self._kept is not None and command in self._kept

    async def known(self, command: str, digest: bytes) -> Answer | None:
        """Return the answer to a command that was carried out before, or the refusal of a conflicting one.

        What the journal cannot tell now is refused too: the caller may try again, and nothing is done twice.
        """
        known = None if self._kept is None else self._kept.get(command)
        if known is None:
            try:
                stored = None if self.are_all_kept else await self._journal.answer(self._session_id, command)
            except (JournalUnavailable, BadRecord, BrokenJournal) as error:
                return Refused(error)
            reach(Failpoint.ANSWER_LOOKED_UP)
            known = None if stored is None else (digest_of(stored.input), stored.answer)
        if known is None:
            return None
        return known[1] if known[0] == digest else Refused(CommandConflict(command))

    def forget(self) -> None:
        """Keep none at hand."""
        self._kept = None
        self.are_all_kept = False

    def remember(self, command: str, digest: bytes, answer: Answer) -> None:
        """Keep an answer at hand."""
        if self._kept is None:
            self._kept = {}
        self._kept[command] = (digest, answer)
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
            self.are_all_kept = False
