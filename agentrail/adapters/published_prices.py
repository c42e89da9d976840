"""Prices of the package `genai-prices` (extra `prices`): published ones, as of its release. Nothing is downloaded."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from agentrail.values.json import Json
from agentrail.values.usage import Price, Usage

if TYPE_CHECKING:
    from decimal import Decimal

    from genai_prices.types import PriceCalculation, TieredPrices

PACKAGE: Final = "genai_prices"
"""The name of the package with the prices."""

PROVIDERS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
    "azure": "azure",
    "azure-chat": "azure",
    "bedrock": "aws",
    "vertex": "google",
    "openai": "openai",
    "openai-chat": "openai",
    "gemini": "google",
    "groq": "groq",
    "openrouter": "openrouter",
    "deepseek": "deepseek",
    "mistral": "mistral",
    "together": "together",
    "fireworks": "fireworks",
    "xai": "x-ai",
}
"""The names of providers in the package, by our names. The models of all other providers have no price."""


AT_AZURE: Final = re.compile(r"https://[a-z0-9-]+\.(?:openai|cognitiveservices|services\.ai)\.azure\.com(?:/.*)?")
"""The addresses of customers at Azure."""


def is_at_azure(model: str, base_url: Json) -> bool:
    """Whether *base_url* is only the address of a customer at Azure, where *model* costs what is published."""
    return PROVIDERS.get(model.partition(":")[0]) == "azure" and AT_AZURE.fullmatch(str(base_url)) is not None


def published_cost(model: str, usage: Usage) -> float | None:
    """Return the cost in US dollars of *usage* of *model*; `None` if there is no price or the package is missing."""
    calculation = _calculated(model, usage)
    return None if calculation is None else float(calculation.total_price)


def published_price(model: str) -> Price | None:
    """Return the price of *model* now; `None` if there is none or the package is missing.

    If the price is higher for long contexts, the one for short contexts is returned.
    """
    calculation = _calculated(model, Usage(1, 1))
    if calculation is None:
        return None
    prices = calculation.model_price
    input_, output = _dollars(prices.input_mtok), _dollars(prices.output_mtok)
    if input_ is None or output is None:
        return None
    return Price(input_, output, _dollars(prices.cache_read_mtok), _dollars(prices.cache_write_mtok))


def _calculated(model: str, usage: Usage) -> PriceCalculation | None:
    provider, _, name = model.partition(":")
    theirs = PROVIDERS.get(provider)
    if theirs is None:
        return None
    try:
        import genai_prices  # noqa: PLC0415 - an extra, and it takes 0.3 s
    except ModuleNotFoundError:
        return None
    counted = genai_prices.Usage(
        input_tokens=max(usage.input_tokens, usage.cached_tokens + usage.cache_write_tokens),  # fewer would raise
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        return genai_prices.calc_price(counted, name, provider_id=theirs)
    except LookupError:
        return None


def _dollars(price: Decimal | TieredPrices | None) -> float | None:
    from genai_prices.types import TieredPrices  # noqa: PLC0415 - as above

    if price is None:
        return None
    return float(price.base if isinstance(price, TieredPrices) else price)
