"""Rate limits of providers: requests queue here until their provider's limits allow them, fairly between sessions.

There is one `Lane` per provider and account. A request is sent when a slot is free and the last 60 seconds
leave room for it. Lanes read no clock: they get the time as an argument.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol, TypeAlias

from agentrail.errors import RateLimited, WrongType
from agentrail.ports.model import EmitChunk, Model
from agentrail.runtime.shared.permits import PermitQueue
from agentrail.runtime.shared.timers import Timers
from agentrail.values.json import Json
from agentrail.values.secrets import secret_name
from agentrail.values.stream import ModelRequest, Response, read_tokens
from agentrail.values.untrusted_content import fit_response, fit_wait
from agentrail.values.usage import Limit

Key: TypeAlias = tuple[str, ...]
"""Key of a lane: the provider, and the values of the options in `ACCOUNT` (empty: the provider's default one)."""

ACCOUNT: Final = ("api_key", "token", "profile", "project", "region", "base_url")
"""The options that say whose request it is, and where: each such account has limits of its own.

Clouds count by region, and at Azure the address is the customer.
"""

MINUTE: Final = 60.0
"""Seconds over which requests and tokens are counted."""

MAX_PAUSE: Final = 60.0
"""Longest time in seconds that a provider may close a lane; the next request then finds out if it is still closed."""


MAX_RESTING: Final = 64
"""Number of lanes above which unused ones are dropped; there may be one API key per customer."""

WANTED: Final = "a `Limit` for the name of each provider, with whole numbers from 1 on"


def _account_part(value: Json) -> str:
    """Return *value* of an option as a part of a `Key`: a text, or the name of a secret."""
    return value if isinstance(value, str) else secret_name(value) or ""


def nobody() -> None:
    """No-op callback."""


def _check(limit: object) -> None:
    """Raise `WrongType` if *limit* is no `Limit`."""
    if not isinstance(limit, Limit):
        raise WrongType.of("limits", limit, WANTED)


class Ticket:
    """A request that was sent, or is to be: when, and the tokens that it counts for."""

    __slots__ = ("at", "tokens")

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.at = 0.0


class Lane:
    """The limits of one provider and account: requests that wait, requests sent, and usage of the last minute."""

    __slots__ = ("_closed_until", "_limit", "_minute", "_out", "queue")

    def __init__(self, limit: Limit) -> None:
        self.queue = PermitQueue(of_one_limit=True)
        self._limit = limit
        self._out = 0
        self._minute: deque[Ticket] = deque()
        self._closed_until = 0.0

    @property
    def out(self) -> int:
        """Number of requests sent and not finished."""
        return self._out

    def rests(self, now: float) -> bool:
        """Whether the lane can be dropped: not closed, and no request runs, waits, or was sent in the last minute."""
        counts = self._out or len(self.queue) or (self._minute and self._minute[-1].at + MINUTE > now)
        return not counts and self._closed_until <= now

    def send(self, ticket: Ticket, now: float) -> None:
        """Count a request as sent."""
        ticket.at = now
        self._out += 1
        self._minute.append(ticket)

    def take_back(self, ticket: Ticket) -> None:
        """Count a request no more that was to be sent, and never reached the provider."""
        self._out -= 1
        self._minute.remove(ticket)

    def release(self, ticket: Ticket, tokens: int | None) -> None:
        """Note that a request has ended, and the tokens it used, if known."""
        self._out -= 1
        if tokens is not None:
            ticket.tokens = tokens

    def close(self, until: float) -> None:
        """Send no request before the given time, as the provider asked."""
        self._closed_until = max(self._closed_until, until)

    def room_at(self, ticket: Ticket, now: float) -> float:
        """Return when *ticket* may be sent; infinity if that depends on the end of a running request."""
        limit, minute = self._limit, self._minute
        while minute and minute[0].at + MINUTE <= now:
            minute.popleft()
        if limit.concurrency is not None and self._out >= limit.concurrency:
            return math.inf
        free_at = max(now, self._closed_until)
        if limit.requests_per_minute is not None and len(minute) >= limit.requests_per_minute:
            free_at = max(free_at, minute[len(minute) - limit.requests_per_minute].at + MINUTE)
        if limit.tokens_per_minute is not None:
            # A request larger than the whole limit is sent when nothing else was sent for a minute.
            spent = sum(other.tokens for other in minute)
            for other in minute:
                if spent + ticket.tokens <= limit.tokens_per_minute:
                    break
                spent -= other.tokens
                free_at = max(free_at, other.at + MINUTE)
        return free_at


class SendRequest(Protocol):
    """Interface: sends a request when limits allow it.

    `RequestSpending.stream` calls `ReservedRequest.stream`, and that `ProviderLimits.stream`: a request begins with the
    first that its session needs.
    """

    async def __call__(
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
        return sum([len(lane.queue) for lane in self._lanes.values()])

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
        ticket = Ticket(read_tokens(request))
        waiter = lane.queue.join(session_id, partial(self._look, key, lane, ticket), (key,))
        # Whoever is cancelled now has used nothing, and keeps up nobody:
        # tests/runtime/test_limits.py::test_whoever_is_cancelled_before_its_request_goes_out_has_used_nothing
        await lane.queue.wait(waiter, partial(lane.take_back, ticket))
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
            lane.queue.look()

    def waiting_of(self, session_id: str) -> int:
        """Return the number of waiting requests of one session."""
        return sum(lane.queue.waiting_of(session_id) for lane in self._lanes.values())

    def _key(self, request: ModelRequest) -> Key | None:
        """Return the key of the lane for *request*, `None` if its provider has no limit."""
        provider = request.model.partition(":")[0]
        if provider not in self._limits:
            return None
        return provider, *[_account_part(request.options.get(option)) for option in ACCOUNT]

    def _lane(self, key: Key) -> Lane:
        """Return the lane of *key*, made if needed; drop unused lanes if there are too many."""
        lane = self._lanes.get(key)
        if lane is None:
            if len(self._lanes) >= MAX_RESTING:
                now = self._timers.clock.now()
                self._lanes = {other: lane for other, lane in self._lanes.items() if not lane.rests(now)}
            lane = self._lanes[key] = Lane(self._limits[key[0]])
        return lane

    def _look(self, key: Key, lane: Lane, ticket: Ticket) -> Key | None:
        """Send *ticket* if the lane has room; else return *key*, and have all look again when there is room."""
        now = self._timers.clock.now()
        room_at = lane.room_at(ticket, now)
        if room_at <= now:
            lane.send(ticket, now)
            return None
        if room_at < math.inf:
            self._timers.set(("", f"limit of {key}"), room_at, lane.queue.look)
        return key
