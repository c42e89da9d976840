"""Prices from `genai-prices` (extra `prices`): what is published, as of the package's release; nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentrail.values.usage import Usage

PACKAGE: Final = "genai_prices"
"""The package that knows the prices."""

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
"""Our providers' names, and what the package calls them; the models of all others have no price."""


def published_cost(model: str, usage: Usage) -> float | None:
    """Return what *usage* of *model* costs by the published prices; `None` if it is not known, or not installed."""
    provider, _, name = model.partition(":")
    theirs = PROVIDERS.get(provider)
    if theirs is None:
        return None
    try:
        import genai_prices  # noqa: PLC0415 - an extra, and it takes 0.3 s
    except ModuleNotFoundError:
        return None
    counted = genai_prices.Usage(
        input_tokens=max(usage.input_tokens, usage.cached_tokens + usage.cache_write_tokens),  # it refuses less
        cache_read_tokens=usage.cached_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        return float(genai_prices.calc_price(counted, name, provider_id=theirs).total_price)
    except LookupError:
        return None
