"""Where the messages of a session are stored: each stands in the change of one record, and is not written again.

A change appends a message to the history, or has it as the result of a call. An event that repeats the message refers
to that place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from msgspec import UNSET

from agentrail.codec.decode_error import MisfitError
from agentrail.core.vocabulary.changes import Appended, Change, ChangedCalls
from agentrail.values.content import Text
from agentrail.values.messages import AssistantMessage, Message, Origin, Rearranged, ToolMessage, UserMessage
from agentrail.values.newest import Newest

MessageReference: TypeAlias = tuple[int, int]
"""A reference to a message: the number of the record whose change holds it, and its index in `messages_in` there."""

LOST: Final = "[lost: record {} cannot be read]"
"""The text of the message that stands for one whose record is damaged."""

MAX_SESSIONS: Final = 1000
"""The most sessions whose messages are remembered by a journal, so that events can refer to them."""

MessagesOf: TypeAlias = Callable[[int], Sequence[Message] | None]
"""A function that returns the messages in the change of an earlier record; `None` if that cannot be read."""


def messages_in(change: Change) -> list[Message]:
    """Return the messages that *change* holds: those of the history, then the results of calls.

    A redaction keeps each in its place.
    """
    history, batch = change.history, change.batch
    messages: list[Message] = []
    if history is UNSET and batch is UNSET:
        return messages
    if isinstance(history, Appended | Rearranged):
        pieces: Iterable[object] = history.messages if isinstance(history, Appended) else history.pieces
        messages += [piece for piece in pieces if isinstance(piece, UserMessage | AssistantMessage | ToolMessage)]
    if isinstance(batch, ChangedCalls):
        messages += [call.result for call in batch.put if isinstance(call.result, ToolMessage)]
    return messages


class MessageReferences:
    """References to the messages of a session's open turn; the messages are found by identity."""

    __slots__ = ("_last", "_references")

    def __init__(self) -> None:
        self._last = 0
        # the messages are stored too, so that no other object gets the same `id`
        self._references: dict[int, tuple[Message, MessageReference]] = {}

    def add(self, number: int, messages: Sequence[Message]) -> None:
        """Note where the *messages* in the change of record *number* are; those stored before keep their references.

        If *number* is not the next one, either an earlier record was not written after all and this one replaces it, or
        other records were not packed here. Then only the references to the records before it, or none, are kept.
        """
        if number != self._last + 1:
            self._keep(range(1, number if number <= self._last else 1))
        self._last = number
        for index, message in enumerate(messages):
            self._references.setdefault(id(message), (message, (number, index)))

    def end_turn(self) -> None:
        """Forget the messages in records before the last one: no later event repeats them."""
        self._keep(range(self._last, self._last + 1))

    def _keep(self, numbers: range) -> None:
        self._references = {key: stored for key, stored in self._references.items() if stored[1][0] in numbers}

    def reference_to(self, message: Message) -> MessageReference | None:
        """Return the reference to *message*; `None` if it is not known where that is stored."""
        stored = self._references.get(id(message))
        return None if stored is None else stored[1]


class ReferencesBySession:
    """The message references of the sessions written last; for other sessions, messages are stored again."""

    __slots__ = ("_by_session",)

    def __init__(self) -> None:
        self._by_session = Newest[str, MessageReferences](MAX_SESSIONS)

    def __getitem__(self, session_id: str) -> MessageReferences:
        references = self._by_session[session_id] = self._by_session.get(session_id) or MessageReferences()
        return references

    def drop(self, session_id: str) -> None:
        """Forget the references of a session, because another process may have written it since."""
        self._by_session.pop(session_id, None)

    def clear(self) -> None:
        """Forget all references: records were not written after all, or another process may write the sessions."""
        self._by_session.clear()


def nothing_earlier(_: int) -> Sequence[Message]:
    """Return no messages: for a record that refers to no earlier one."""
    return ()


def message_at(reference: MessageReference, home: Sequence[Message] | None, path: str) -> Message:
    """Return the message that *reference* means, of those in its *home*; `None` if its record cannot be read."""
    number, index = reference
    if home is None:
        return UserMessage((Text(LOST.format(number)),), Origin.NOTICE)
    if not 0 <= index < len(home):
        raise MisfitError(path, f"refers to message {index} of record {number}, which has {len(home)}")
    return home[index]
