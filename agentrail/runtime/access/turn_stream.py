"""`TurnStream`: the events of one turn of a session here, which end with it, and its reply."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from agentrail.api.turn_events import R_co, TurnEvents, TurnReader, is_of_prompt
from agentrail.runtime.access.sending import AskedPrompt, object_of
from agentrail.runtime.events.subscription import Subscription
from agentrail.values.events.envelope import Envelope, Event

if TYPE_CHECKING:
    from agentrail.hooks.hook_runner import ReadAnswer
    from agentrail.runtime.actor.session import Session


class TurnStream(TurnReader[R_co]):
    """The events of one turn: `async with` it, which sends the prompt, then `async for` over it; then it has a `reply`.

    It ends with the turn, or when the turn waits for a person. If `ask` would raise an error, so does the `async for`,
    after the last event. Leaving it early stops listening, as leaving a subscription does; the turn goes on.
    """

    __slots__ = ("_ask", "_events", "_parse_answer", "_prompt", "_session", "_wait")

    def __init__(
        self,
        session: Session,
        events: Subscription,
        ask: Callable[[], Awaitable[AskedPrompt]],
        parse_answer: ReadAnswer | None,
    ) -> None:
        super().__init__()
        self._session = session
        self._events = events
        self._ask = ask
        """Sends the prompt."""
        self._parse_answer = parse_answer
        """Makes the caller's object of the answer; `None` if the caller wants a `Reply`."""
        self._wait: AbstractContextManager[None]
        """Notes that the caller waits for a turn, which refuses a caller for which this turn would wait."""
        self._prompt: AskedPrompt | None = None
        """The prompt; `None` before it is accepted."""

    async def __aenter__(self) -> Self:
        """Send the prompt, and start to receive events; raise why the prompt is refused."""
        self._check_new()
        self._wait = self._session.shared.turn_waits.on(self._session.session_id)
        self._wait.__enter__()
        try:
            await self._events.__aenter__()  # before the prompt is sent, so that no event is missed
            self._prompt = prompt = await self._ask()
            ref, state = prompt.accepted.ref, self._session.state
            is_open = state.turn is not None and state.turn.ref == ref  # as it may be if a command is repeated
            self._turn = TurnEvents(ref, state.turn_count if is_open else None)
            await prompt.when_replied(self._note_end)
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)  # noqa: ASYNC102, ASYNC120 - it waits for nothing
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to receive events."""
        if self._prompt is not None:
            self._prompt.leave()
        await self._events.__aexit__(kind, error, trace)  # noqa: ASYNC102 - it waits for nothing
        self._wait.__exit__(kind, error, trace)

    def take_now(self, most: int) -> list[Event]:
        """Take up to *most* events that are there, for a reader that passes many on at once.

        None from one of a prompt on: it may be the last of the turn, with which its reply has to be there.
        """
        events: list[Event] = []
        turn, until = self._turn, self._until
        if turn is None or turn.has_ended:
            return events
        while len(events) < most and (envelope := self._events.peek_now()) is not None:
            if is_of_prompt(envelope.event) or (until is not None and (envelope.seq, envelope.n) > until):
                break
            self._events.next_now()
            if turn.has(envelope):
                events.append(envelope.event)
        return events

    def _note_end(self) -> None:
        """Have the stream end after the events that there are: the turn has ended, or waits. Called by the actor."""
        self._until = self._session.events.cursor
        self._events.end()

    @property
    def _envelopes(self) -> AsyncIterator[Envelope]:
        return self._events

    async def _wait_reply(self, end: Event | None) -> object:  # noqa: ARG002 - here, the reply is there with it
        if self._prompt is None:
            return None
        reply = await self._prompt.reply()
        return reply if self._parse_answer is None else object_of(reply, self._parse_answer)
