"""Command ids: a command sent twice with the same id gets the first answer and is not carried out again.

Beside each answer in memory stands a digest of its command, 16 bytes long. If another command is sent with the same id,
its digest differs, and it is refused. No digest leaves its process: from the journal, it is made anew.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from agentrail.core.vocabulary.commands import (
    AbortSent,
    Answer,
    ApproveSent,
    AttachPluginSent,
    ChangeToolsSent,
    PromptSent,
    Refused,
    RejectSent,
    SteerSent,
    StopSent,
    UpdatePluginSent,
)
from agentrail.core.vocabulary.inputs import AnyInput, SessionBranched, SessionOpened
from agentrail.errors import BadRecord, BrokenJournal, CommandConflict, JournalUnavailable
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import Journal
from agentrail.values.content import File, Image, Part
from agentrail.values.stream import NOTHING_YET

SIZE = 16


def digest_of(input_: AnyInput) -> bytes:
    """Return a digest that is equal for equal commands; facts added by the runtime are left out."""
    from agentrail.codec.values import encode_in_order  # noqa: PLC0415 - a caller who gives no command ids need not pay for it

    return blake2b(encode_in_order(_bare(input_)), digest_size=SIZE).digest()


def _bare(input_: AnyInput) -> AnyInput:
    """Return *input_* without the facts that the runtime adds, for the digest."""
    if isinstance(input_, PromptSent):
        return input_.but(cleared=False, parts=tuple(map(_short, input_.parts)))
    if isinstance(input_, AbortSent):
        return input_.but(partial=NOTHING_YET)
    if isinstance(input_, ApproveSent | RejectSent):
        return input_.but(four_eyes=False)
    if isinstance(input_, SessionOpened | SessionBranched):
        return input_.but(incarnation="")
    if isinstance(input_, SteerSent | StopSent):
        return input_.but(partial=NOTHING_YET)
    if isinstance(input_, ChangeToolsSent):
        if input_.source:  # the caller names a source; its tools come from the source, not from the caller
            return ChangeToolsSent(source=input_.source)
        return input_.but(revision=0)
    if isinstance(input_, AttachPluginSent | UpdatePluginSent):
        return input_.but(attached=input_.attached.but(revision=0))
    return input_


def _short(part: Part) -> Part:
    """Return *part*; if its data are long, with their hash in their place.

    To encode 15 MB of images as JSON and hash them blocks the loop for 40 ms, to hash them directly for 5 ms.
    """
    if isinstance(part, Image | File) and len(part.data) > LONG_DATA:
        return part.but(data=f"{len(part.data)} {hash(part.data)}")
    return part


LONG_DATA: Final = 4096
"""Characters of data from which a digest has their hash alone."""

MAX_KEPT: Final = 1000
"""How many answers are kept in memory; older ones are read from the journal."""


class CommandResults:
    """Answers of one session, by command id."""

    __slots__ = ("_journal", "_kept", "_session_id", "are_all_kept")

    def __init__(self, session_id: str, journal: Journal, *, new: bool = False) -> None:
        self._session_id = session_id
        self._journal = journal
        # True while nothing was dropped since `spawn`: an id that is not here is new, and the journal is not asked.
        self.are_all_kept = new
        self._kept: dict[str, tuple[bytes, Answer]] | None = None

    def has(self, command: str) -> bool:
        """Whether the answer to *command* is in memory."""
        return self._kept is not None and command in self._kept

    async def find(self, command: str, digest: bytes) -> Answer | None:
        """Return the stored answer to the id *command*, or a refusal if it belongs to another command.

        `None` if the id is new. A refusal too if the journal cannot be read now (the caller may try again later), or if
        the stored record is damaged.
        """
        stored_result = None if self._kept is None else self._kept.get(command)
        if stored_result is None:
            try:
                stored = None if self.are_all_kept else await self._journal.answer(self._session_id, command)
            except (JournalUnavailable, BadRecord, BrokenJournal) as error:
                return Refused.of(error)
            reach("ANSWER_LOOKED_UP")
            stored_result = None if stored is None else (digest_of(stored.input), stored.answer)
        if stored_result is None:
            return None
        return stored_result[1] if stored_result[0] == digest else Refused.of(CommandConflict(command))

    def forget(self) -> None:
        """Remove all answers from memory."""
        self._kept = None
        self.are_all_kept = False

    def remember(self, command: str, digest: bytes, answer: Answer) -> None:
        """Keep an answer in memory."""
        if self._kept is None:
            self._kept = {}
        self._kept[command] = (digest, answer)
        if len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
            self.are_all_kept = False
