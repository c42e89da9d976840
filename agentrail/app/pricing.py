"""What a session's models cost: by its own prices, by what the provider says, by what is published, in this order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from agentrail.adapters.published_prices import published_cost
from agentrail.runtime.shared.sanitize import traced
from agentrail.values.foreign import money, pass_interrupt, shown
from agentrail.values.json import JsonObject
from agentrail.values.usage import Price, Usage

log = logging.getLogger("agentrail.prices")

PriceFunction: TypeAlias = Callable[[str, Usage], float | None]
"""Returns what some usage of the model of a name costs, in US dollars; `None`: it does not know."""

Prices: TypeAlias = Mapping[str, Price] | PriceFunction
"""Prices of one's own: by the names of models, or a function."""

ANY: Final = Usage(1, 1)
"""Some usage, to see whether there is a price."""


class PriceList:
    """Knows what a session's models cost."""

    __slots__ = ("_own",)

    def __init__(self, own: Prices) -> None:
        self._own = own

    def knows(self, model: str, options: JsonObject) -> bool:
        """Whether the price of *model* with *options* is known."""
        return self._cost(model, options, ANY) is not None

    def priced(self, model: str, options: JsonObject, usage: Usage) -> Usage:
        """Return *usage* with its cost."""
        if usage.is_nothing:
            return usage
        cost = self._cost(model, options, usage)
        return usage if cost == usage.cost_usd else usage.but(cost_usd=cost)

    def _cost(self, model: str, options: JsonObject, usage: Usage) -> float | None:
        own = self._own_cost(model, usage)
        if own is not None:
            return own
        if usage.cost_usd is not None or options.get("base_url"):
            return usage.cost_usd  # at an address of one's own, nobody has published a price
        return published_cost(model, usage)

    def _own_cost(self, model: str, usage: Usage) -> float | None:
        try:
            if callable(self._own):
                found: object = self._own(model, usage)
            else:
                price = self._own.get(model)
                found = None if price is None else price.cost(usage)
        except BaseException as error:  # noqa: BLE001, ASYNC103 - whatever it is, only this price is not known
            pass_interrupt(error)
            log.error("the price of `%s` cannot be told: %s", model, traced(error))  # noqa: TRY400 - its words may be anything
            return None  # noqa: ASYNC104 - see above
        return as_cost(found, model)


def as_cost(found: object, model: str) -> float | None:
    """Return what a function of prices has returned, if it is a cost."""
    if found is None:
        return None
    cost = money(found)
    if cost is None:
        log.error("the price of `%s` cannot be told: %s is no cost", model, shown(found))
    return cost
