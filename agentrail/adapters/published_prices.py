"""Prices of the package `genai-prices` (extra `prices`): published ones, as of its release. Nothing is downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentrail.values.usage import Usage

PACKAGE: Final = "genai_prices"
"""The name of the package with the prices."""

PROVIDERS: Final[Mapping[str, str]] = {
    "anthropic": "anthropic",
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


def published_cost(model: str, usage: Usage) -> float | None:
    """Return the cost in US dollars of *usage* of *model*; `None` if there is no price or the package is missing."""
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
        return float(genai_prices.calc_price(counted, name, provider_id=theirs).total_price)
    except LookupError:
        return None
