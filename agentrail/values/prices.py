"""What tokens of a model cost."""

from __future__ import annotations

from typing import Final

from agentrail.values.usage import Usage
from agentrail.values.value import Authored, value

MILLION: Final = 1_000_000


@value
class Price(Authored):
    """The price of one model, in US dollars for a million tokens."""

    input: float
    """Tokens that it reads."""
    output: float
    """Tokens that it writes, reasoning included."""
    cached: float | None = None
    """Tokens that it reads from the provider's cache; `None`: as much as others."""
    cache_write: float | None = None
    """Tokens that are put into the provider's cache; `None`: as much as others."""

    def cost(self, usage: Usage) -> float:
        """Return what *usage* costs, in US dollars."""
        plain = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        cached = self.input if self.cached is None else self.cached
        written = self.input if self.cache_write is None else self.cache_write
        return (
            max(0, plain) * self.input
            + usage.cached_tokens * cached
            + usage.cache_write_tokens * written
            + usage.output_tokens * self.output
        ) / MILLION
