"""Limits of providers: requests wait here for their turn, sessions one after the other, and never inside a client.

Each provider that has a limit has a lane per key. A request goes out when its lane has a slot for it, and room in the
last 60 seconds; until then it waits. Lanes know the time only from their arguments.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

import trio

from agentrail.errors import RateLimited, WrongType
from agentrail.ports.model import EmitChunk, Model
from agentrail.runtime.shared.sanitize import fit_response, fit_wait
from agentrail.runtime.shared.timers import Timers
from agentrail.values.foreign import shown
from agentrail.values.secrets import secret_name
from agentrail.values.stream import ModelRequest, Response, read_tokens
from agentrail.values.usage import Limit

Key: TypeAlias = tuple[str, str]
"""A provider, and the name of the secret that holds the key; empty: its customary one."""

MINUTE: Final = 60.0
"""Seconds that requests and tokens are counted for."""

LONGEST_PAUSE: Final = 60.0
"""Seconds that a provider may close a lane for; whoever is first behind them finds out whether it is still closed."""


MOST_RESTING: Final = 64
"""Lanes from which on those are dropped in which nothing counts any more: there may be a key for each customer."""

WANTED: Final = "a `Limit` for the name of each provider, with whole numbers from 1 on"


def _nobody() -> None:
    """Tell nobody."""


def _check(limit: object) -> None:
    """Raise `WrongType` for what is no limit, or lets nothing through."""
    if not isinstance(limit, Limit):
        raise WrongType.of("limits", limit, WANTED)
    for name in Limit.__fields__:
        found: object = getattr(limit, name)
        if found is not None and (type(found) is not int or found < 1):
            raise WrongType("limits", f"{name}={shown(found)}", WANTED)


class Ticket:
    """One request that waits, or is out."""

    __slots__ = ("at", "called", "sent", "session_id", "tokens")

    def __init__(self, session_id: str, tokens: int) -> None:
        self.session_id = session_id
        self.tokens = tokens
        self.at = 0.0
        self.sent = False
        self.called = trio.Event()


class Lane:
    """The requests to one provider with one key: who is out, who waits, and what the last minute has seen."""

    __slots__ = ("_closed_until", "_limit", "_minute", "_out", "_waiting")

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._out = 0
        self._waiting: OrderedDict[str, deque[Ticket]] = OrderedDict()
        self._minute: deque[Ticket] = deque()
        self._closed_until = 0.0

    @property
    def out(self) -> int:
        """How many requests are out."""
        return self._out

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return sum(map(len, self._waiting.values()))

    def rests(self, now: float) -> bool:
        """Whether nothing of it counts any more: no request is out, waits, or was sent in the last minute."""
        counts = self._out or self._waiting or (self._minute and self._minute[-1].at + MINUTE > now)
        return not counts and self._closed_until <= now

    def waiting_of(self, session_id: str) -> int:
        """Return how many requests of a session wait."""
        return len(self._waiting.get(session_id, ()))

    def join(self, ticket: Ticket) -> None:
        """Queue *ticket* behind those of its own session."""
        self._waiting.setdefault(ticket.session_id, deque()).append(ticket)

    def leave(self, ticket: Ticket) -> None:
        """Take back a request that was never sent: it has used nothing."""
        if ticket.sent:
            self._out -= 1
            self._minute.remove(ticket)
            return
        own = self._waiting[ticket.session_id]
        own.remove(ticket)
        if not own:
            del self._waiting[ticket.session_id]

    def done(self, ticket: Ticket, tokens: int | None) -> None:
        """Take note that a request has ended, and how many tokens it was, if that is known."""
        self._out -= 1
        if tokens is not None:
            ticket.tokens = tokens

    def close(self, until: float) -> None:
        """Send nothing until a time: the provider has asked for it."""
        self._closed_until = max(self._closed_until, until)

    def send(self, now: float) -> tuple[list[Ticket], float | None]:
        """Return the requests that go out now, and when there may be room for the next: `None`: when one has ended."""
        while self._minute and self._minute[0].at + MINUTE <= now:
            self._minute.popleft()
        sent: list[Ticket] = []
        while self._waiting:
            session_id, own = next(iter(self._waiting.items()))
            room_at = self._room_at(own[0], now)
            if room_at is None or room_at > now:
                return sent, room_at
            ticket = own.popleft()
            if own:
                self._waiting.move_to_end(session_id)
            else:
                del self._waiting[session_id]
            ticket.sent, ticket.at = True, now
            self._out += 1
            self._minute.append(ticket)
            sent.append(ticket)
        return sent, None

    def _room_at(self, ticket: Ticket, now: float) -> float | None:
        limit = self._limit
        if limit.concurrency is not None and self._out >= limit.concurrency:
            return None
        at = max(now, self._closed_until)
        if limit.requests_per_minute is not None and len(self._minute) >= limit.requests_per_minute:
            at = max(at, self._minute[len(self._minute) - limit.requests_per_minute].at + MINUTE)
        if limit.tokens_per_minute is not None:
            # A request that is larger than the whole limit goes when nothing else has gone for a minute.
            spent = sum(other.tokens for other in self._minute)
            for other in self._minute:
                if spent + ticket.tokens <= limit.tokens_per_minute:
                    break
                spent -= other.tokens
                at = max(at, other.at + MINUTE)
        return at


class ProviderLimits:
    """The lanes of a supervisor."""

    __slots__ = ("_lanes", "_limits", "_timers")

    def __init__(self, limits: Mapping[str, Limit], timers: Timers) -> None:
        for limit in limits.values():
            _check(limit)
        self._limits = limits
        self._timers = timers
        self._lanes: dict[Key, Lane] = {}

    async def stream(
        self, session_id: str, model: Model, request: ModelRequest, emit: EmitChunk, sent: Callable[[], None] = _nobody
    ) -> Response:
        """Make one attempt, when it may go out; *sent* is called then. What it returns is fit to be kept."""
        key = self._key(request)
        if key is None:
            sent()
            return fit_response(await model.stream(request, emit))
        return await self._in_turn(key, self._lane(key), session_id, model, request, emit, sent)

    async def _in_turn(
        self,
        key: Key,
        lane: Lane,
        session_id: str,
        model: Model,
        request: ModelRequest,
        emit: EmitChunk,
        sent: Callable[[], None],
    ) -> Response:
        ticket = await self._turn(key, lane, Ticket(session_id, read_tokens(request)))
        tokens: int | None = None
        try:
            sent()
            response = fit_response(await model.stream(request, emit))
            tokens = response.usage.total_tokens or None
        except RateLimited as error:
            wait = fit_wait(error)
            if wait is not None:
                lane.close(self._timers.clock.now() + min(wait, LONGEST_PAUSE))
            raise
        else:
            return response
        finally:
            lane.done(ticket, tokens)
            self._send(key, lane)

    def waiting_of(self, session_id: str) -> int:
        """Return how many requests of a session wait for their turn."""
        return sum(lane.waiting_of(session_id) for lane in self._lanes.values())

    def _key(self, request: ModelRequest) -> Key | None:
        """Return the lane of *request*, if its provider has a limit."""
        provider = request.model.partition(":")[0]
        return None if provider not in self._limits else (provider, secret_name(request.options.get("api_key")) or "")

    def _lane(self, key: Key) -> Lane:
        """Return the lane of *key*, and drop those that rest if there are too many."""
        lane = self._lanes.get(key)
        if lane is None:
            if len(self._lanes) >= MOST_RESTING:
                now = self._timers.clock.now()
                self._lanes = {other: lane for other, lane in self._lanes.items() if not lane.rests(now)}
            lane = self._lanes[key] = Lane(self._limits[key[0]])
        return lane

    async def _turn(self, key: Key, lane: Lane, ticket: Ticket) -> Ticket:
        """Return *ticket* when it may go out; whoever is cancelled before has used nothing."""
        lane.join(ticket)
        self._send(key, lane)
        try:
            await ticket.called.wait()
        except trio.Cancelled:
            lane.leave(ticket)
            self._send(key, lane)
            raise
        return ticket

    def _send(self, key: Key, lane: Lane) -> None:
        """Call those whose turn it is, and look again when there is room for the next."""
        called, room_at = lane.send(self._timers.clock.now())
        for ticket in called:
            ticket.called.set()
        if room_at is not None:
            self._timers.set(("", f"limit of {key}"), room_at, partial(self._send, key, lane))
