"""Keeps a session and its sub-agents within limits that they share: near one, requests wait for others to end.

What a response costs is known when it ends. So a request is sent only while the limit is not passed if each request
under way costs the most that it can. Then the last one that was sent may pass the limit, and none beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from attrs import frozen

from agentrail.core.context_window import window_of
from agentrail.core.vocabulary.state import State
from agentrail.ports.model import PriceBook
from agentrail.runtime.shared.permits import LimitKey, PermitQueue, Waiter
from agentrail.values.content import Data, Text, Thinking
from agentrail.values.messages import EMPTY_HISTORY, History, Message
from agentrail.values.stream import CHARS_PER_TOKEN, ModelRequest, read_tokens
from agentrail.values.usage import NOTHING_USED, Usage


class WaitClock:
    """Counts the seconds in which at least one request of a session, or of a sub-agent below it, waits."""

    __slots__ = ("_before", "_now", "_since", "_waiting")

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._waiting = 0
        self._before = self._since = 0.0

    @property
    def runs(self) -> bool:
        """Whether a request waits now."""
        return self._waiting > 0

    @property
    def seconds(self) -> float:
        """Seconds counted so far."""
        return self._before + (self._now() - self._since if self._waiting else 0.0)

    def begin(self) -> None:
        """Count one more request that waits."""
        if not self._waiting:
            self._since = self._now()
        self._waiting += 1

    def end(self) -> None:
        """Count one request less that waits."""
        if self._waiting == 1:
            self._before = self.seconds
        self._waiting -= 1


MAX_TOKENS: Final = 10**12
"""Tokens that a request may cost whose model has no known window: more than any limit, so no other runs beside it."""

TOKENS_PER_CHAR: Final = 2
"""The most tokens that a character of a request is taken to have."""

ADDED: Final = 4_000
"""The most tokens that a provider is taken to add to a request, for tools and the like."""

COUNTED_BY_SIZE: Final = frozenset({Text, Thinking, Data})
"""Parts of messages whose tokens follow from their characters; those of images and files do not."""


def are_counted_by_size(messages: Iterable[Message]) -> bool:
    """Whether the tokens of *messages* follow from their characters."""
    return all(type(part) in COUNTED_BY_SIZE for message in messages for part in message.parts)


class SizedHistory:
    """Looks once at each message of a session: whether its tokens follow from its characters."""

    __slots__ = ("_counted_history",)

    def __init__(self) -> None:
        self._counted_history = EMPTY_HISTORY  # the last one of which that is so

    def is_counted(self, messages: Sequence[Message]) -> bool:
        """Whether the tokens of *messages* follow from their characters."""
        if not isinstance(messages, History):
            return are_counted_by_size(messages)
        added = messages.added_to(self._counted_history)
        if not are_counted_by_size(messages if added is None else added):
            return False
        self._counted_history = messages
        return True


def _most(
    request: ModelRequest, window: int | None, prices: PriceBook, is_counted: Callable[[Sequence[Message]], bool]
) -> tuple[int, list[float | None]]:
    """Return the most tokens of *request*, and what they cost by each way in which a provider may count them."""
    model_window = window_of(request.model)
    window = model_window if window is None else max(window, model_window or 0)
    input_tokens = output_tokens = most = MAX_TOKENS if window is None else max(window, read_tokens(request))
    limit = request.options.get("max_tokens")
    if type(limit) is int and limit > 0:  # -1 is no limit for some servers, and 0 for others
        output_tokens = min(most, limit)
        if is_counted(request.messages):
            input_tokens = min(most, read_tokens(request) * CHARS_PER_TOKEN * TOKENS_PER_CHAR + ADDED)
    kinds = (Usage(input_tokens, output_tokens), Usage(input_tokens, output_tokens, cache_write_tokens=input_tokens))
    costs = [prices.priced(request.model, request.options, kind).spent_usd for kind in kinds]
    return min(most, input_tokens + output_tokens), costs


def most_of(
    request: ModelRequest,
    window: int | None,
    prices: PriceBook,
    is_counted: Callable[[Sequence[Message]], bool] = are_counted_by_size,
) -> Usage:
    """Return the most that *request* can cost: its input and `max_tokens`, or the whole *window* of its model.

    An option may set *window* too small, to compact early; then the known window of the model counts. An unknown price
    counts as 0, because without a price a limit of money cannot hold anyway.
    """
    most, costs = _most(request, window, prices, is_counted)
    return Usage(most, cost_usd=max(cost or 0.0 for cost in costs))


def most_usd_of(
    request: ModelRequest, window: int | None, prices: PriceBook, is_counted: Callable[[Sequence[Message]], bool]
) -> float | None:
    """Return the most US dollars that *request* can cost, as in `most_of`; `None` if a price is not known."""
    _, costs = _most(request, window, prices, is_counted)
    return None if None in costs else max(cost or 0.0 for cost in costs)


class Reservation:
    """The most that a request may cost, or what it has cost: for one whose usage is not in its session's state yet."""

    __slots__ = ("_cost", "_find", "ended", "is_round", "line", "name")

    def __init__(self, name: str, line: tuple[str, ...], most: Callable[[], Usage], *, is_round: bool = False) -> None:
        self.name = name
        self.is_round = is_round  # false for a request of a plugin or for a summary
        self.line = line  # session ids from the top-level session down to the one that makes the request
        self.ended = False
        self._find = most
        self._cost: Usage | None = None

    @property
    def cost(self) -> Usage:
        """What the request has cost, or while it runs, the most it can cost; computed when first needed."""
        if self._cost is None:
            self._cost = self._find()
        return self._cost

    def end(self, used: Callable[[], Usage]) -> None:
        """Note that the request has ended; *used* returns its usage."""
        self.ended, self._find, self._cost = True, used, None


