"""Turns a session's messages into turns that every provider accepts; shared by all wire formats, without side effects.

Whatever the history holds, the turns that come out of it
* begin with the user, and alternate between the user and the model;
* give each call exactly one result, in the next turn of the user, in the order of the calls: one that is missing is
  made up, and one without a call is left out;
* have ids of calls that are unique and that the provider takes: its own where it made them, else the session's;
* have names of calls that the provider takes, whatever a model made up;
* hold thoughts only where this very provider sealed them: a signature of another one is worth nothing, and the
  thoughts of another model are not this one's words;
* hold no empty text.

What is said later changes nothing before the last turn, so a provider's cache knows the beginning again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from agentrail.values.content import Data, Part, Said, Text, Thinking, ToolCall
from agentrail.values.json import canonical
from agentrail.values.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentrail.values.stream import ModelRequest
from agentrail.values.value import Value, value

LOST: Final = "the result of this call was lost; it may have taken effect"
LEFT_OUT: Final = "(the beginning of this conversation was left out)"
GO_ON: Final = "(go on)"
NO_OUTPUT: Final = "(no output)"

ANY_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Ids of calls that every provider takes."""

ANY_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,128}")
"""Names of tools that some provider takes, so that there may be such a tool."""

SHORT: Final = 64
"""Characters of a name that every provider takes."""

NO_NAME: Final = "unnamed"
"""Name that is given to a call without a name."""


@value
class Result(Value):
    """The result of one call."""

    wire_id: str
    """The id that the provider knows the call by."""
    name: str
    """Which tool."""
    parts: tuple[Part, ...]
    """What the model sees; never empty."""
    is_error: bool = False
    """Whether the call failed."""


@value
class Asked(Value):
    """A call as it goes to the provider."""

    wire_id: str
    """The id that the provider knows it by."""
    call: ToolCall
    """The call."""


@value
class UserTurn(Value):
    """One turn of the user's side: results of calls first, then text."""

    results: tuple[Result, ...] = ()
    """The results of all calls of the turn before."""
    parts: tuple[Part, ...] = ()
    """What was said."""


@value
class ModelTurn(Value):
    """One turn of the model."""

    parts: tuple[Said, ...] = ()
    """Text, and thoughts that carry this provider's seal."""
    asked: tuple[Asked, ...] = ()
    """The calls."""


Turn: TypeAlias = UserTurn | ModelTurn


def turns_of(
    messages: Sequence[Message], provider: str, fits: re.Pattern[str] = ANY_ID, *, sealed: bool = True
) -> tuple[Turn, ...]:
    """Return *messages* as turns for *provider*, whose ids of calls look like *fits*.

    With *sealed*, thoughts of its own without a signature are left out too: they were cut, or it gives none.
    """
    projection = _Projection(provider, fits, sealed=sealed)
    for message in messages:
        projection.take(message)
    return projection.finished()


def system_of(request: ModelRequest) -> tuple[str, ...]:
    """Return the system prompt and the sections after it, without what is empty."""
    sections = (f"# {name}\n\n{text}" for name, text in request.sections if text.strip())
    return (*((request.system,) if request.system.strip() else ()), *sections)


def plain(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return *parts* with data as text, and without empty text."""
    found = (Text(canonical(part.data)) if isinstance(part, Data) else part for part in parts)
    return tuple(part for part in found if not (isinstance(part, Text) and not part.text.strip()))


def _fit(call: ToolCall) -> ToolCall:
    """Return *call* with a name that every provider takes: models make up others, which then stand in the history."""
    if ANY_NAME.fullmatch(call.name):
        return call
    return call.but(name=re.sub(r"[^a-zA-Z0-9_-]", "_", call.name)[:SHORT] or NO_NAME)


class _Projection:
    """The turns so far, and what the last one of the model still waits for."""

    def __init__(self, provider: str, fits: re.Pattern[str], *, sealed: bool) -> None:
        self._provider = provider
        self._fits = fits
        self._sealed = sealed
        self._turns: list[Turn] = []
        self._waiting: tuple[Asked, ...] = ()
        self._results: dict[str, Result] = {}
        self._used: set[str] = set()

    def take(self, message: Message) -> None:
        match message:
            case ToolMessage():
                self._take_result(message)
            case UserMessage():
                self._settle()
                self._say(plain(message.parts))
            case AssistantMessage():
                self._settle()
                self._answer(message)

    def finished(self) -> tuple[Turn, ...]:
        self._settle()
        if not self._turns or isinstance(self._turns[-1], ModelTurn):
            self._turns.append(UserTurn(parts=(Text(GO_ON),)))
        return tuple(self._turns)

    def _take_result(self, message: ToolMessage) -> None:
        for asked in self._waiting:
            if asked.call.call_id == message.call_id and asked.wire_id not in self._results:
                parts = plain(message.parts) or (Text(NO_OUTPUT),)
                self._results[asked.wire_id] = Result(asked.wire_id, asked.call.name, parts, message.is_error)
                return

    def _settle(self) -> None:
        """Close the calls of the last turn of the model."""
        if self._waiting:
            lost = (Text(LOST),)
            results = (
                self._results.get(asked.wire_id) or Result(asked.wire_id, asked.call.name, lost, is_error=True)
                for asked in self._waiting
            )
            self._turns.append(UserTurn(tuple(results)))
            self._waiting, self._results = (), {}

    def _say(self, parts: tuple[Part, ...]) -> None:
        if not parts:
            return
        last = self._turns[-1] if self._turns else None
        if isinstance(last, UserTurn):
            self._turns[-1] = UserTurn(last.results, (*last.parts, *parts))
        else:
            self._turns.append(UserTurn(parts=parts))

    def _answer(self, message: AssistantMessage) -> None:
        own = message.model.partition(":")[0] == self._provider
        parts = tuple(part for part in message.parts if self._is_said(part, own=own))
        asked = tuple(Asked(self._wire_id(call, own=own), _fit(call)) for call in message.calls)
        if not asked and not any(isinstance(part, Text) for part in parts):
            return
        if not self._turns:
            self._turns.append(UserTurn(parts=(Text(LEFT_OUT),)))
        elif isinstance(self._turns[-1], ModelTurn):
            self._turns.append(UserTurn(parts=(Text(GO_ON),)))
        self._turns.append(ModelTurn(parts, asked))
        self._waiting = asked

    def _wire_id(self, call: ToolCall, *, own: bool) -> str:
        """Return the provider's id of *call* if it made one that can be used, else one from the session's."""
        theirs = call.provider_id
        if own and theirs not in self._used and self._fits.fullmatch(theirs):
            self._used.add(theirs)
            return theirs
        found, number = re.sub(r"[^a-zA-Z0-9_-]", "-", call.call_id), 0
        while found in self._used or not self._fits.fullmatch(found):
            number += 1
            found = f"c{number:08}"  # nine letters and digits: no provider wants less or more of them
        self._used.add(found)
        return found

    def _is_said(self, part: Said, *, own: bool) -> bool:
        if isinstance(part, Thinking):
            return own and (part.signature is not None or not self._sealed)
        return bool(part.text.strip())
