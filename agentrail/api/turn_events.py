"""`TurnEvents`: tells the events of one turn from the others of its session; used here, by hosts and by their clients.

`TurnReader`: what `stream` of a handle gives, here or from outside of a host, as far as it is the same.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import Final, Generic, Self, TypeAlias, TypeVar, cast, get_args

from agentrail.errors import AgentrailError, AlreadyLeft, NotEntered, UsageError
from agentrail.errors.agentrail_error import fresh
from agentrail.hints import AsyncOnly, TurnHints
from agentrail.reprs import in_brackets
from agentrail.values.events.envelope import Cursor, Envelope, Event
from agentrail.values.events.life import (
    AgentAbort,
    AgentEnd,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
    PromptWithdrawn,
)
from agentrail.values.events.plugins import Gap

R_co = TypeVar("R_co", covariant=True)

_PromptEvent: TypeAlias = (
    AgentAbort | AgentEnd | PromptDropped | PromptQueued | PromptReceived | PromptRejected | PromptWithdrawn
)

_OF_PROMPTS: Final = frozenset[type[Event]](get_args(_PromptEvent))
"""Events of one prompt: of another one's they are left out, also while the turn is open."""


def is_of_prompt(event: Event) -> bool:
    """Whether *event* is of one prompt, and so may be the last of its turn."""
    return type(event) in _OF_PROMPTS


class TurnEvents:
    """Tells which events of a session belong to the turn of one prompt; it has to see them in their order."""

    __slots__ = ("_ref", "_turn", "has_ended")

    def __init__(self, ref: str, turn: int | None = None) -> None:
        """*turn* is the number of the turn if it is open already; `None` if it is not known, or has not begun."""
        self._ref = ref
        """Id of the prompt."""
        self._turn = turn
        """Number of the turn, as soon as it has begun."""
        self.has_ended = False
        """Whether the event has come after which there is no turn: it has ended, or never begins."""

    @in_brackets
    def __repr__(self) -> str:
        state = "ended" if self.has_ended else "not begun" if self._turn is None else f"turn {self._turn}"
        return f"{self._ref}, {state}"

    def has(self, envelope: Envelope) -> bool:
        """Whether the event in *envelope* is of the turn, or of its prompt; none is after the end of the turn."""
        if self.has_ended:
            return False
        kind = type(envelope.event)
        # By its class, as each delta comes here: `isinstance` asks the classes one by one.
        if kind not in _OF_PROMPTS:
            return self._turn is not None and (envelope.turn == self._turn or kind is Gap)
        if cast("_PromptEvent", envelope.event).ref != self._ref:
            return False
        if kind is PromptReceived:
            self._turn = envelope.turn
        self.has_ended = kind not in {PromptReceived, PromptQueued}
        return True


class TurnReader(TurnHints, AsyncOnly, Generic[R_co]):
    """The events of one turn: `async with` it, which sends the prompt, then `async for` over it; then it has a `reply`.

    It ends with the turn, or when the turn waits for a person. If `ask` would raise an error, so does the `async for`,
    after the last event. Leaving it early stops listening, as leaving a subscription does; the turn goes on.
    """

    __slots__ = ("_outcome", "_turn", "_until")

    def __init__(self) -> None:
        self._turn: TurnEvents | None = None
        """Tells which events are of the turn; `None` before the prompt is accepted."""
        self._until: Cursor | None = None
        """The last event up to which the turn ended, or came to wait, if it is known; no later one is read."""
        self._outcome: object = None
        """The reply, the caller's object, or the error of the turn; `None` until its last event was read."""

    @in_brackets
    def __repr__(self) -> str:
        return "not entered" if self._turn is None else repr(self._turn)

    @property
    @abstractmethod
    def _envelopes(self) -> AsyncIterator[Envelope]:
        """The events of the session, from before the prompt on; they end when no more of the turn come."""
        ...

    @abstractmethod
    async def _wait_reply(self, end: Event | None) -> object:
        """Wait for what `ask` returns, which is there or about to come; raise what it raises.

        *end* is the event that ended the turn; `None` if none has come, as while the turn waits for a person.
        """
        ...

    def _check_new(self) -> None:
        """Raise `AlreadyLeft` if it was entered before: it would send a second prompt."""
        if self._turn is not None:
            raise AlreadyLeft

    def _note_read(self) -> None:
        """Called after each event of the session that was read."""

    def __aiter__(self) -> Self:
        if self._turn is None:
            raise NotEntered
        return self

    async def __anext__(self) -> Event:
        turn = self._turn
        if turn is None:
            raise NotEntered
        while self._outcome is None:
            try:
                envelope = await anext(self._envelopes)
            except StopAsyncIteration:
                await self._settle()
                break
            self._note_read()
            if self._until is not None and envelope.cursor > self._until:  # the turn goes on by now
                await self._settle()
            elif turn.has(envelope):
                if turn.has_ended:
                    await self._settle(envelope.event)
                return envelope.event
        if isinstance(self._outcome, AgentrailError):
            raise fresh(self._outcome)
        raise StopAsyncIteration

    async def _settle(self, end: Event | None = None) -> None:
        try:
            self._outcome = await self._wait_reply(end)
        except AgentrailError as error:
            self._outcome = error

    @property
    def reply(self) -> R_co:
        """What `ask` returns, once the last event was read; raise what `ask` raises, or `UsageError` before."""
        if self._outcome is None:
            raise UsageError("turn-goes-on")
        if isinstance(self._outcome, AgentrailError):
            raise fresh(self._outcome)
        return cast("R_co", self._outcome)
