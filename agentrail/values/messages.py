"""Messages of a conversation: from the user, from the model, and results of tools; and the history that holds them.

A list that repeats most of a history is stored in a few bytes, as ranges of it: `Rearranged`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import Protocol, TypeAlias, TypeGuard, overload

from agentrail.values.content import Data, File, Part, Said, Text, Thinking, ToolCall, text_of, with_text
from agentrail.values.json import JsonObject, weight
from agentrail.values.personal import Kept, Personal, ToolName
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import TAG, Authored, Value


class Origin(Enum):
    """Who wrote a user message: a person, a steering text, a plugin, or the session."""

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


END, TOOL_CALLS, LENGTH, REFUSED = StopReason
"""The members by name, for what each turn does: CPython 3.11 looks up a member of an enum in 900 instructions."""


class UserMessage(Authored, tag_field=TAG):
    """A message to the model that is no tool result."""

    parts: tuple[Part, ...]
    """Text and images."""
    origin: Origin = Origin.PROMPT
    """Who wrote the message."""

    @property
    def text(self) -> str:
        """The text of the message, with JSON values as JSON text, and without images."""
        return text_of(self.parts)


def is_prompt(message: Message) -> TypeGuard[UserMessage]:
    """Whether *message* is a prompt of a caller: neither steering nor a text of a plugin."""
    return isinstance(message, UserMessage) and message.origin is Origin.PROMPT


class AssistantMessage(Authored, tag_field=TAG):
    """A response of the model."""

    parts: tuple[Said, ...] = ()
    """Text and thoughts (reasoning), in order."""
    calls: tuple[ToolCall, ...] = ()
    """Tool calls that the model asks for, in order."""
    model: Kept[str] = ""
    """Name of the model."""
    stop: StopReason = StopReason.END
    """Why the model stopped."""
    usage: Usage = NOTHING_USED
    """Usage of the response."""
    interrupted: bool = False
    """Whether the response was cut off: it holds only the text received until then."""

    @property
    def text(self) -> str:
        """The text of the response, without thoughts."""
        return text_of(self.parts)

    def saying(self, text: str) -> AssistantMessage:
        """Return a copy of this message with another *text*; thoughts and tool calls stay."""
        return self.but(parts=with_text(self.parts, text))


class ToolMessage(Authored, tag_field=TAG):
    """The result of one tool call."""

    call_id: Kept[str]
    """Id of the call."""
    name: ToolName
    """Name of the tool."""
    parts: tuple[Part, ...]
    """What the model sees."""
    is_error: bool = False
    """Whether the call failed, was refused or was stopped."""
    details: Personal[JsonObject | None] = None
    """Data for programs; the model never sees it."""

    @property
    def text(self) -> str:
        """Text of the result; a JSON value counts as its JSON text, an image as nothing."""
        return text_of(self.parts)


Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage

IMAGE_SIZE = 6_000
"""Characters that `size_of` counts for an image."""


FILE_SIZE = 24_000
"""The fewest characters that `size_of` counts for a file; some pages."""

FILE_SHARE = 8
"""How many characters of base64 count as one that the model reads; files have pictures and layout too."""


def _size_of_shown(part: Part | Said) -> int:
    return max(FILE_SIZE, len(part.data) // FILE_SHARE) if isinstance(part, File) else IMAGE_SIZE


def size_of(message: Message) -> int:
    """Return the approximate size of *message* for the model, in characters."""
    size = 0
    for part in message.parts:
        if type(part) is Text or type(part) is Thinking:
            size += len(part.text)
        else:
            size += weight(part.data) if isinstance(part, Data) else _size_of_shown(part)
    if type(message) is AssistantMessage and message.calls:
        for call in message.calls:
            size += len(call.name) + weight(call.args)
    return size


def why_unfit(messages: Iterable[Message], *, open_end: bool = False) -> str | None:
    """Return why no provider would accept *messages*, or `None` if they are valid.

    Each message of the model must have content or calls. The results of its calls must follow it, in the same order.
    With *open_end*, results of the last message's calls may be missing.
    """
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if not open_calls or open_calls[-1] != message.call_id:
                return f"the result of {message.call_id} has no call before it"
            open_calls.pop()
        elif open_calls:
            return f"the call {open_calls[-1]} has no result behind it"
        elif isinstance(message, AssistantMessage):
            if not message.parts and not message.calls:
                return "a message of the model has nothing in it"
            open_calls = [call.call_id for call in reversed(message.calls)]  # reversed: `pop()` gives the next one
    if open_calls and not open_end:
        return f"the call {open_calls[-1]} has no result behind it"
    return None


class History(Sequence[Message]):
    """An append-only sequence of messages that never changes; adding one takes constant time.

    Several histories may share one log, each seeing only its own length. The longest appends to the log in place. Any
    other one copies the log first, so none sees the messages of another.
    """

    __slots__ = ("_length", "_log", "_sizes")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._log = list(messages)
        self._length = len(self._log)
        total = 0
        self._sizes = array("q", [total := total + size_of(message) for message in self._log])

    @property
    def size(self) -> int:
        """Approximate size of all messages for the model, in characters."""
        return self._sizes[self._length - 1] if self._length else 0

    def and_(self, *messages: Message) -> History:
        """Return a history with *messages* appended."""
        grown = History.__new__(History)
        # An empty history copies too: `EMPTY_HISTORY`, which all sessions share, must not keep one session's log alive.
        if self._length and len(self._log) == self._length:
            log, sizes = self._log, self._sizes
        else:
            log, sizes = self._log[: self._length], self._sizes[: self._length]
        total = sizes[-1] if sizes else 0
        for message in messages:
            log.append(message)
            sizes.append(total := total + size_of(message))
        grown._log, grown._sizes, grown._length = log, sizes, len(log)  # noqa: SLF001  # another history on the same log
        return grown

    def first(self, length: int) -> History:
        """Return the history of the first *length* messages, on the same log."""
        start = History.__new__(History)
        start._log, start._sizes, start._length = self._log, self._sizes, min(length, self._length)  # noqa: SLF001  # as above
        return start if length else EMPTY_HISTORY

    def added_to(self, other: History) -> tuple[Message, ...] | None:
        """Return the messages that follow those of *other* here; `None` if this history does not begin with *other*."""
        start = other._length
        if (self._log is other._log and self._length >= start) or not start:
            return tuple(self._log[start : self._length])
        return None

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            log = self._log
            # After the messages of this history, the log may have messages of other histories
            if len(log) != self._length:
                start, stop, by = index.indices(self._length)
                return tuple(log[start:stop] if by == 1 else [log[i] for i in range(start, stop, by)])
            return tuple(log[index])
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
    """Return the approximate size of *messages* for the model, in characters."""
    return messages.size if isinstance(messages, History) else sum(map(size_of, messages))


def answered_of(messages: Sequence[Message]) -> int:
    """Return the number of *messages* that the last answered request had: those before the last response."""
    index = len(messages) - 1
    while index >= 0 and not isinstance(messages[index], AssistantMessage):
        index -= 1
    return max(0, index)


class MessageRange(Value, tag_field=TAG, tag="Range"):
    """Consecutive messages of the history before the step."""

    start: int
    """Index of the first one."""
    stop: int
    """Index after the last one."""


class Added(Value, tag_field=TAG):
    """Context that was added for one request: the model sees it at this place, and the history never has it."""

    message: Message
    """The context."""
    by: Kept[str]
    """Key of the plugin that added it."""


class Rearranged(Value, tag_field=TAG):
    """Messages that are not just those of a history with more appended, as after a compaction."""

    pieces: tuple[MessageRange | Added | Message, ...]
    """Ranges of the history, and messages and added context that it does not have."""

    def of(self, history: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages; raise `ValueError` if *history* does not have the length that the ranges need."""
        messages: list[Message] = []
        for piece in self.pieces:
            if isinstance(piece, Added):
                messages.append(piece.message)
            elif not isinstance(piece, MessageRange):
                messages.append(piece)
            elif 0 <= piece.start < piece.stop <= len(history):
                messages.extend(history[piece.start : piece.stop])
            else:
                problem = f"it keeps messages {piece.start} to {piece.stop} of a history of {len(history)}"
                raise ValueError(problem)
        return tuple(messages)


