"""The cost of requests: by the session's own prices, else as the provider's answer says, else by published prices."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from agentrail.adapters.published_prices import is_at_azure, published_cost
from agentrail.runtime.shared.untrusted_calls import traced
from agentrail.values.json import JsonObject
from agentrail.values.untrusted_values import as_usd, brief, pass_interrupt
from agentrail.values.usage import Price, Usage

log = logging.getLogger("agentrail.prices")

PriceFunction: TypeAlias = Callable[[str, Usage], float | None]
"""A user's function from a model's name and a usage to the cost in US dollars; `None` if the price is not known."""

Prices: TypeAlias = Mapping[str, Price] | PriceFunction
"""The user's own prices: a mapping from names of models, or a function."""

ANY: Final = Usage(1, 1)
"""A usage of one input and one output token, to find out whether a price is known."""


class PriceList:
    """Adds costs to the usage of a session's models; see the module for where prices come from."""

    __slots__ = ("_own",)

    def __init__(self, prices: Prices) -> None:
        self._own = prices

    def knows(self, model: str, options: JsonObject) -> bool:
        """Whether the price of *model* with *options* is known."""
        return self._cost(model, options, ANY) is not None

    def priced(self, model: str, options: JsonObject, usage: Usage) -> Usage:
        """Return *usage* with its cost, or with `None` as the cost if the price is not known."""
        if usage.is_nothing:
            return usage
        cost = self._cost(model, options, usage)
        return usage if cost == usage.cost_usd else usage.but(cost_usd=cost)

    def _cost(self, model: str, options: JsonObject, usage: Usage) -> float | None:
        """Return the cost of *usage*: by the session's prices, the provider's answer, or published prices."""
        own_cost = self._own_cost(model, usage)
        if own_cost is not None:
            return own_cost
        base_url = options.get("base_url")
        if usage.cost_usd is not None or (base_url and not is_at_azure(model, base_url)):
            return usage.cost_usd  # a server of the user's own has other prices than the published ones
        return published_cost(model, usage)

    def _own_cost(self, model: str, usage: Usage) -> float | None:
        """Return the cost by the session's own prices; `None` if they do not give one."""
        try:
            if callable(self._own):
                cost: object = self._own(model, usage)
            else:
                price = self._own.get(model)
                cost = None if price is None else price.cost(usage)
        except BaseException as error:  # noqa: BLE001, ASYNC103 - a user's function may raise anything; only this price is then unknown
            pass_interrupt(error)
            log.error("the price of `%s` is unknown: %s", model, traced(error))
            return None  # noqa: ASYNC104 - the price is unknown then
        return as_cost(cost, model)


def as_cost(value: object, model: str) -> float | None:
    """Return *value*, the result of a user's price function, as a cost; log it and return `None` if it is no cost."""
    if value is None:
        return None
    cost = as_usd(value)
    if cost is None:
        log.error("the price of `%s` is unknown: %s is no cost", model, brief(value))
    return cost
