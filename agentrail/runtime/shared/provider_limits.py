"""Rate limits of providers: requests queue here until their provider's limits allow them, fairly between sessions.

There is one `Lane` (queue) per provider and API key. A request is sent when a slot is free and the last 60 seconds
leave room for it. Lanes read no clock: they get the time as an argument.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol, TypeAlias

import trio

from agentrail.errors import RateLimited, WrongType
from agentrail.ports.model import EmitChunk, Model
from agentrail.runtime.shared.clock import Timers
from agentrail.runtime.shared.untrusted_calls import fit_response, fit_wait
from agentrail.values.secrets import secret_name
from agentrail.values.stream import ModelRequest, Response, read_tokens
from agentrail.values.usage import Limit

Key: TypeAlias = tuple[str, str]
"""Key of a lane: provider, and name of the secret with the API key (empty: the provider's default one)."""

MINUTE: Final = 60.0
"""Seconds over which requests and tokens are counted."""

MAX_PAUSE: Final = 60.0
"""Longest time in seconds that a provider may close a lane; the next request then finds out if it is still closed."""


MAX_RESTING: Final = 64
"""Number of lanes above which unused ones are dropped; there may be one API key per customer."""

WANTED: Final = "a `Limit` for the name of each provider, with whole numbers from 1 on"


def nobody() -> None:
    """No-op callback."""


def _check(limit: object) -> None:
    """Raise `WrongType` if *limit* is no `Limit`."""
    if not isinstance(limit, Limit):
        raise WrongType.of("limits", limit, WANTED)


class Ticket:
    """A request that waits in a lane or was sent."""

    __slots__ = ("at", "called", "sent", "session_id", "tokens")

    def __init__(self, session_id: str, tokens: int) -> None:
        self.session_id = session_id
        self.tokens = tokens
        self.at = 0.0
        self.sent = False
        self.called = trio.Event()


class Lane:
    """Queue of one provider and API key: requests sent, requests waiting, and usage of the last minute."""

    __slots__ = ("_closed_until", "_limit", "_minute", "_out", "_waiting")

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._out = 0
        self._waiting: OrderedDict[str, deque[Ticket]] = OrderedDict()
        self._minute: deque[Ticket] = deque()
        self._closed_until = 0.0

    @property
    def out(self) -> int:
        """Number of requests sent and not finished."""
        return self._out

    @property
    def waiting(self) -> int:
        """Number of requests that wait."""
        return sum(map(len, self._waiting.values()))

    def rests(self, now: float) -> bool:
        """Whether the lane can be dropped: not closed, and no request runs, waits, or was sent in the last minute."""
        counts = self._out or self._waiting or (self._minute and self._minute[-1].at + MINUTE > now)
        return not counts and self._closed_until <= now

    def waiting_of(self, session_id: str) -> int:
        """Return the number of waiting requests of one session."""
        return len(self._waiting.get(session_id, ()))

    def join(self, ticket: Ticket) -> None:
        """Queue *ticket* after the other requests of its session."""
        self._waiting.setdefault(ticket.session_id, deque()).append(ticket)

    def leave(self, ticket: Ticket) -> None:
        """Remove a request that never reached the provider, even if its turn had come; it does not count."""
        if ticket.sent:
            self._out -= 1
            self._minute.remove(ticket)
            return
        own = self._waiting[ticket.session_id]
        own.remove(ticket)
        if not own:
            del self._waiting[ticket.session_id]

    def release(self, ticket: Ticket, tokens: int | None) -> None:
        """Note that a request has ended, and the tokens it used, if known."""
        self._out -= 1
        if tokens is not None:
            ticket.tokens = tokens

    def close(self, until: float) -> None:
        """Send no request before the given time, as the provider asked."""
        self._closed_until = max(self._closed_until, until)

    def send(self, now: float) -> tuple[list[Ticket], float | None]:
        """Return the requests to send now, and when to look again.

        The time is `None` if there is nothing to send before a request ends.
        """
        while self._minute and self._minute[0].at + MINUTE <= now:
            self._minute.popleft()
        tickets: list[Ticket] = []
        while self._waiting:
            session_id, own = next(iter(self._waiting.items()))
            room_at = self._room_at(own[0], now)
            if room_at is None or room_at > now:
                return tickets, room_at
            ticket = own.popleft()
            if own:
                self._waiting.move_to_end(session_id)
            else:
                del self._waiting[session_id]
            ticket.sent, ticket.at = True, now
            self._out += 1
            self._minute.append(ticket)
            tickets.append(ticket)
        return tickets, None

    def _room_at(self, ticket: Ticket, now: float) -> float | None:
        """Return when *ticket* may be sent; `None` if that depends on the end of a running request."""
        limit = self._limit
        if limit.concurrency is not None and self._out >= limit.concurrency:
            return None
        at = max(now, self._closed_until)
        if limit.requests_per_minute is not None and len(self._minute) >= limit.requests_per_minute:
            at = max(at, self._minute[len(self._minute) - limit.requests_per_minute].at + MINUTE)
        if limit.tokens_per_minute is not None:
            # A request larger than the whole limit is sent when nothing else was sent for a minute.
            spent = sum(other.tokens for other in self._minute)
            for other in self._minute:
                if spent + ticket.tokens <= limit.tokens_per_minute:
                    break
                spent -= other.tokens
                at = max(at, other.at + MINUTE)
        return at


class Sends(Protocol):
    """Interface: sends requests to models when limits allow it (implemented by `ProviderLimits` and `Metered`)."""

    async def stream(
        self, session_id: str, model: Model, request: ModelRequest, emit: EmitChunk, sent: Callable[[], None] = nobody
    ) -> Response:
        """Wait for the limits, call *sent*, then stream one request; return the checked response."""
        ...


class ProviderLimits:
    """All lanes of a supervisor."""

    __slots__ = ("_lanes", "_limits", "_timers")

    def __init__(self, limits: Mapping[str, Limit], timers: Timers) -> None:
        for limit in limits.values():
            _check(limit)
        self._limits = limits
        self._timers = timers
        self._lanes: dict[Key, Lane] = {}

    @property
    def waiting(self) -> int:
        """Number of requests that wait."""
        return sum([lane.waiting for lane in self._lanes.values()])

    async def stream(
        self, session_id: str, model: Model, request: ModelRequest, emit: EmitChunk, sent: Callable[[], None] = nobody
    ) -> Response:
        """Wait for the limits, call *sent*, then stream one request; return the checked response."""
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
        """Wait for the turn of the request, stream it, and count its tokens in the lane."""
        ticket = await self._turn(key, lane, Ticket(session_id, read_tokens(request)))
        tokens: int | None = None
        try:
            sent()
            response = fit_response(await model.stream(request, emit))
            tokens = response.usage.total_tokens or None
        except RateLimited as error:
            wait = fit_wait(error)
            if wait is not None:
                lane.close(self._timers.clock.now() + min(wait, MAX_PAUSE))
            raise
        else:
            return response
        finally:
            lane.release(ticket, tokens)
            self._send(key, lane)

    def waiting_of(self, session_id: str) -> int:
        """Return the number of waiting requests of one session."""
        return sum(lane.waiting_of(session_id) for lane in self._lanes.values())

    def _key(self, request: ModelRequest) -> Key | None:
        """Return the key of the lane for *request*, `None` if its provider has no limit."""
        provider = request.model.partition(":")[0]
        return None if provider not in self._limits else (provider, secret_name(request.options.get("api_key")) or "")

    def _lane(self, key: Key) -> Lane:
        """Return the lane of *key*, made if needed; drop unused lanes if there are too many."""
        lane = self._lanes.get(key)
        if lane is None:
            if len(self._lanes) >= MAX_RESTING:
                now = self._timers.clock.now()
                self._lanes = {other: lane for other, lane in self._lanes.items() if not lane.rests(now)}
            lane = self._lanes[key] = Lane(self._limits[key[0]])
        return lane

    async def _turn(self, key: Key, lane: Lane, ticket: Ticket) -> Ticket:
        """Wait until the request may be sent, and return its ticket; if cancelled before, nothing counts."""
        lane.join(ticket)
        self._send(key, lane)
        try:
            await ticket.called.wait()
        except trio.Cancelled:
            # Without this, a request that was never sent would count against the limit, and delay the next one:
            # tests/runtime/test_limits.py::test_whoever_is_cancelled_before_its_request_goes_out_has_used_nothing
            lane.leave(ticket)
            self._send(key, lane)
            raise
        return ticket

    def _send(self, key: Key, lane: Lane) -> None:
        """Wake the requests of *lane* that may be sent, and set a timer for the next ones."""
        called, room_at = lane.send(self._timers.clock.now())
        for ticket in called:
            ticket.called.set()
        if room_at is not None:
            self._timers.set(("", f"limit of {key}"), room_at, partial(self._send, key, lane))