def rearrange(history: Sequence[Message], messages: Iterable[Message]) -> Rearranged:
    """Return *messages* with ranges in place of those that *history* has: identical objects, not just equal ones."""
    indexes = {id(message): index for index, message in enumerate(history)}
    pieces: list[MessageRange | Message] = []
    last: MessageRange | None = None
    for message in messages:
        if last is not None and last.stop < len(history) and history[last.stop] is message:
            pieces[-1] = last = MessageRange(last.start, last.stop + 1)
            continue
        index = indexes.get(id(message))
        last = None if index is None else MessageRange(index, index + 1)
        pieces.append(message if last is None else last)
    return Rearranged(tuple(pieces))


class Leaving(Authored):
    """Messages that are about to leave the context of a session, for the compactor that writes what replaces them."""

    messages: tuple[Message, ...]
    """The messages, in order. The first one may be what replaced earlier ones."""
    room: int
    """The most characters that the text in their place may have; a longer one is refused."""
    most: int
    """About how many characters of them the session's model can read at once."""


class AskModel(Protocol):
    """A function that asks the session's model; its tokens count as those of the session."""

    async def __call__(self, prompt: str, system: str = "") -> str:
        """Return the model's answer to *prompt*, with *system* as the system prompt."""
        ...


class Compactor(Protocol):
    """A function that writes what replaces messages which leave the context, such as a summary."""

    async def __call__(self, leaving: Leaving, ask: AskModel) -> str:
        """Return the text for the model; if it raises, is too long or takes too long, the messages are dropped."""
        ...
