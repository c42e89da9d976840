"""What a history holds: messages of the user, of the model, and results of tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import TypeAlias, overload

from agentrail.values.content import Data, Image, Part, Said, ToolCall, text_of
from agentrail.values.json import JsonObject, weight
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Value, value


class Origin(Enum):
    """Where a user message came from."""

    PROMPT = "prompt"
    STEERING = "steering"
    INTERVENTION = "intervention"
    NOTICE = "notice"


class StopReason(Enum):
    """Why the model stopped."""

    END = "end"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSED = "refused"


@value
class UserMessage(Value):
    """Something said to the model."""

    parts: tuple[Part, ...]
    """What was said."""
    origin: Origin = Origin.PROMPT
    """Who said it: a person, or the session for one of its plugins."""

    @property
    def text(self) -> str:
        """The text of it."""
        return text_of(self.parts)


@value
class AssistantMessage(Value):
    """Something the model said."""

    parts: tuple[Said, ...] = ()
    """Text and thoughts, in order."""
    calls: tuple[ToolCall, ...] = ()
    """The tools it asked for, in order."""
    model: str = ""
    """Which model said it."""
    stop: StopReason = StopReason.END
    """Why it stopped."""
    usage: Usage = NOTHING_USED
    """What the response used."""
    interrupted: bool = False
    """Whether it was cut: the text is what had come by then."""

    @property
    def text(self) -> str:
        """The text of it, without thoughts."""
        return text_of(self.parts)


@value
class ToolMessage(Value):
    """The one result of one call."""

    call_id: str
    """Which call."""
    name: str
    """Which tool."""
    parts: tuple[Part, ...]
    """What the model sees."""
    is_error: bool = False
    """Whether the call failed, was refused or was stopped."""
    details: JsonObject | None = None
    """For programs; the model never sees it."""

    @property
    def text(self) -> str:
        """The text of it."""
        return text_of(self.parts)


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage

IMAGE_SIZE = 6_000
"""What an image counts for in `size_of`, in characters."""


def size_of(message: Message) -> int:
    """Return about how many characters *message* is for the model."""
    size = 0
    for part in message.parts:
        if isinstance(part, Data):
            size += weight(part.data)
        else:
            size += IMAGE_SIZE if isinstance(part, Image) else len(part.text)
    if isinstance(message, AssistantMessage) and message.calls:
        size += sum(len(call.name) + weight(call.args) for call in message.calls)
    return size


def why_unfit(messages: Iterable[Message], *, open_end: bool = False) -> str | None:
    """Say why no provider would take *messages*, if so.

    Each message of the model has something in it, and each call is followed by its result, in the order of the calls.
    With *open_end*, the calls of the last message may lack theirs.
    """
    wanted: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not wanted or wanted[-1] != message.call_id:
                return f"the result of {message.call_id} has no call before it"
            wanted.pop()
        elif wanted:
            return f"the call {wanted[-1]} has no result behind it"
        elif isinstance(message, AssistantMessage):
            if not message.parts and not message.calls:
                return "a message of the model has nothing in it"
            wanted = [call.call_id for call in reversed(message.calls)]  # the next one last
    if wanted and not open_end:
        return f"the call {wanted[-1]} has no result behind it"
    return None


class History(Sequence[Message]):
    """An append-only log and a length: a frozen sequence that grows in constant time.

    Faces that share a log see only their own length. The face that is as long as the log appends in place; any other
    one copies first, so nobody sees another's messages.
    """

    __slots__ = ("_length", "_log", "_sizes")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._log = list(messages)
        self._length = len(self._log)
        total = 0
        self._sizes = [total := total + size_of(message) for message in self._log]

    @property
    def size(self) -> int:
        """About how many characters the messages are for the model."""
        return self._sizes[self._length - 1] if self._length else 0

    def and_(self, *messages: Message) -> History:
        """Return this history with *messages* behind it."""
        grown = History.__new__(History)
        # The empty face is shared by all sessions: it must not keep the log of the first one alive.
        if self._length and len(self._log) == self._length:
            log, sizes = self._log, self._sizes
        else:
            log, sizes = self._log[: self._length], self._sizes[: self._length]
        total = sizes[-1] if sizes else 0
        for message in messages:
            log.append(message)
            sizes.append(total := total + size_of(message))
        grown._log, grown._sizes, grown._length = log, sizes, len(log)  # noqa: SLF001  # another face of the same log
        return grown

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            start, stop, by = index.indices(self._length)
            return tuple(self._log[start:stop]) if by == 1 else tuple([self._log[i] for i in range(start, stop, by)])
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self._log[index if index >= 0 else self._length + index]

    def __iter__(self) -> Iterator[Message]:
        return iter(self._log[: self._length])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, History):
            return NotImplemented
        return self._length == other._length and (self._log is other._log or list(self) == list(other))

    def __hash__(self) -> int:
        return hash(self._length)

    def __repr__(self) -> str:
        return f"History({list(self)!r})"


EMPTY_HISTORY = History()


def total_size(messages: Sequence[Message]) -> int:
    """Return about how many characters *messages* are for the model."""
    return messages.size if isinstance(messages, History) else sum(map(size_of, messages))
