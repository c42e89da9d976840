"""`ReservedRequest`: a request to a model that is sent once money of the session's tenant is reserved for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from agentrail.core.vocabulary.state import State
from agentrail.ports.model import EmitChunk, Model, PriceBook
from agentrail.ports.money import SpendingLimit
from agentrail.runtime.actor.request_limits import own_window
from agentrail.runtime.shared.provider_limits import SendRequest, nobody
from agentrail.runtime.work.reservations import SizedHistory, most_usd_of
from agentrail.values.stream import ModelRequest, Response, estimate_usage
from agentrail.values.usage import Usage


class ReservedRequest:
    """A request of the session in *state* with *history*, for which *limit* reserves money.

    *used* returns the usage of the request so far, as it counts if the request is cut.
    """

    __slots__ = ("_history", "_limit", "_prices", "_send", "_state", "_used")

    def __init__(
        self,
        limit: SpendingLimit,
        state: State,
        history: SizedHistory,
        prices: PriceBook,
        used: Callable[[], Usage],
        send: SendRequest,
    ) -> None:
        self._limit = limit
        self._state = state
        self._history = history
        self._prices = prices
        self._used = used
        self._send = send

    async def stream(
        self, session_id: str, model: Model, request: ModelRequest, emit: EmitChunk, sent: Callable[[], None] = nobody
    ) -> Response:
        """Reserve the most that *request* can cost, send it, and settle what it has cost; return the response."""
        prices, used = self._prices, self._used
        most_usd = most_usd_of(request, own_window(self._state, request), prices, self._history.is_counted)
        expense = await self._limit.reserve(self._state.setup.tenant, session_id, request.model, most_usd)
        try:
            response = await self._send(session_id, model, request, emit, sent)
            # a model that counts nothing, as one of a user may, is not free
            counted = estimate_usage(response, request) if response.usage.is_nothing else response
            used = partial(prices.priced, request.model, request.options, counted.usage)
        finally:
            self._limit.settle(expense, used().spent_usd)
        return response
