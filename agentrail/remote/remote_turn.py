"""`RemoteTurnStream`: the events of one turn of a session at a host, which end with it, and its reply."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import trio

from agentrail.api.turn_ends import turn_end
from agentrail.api.turn_events import R_co, TurnEvents, TurnReader
from agentrail.errors import AgentrailError
from agentrail.nurseries import open_shielded_nursery
from agentrail.values.content import ToolCall
from agentrail.values.events.envelope import Cursor, Envelope, Event

if TYPE_CHECKING:
    from agentrail.api.session_values import Reply
    from agentrail.core.vocabulary.commands import Accepted


class HostEvents(Protocol):
    """Interface: the events of a session of a host. `RemoteSubscription` is one."""

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> Envelope: ...

    async def __aenter__(self) -> Self:
        """Begin the subscription; raise the host's error if it refuses."""
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the subscription."""
        ...

    @property
    def cursor(self) -> Cursor:
        """Place after the last event that has come, read or not; before the first, where the subscription began."""
        ...

    def end(self) -> None:
        """End the subscription, after the events that wait."""
        ...


class RemoteTurnStream(TurnReader[R_co]):
    """The events of one turn: `async with` it, which sends the prompt, then `async for` over it; then it has a `reply`.

    It ends with the turn, or when the turn waits for a person. If `ask` would raise an error, so does the `async for`,
    after the last event. Leaving it early stops listening, as leaving a subscription does; the turn goes on. It goes on
    by itself after a cut of the connection.
    """

    __slots__ = ("_answered", "_ask", "_convert", "_dropped", "_events", "_prompt", "_result", "_subscribe", "_tasks")

    def __init__(
        self,
        subscribe: Callable[[], HostEvents],
        prompt: Callable[[], Awaitable[Accepted]],
        ask: Callable[[], Awaitable[object]],
        convert: Callable[[Reply], object],
    ) -> None:
        super().__init__()
        self._subscribe = subscribe
        self._events = subscribe()
        self._prompt = prompt
        """Sends the prompt."""
        self._ask = ask
        """Sends the prompt under the same command id, and so waits for its reply."""
        self._convert = convert
        """Makes the caller's object of the reply, or returns it as it is."""
        self._answered = trio.Event()
        """Set when the host has told the reply."""
        self._dropped: tuple[ToolCall, ...] = ()
        """The calls that waited for a person, and that the prompt has dropped."""
        self._result: object = None
        """The reply, or the error of the turn; `None` before it is told."""
        self._tasks: AbstractAsyncContextManager[trio.Nursery]
        """Holds the task that waits for the reply."""

    async def __aenter__(self) -> Self:
        """Send the prompt, and start to receive events; raise why the prompt is refused."""
        self._check_new()
        await self._events.__aenter__()  # before the prompt is sent, so that no event is missed
        try:
            accepted = await self._prompt()
            self._turn, self._dropped = TurnEvents(accepted.ref), accepted.dropped
            self._tasks = open_shielded_nursery()
            (await self._tasks.__aenter__()).start_soon(self._hear_reply)
        except BaseException:
            await self._events.__aexit__(None, None, None)  # noqa: ASYNC102, ASYNC120 - it waits for nothing
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to receive events."""
        try:
            await self._tasks.__aexit__(kind, error, trace)  # noqa: ASYNC102 - it cancels what it waits for
        finally:
            await self._events.__aexit__(kind, error, trace)  # noqa: ASYNC102 - it waits for nothing

    async def _hear_reply(self) -> None:
        """Body of the task: wait for the reply, then find out up to which event the turn has come by then."""
        try:
            self._result = await self._ask()
        except AgentrailError as error:
            self._result = error
        self._answered.set()
        try:
            async with self._subscribe() as later:  # it begins after the events that there are
                self._until = later.cursor
        except AgentrailError:  # the session has ended, or its host is lost
            self._events.end()
        self._note_read()

    def _note_read(self) -> None:
        """End the events if all those of the turn have come."""
        if self._until is not None and self._events.cursor >= self._until:
            self._events.end()

    @property
    def _envelopes(self) -> AsyncIterator[Envelope]:
        return self._events

    async def _wait_reply(self, end: Event | None) -> object:
        ended = None if end is None else turn_end(end)
        if ended is not None:  # the host may not have told the reply yet, or not tell it any more
            _, outcome = ended
            if isinstance(outcome, AgentrailError):
                raise outcome
            return self._convert(outcome.but(dropped=self._dropped))
        await self._answered.wait()
        if isinstance(self._result, AgentrailError):
            raise self._result
        return self._result