class Purse:
    """Reservations for requests of a session and its sub-agents, and the queue of requests that wait for room."""

    __slots__ = ("clocks", "has_told_wait", "pending", "queue")

    def __init__(self) -> None:
        self.pending: list[Reservation] = []
        self.queue = PermitQueue()
        self.clocks: dict[str, WaitClock] = {}
        """How long requests have waited, by the id of each sub-agent that runs and has had such requests."""
        self.has_told_wait = False  # whether the log says why requests wait for each other

    async def wait(
        self, waiter: Waiter, reservation: Reservation, give_back: Callable[[], None], now: Callable[[], float]
    ) -> None:
        """Wait as `PermitQueue.wait`, while the clocks of the sub-agents run for which *reservation* is made."""
        below = () if waiter.answer.settled else reservation.line[1:]
        clocks = [self.clocks.setdefault(child, WaitClock(now)) for child in below]
        for clock in clocks:
            clock.begin()
        try:
            await self.queue.wait(waiter, give_back)
        finally:
            for clock in clocks:
                clock.end()

    def sums(self, above: str, below: str, *, at_most: bool) -> tuple[Usage, Usage]:
        """Return two sums: the requests of session *below* and its sub-agents, and the other ones under *above*.

        With *at_most*, a running request counts as the most that it can cost, else as nothing.
        """
        own_sum = other_sum = NOTHING_USED
        for reservation in self.pending:
            cost = reservation.cost if at_most or reservation.ended else NOTHING_USED
            if below in reservation.line:
                own_sum = own_sum.plus(cost)
            elif above in reservation.line:
                other_sum = other_sum.plus(cost)
        return own_sum, other_sum

    @property
    def is_held(self) -> bool:
        """Whether all room is reserved for a sub-agent that comes back, until its usage is known."""
        return any(not reservation.name for reservation in self.pending)

    def hold(self, line: tuple[str, ...]) -> Reservation:
        """Reserve all room for the last session of *line*, so that others wait; return the reservation."""
        reservation = Reservation("", line, lambda: Usage(MAX_TOKENS, cost_usd=float(MAX_TOKENS)))
        self.pending.append(reservation)
        return reservation

    def drop(self, reservation: Reservation) -> None:
        """Remove a reservation, and let waiting requests look again."""
        self.pending.remove(reservation)
        self.queue.look()


@frozen
class Reached:
    """A limit that is reached."""

    limits: LimitKey
    """The limits that it is one of."""
    name: str
    """The name of its plugin, its own name, and its value."""


class FamilyUsage(Protocol):
    """Interface: usage of a session's sub-agents and of the sessions beside them (implemented by `SharedLimits`)."""

    @property
    def purse(self) -> Purse:
        """Reservations and queue for shared limits; one object for all sessions of the family."""
        ...

    def spread(self, state: State) -> None:
        """Tell sub-agents that share a money limit what the other sessions have used; *state* is the parent's."""
        ...

    def untold(self) -> Usage:
        """Return usage of the sub-agents that the parent has not counted yet."""
        ...

    def used_beside(self, child: str) -> tuple[str, Usage]:
        """Return the id of the session that set the limits which *child* shares, and what other sessions have used.

        That session may be any number of levels above.
        """
        ...

    def is_back(self, child: State) -> None:
        """Note that a sub-agent was resumed, so that its usage and its knowledge of others' usage are known."""
        ...

    def worked_since(self, child: str, now_ms: int) -> int:
        """Return the milliseconds up to *now_ms* that the family has worked since *child* began; 0 without parent."""
        ...

    def time_used_up(self, now_ms: int, *, of_turn: bool) -> str | None:
        """Return a limit of seconds of the session, or one above whose limits it shares, that is used up at *now_ms*.

        With *of_turn*, that of its turn too: a sub-agent that is not in the background is of the turn that is open.
        """
        ...

    def reached_above(self, now_ms: int, *, at_most: bool) -> Reached | None:
        """Return a limit of the session, or of one above whose limits it shares, that is reached; see `reached`."""
        ...
