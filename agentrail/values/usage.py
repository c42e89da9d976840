"""Tokens and money: the usage of a model, its price, and the rate limits of a provider."""

from __future__ import annotations

from typing import Final

from agentrail.errors import WrongType
from agentrail.values.untrusted_values import as_usd, brief, number
from agentrail.values.value import Authored, quick

LIMIT_WANTED: Final = "a whole number from 1 on, or None: no limit"
PRICE_WANTED: Final = "US dollars for a million tokens, from 0 on"


class Limit(Authored):
    """Rate limits of one provider, for each key, region and address; `None` means no limit."""

    concurrency: int | None = None
    """The most requests that may run at once; further ones wait."""
    requests_per_minute: int | None = None
    """The most requests sent within any 60 seconds; further ones wait."""
    tokens_per_minute: int | None = None
    """The most tokens, read and written, of the requests sent within any 60 seconds; further ones wait."""

    def __post_init__(self) -> None:
        """Raise `WrongType` if a figure is not valid as a limit."""
        for name in self.__struct_fields__:
            value: object = getattr(self, name)
            plain = number(value)
            if value is not None and (type(plain) is not int or plain < 1):
                raise WrongType(name, brief(value), LIMIT_WANTED)


class Usage(Authored):
    """Tokens and cost of a response, a turn or a session."""

    input_tokens: int = 0
    """Tokens read by the model, cached ones included."""
    output_tokens: int = 0
    """Tokens written by the model, reasoning included."""
    cached_tokens: int = 0
    """How many of the input tokens came from the provider's cache."""
    reasoning_tokens: int = 0
    """How many of the output tokens were reasoning."""
    cost_usd: float | None = None
    """Cost in US dollars; `None` if a price is unknown (never 0 for that), or nothing was used."""
    estimated: bool = False
    """Whether a part was estimated because the provider did not count it."""
    cache_write_tokens: int = 0
    """How many of the input tokens were written to the provider's cache; some providers charge more for them."""

    @property
    def total_tokens(self) -> int:
        """Sum of input and output tokens."""
        return self.input_tokens + self.output_tokens

    @property
    def is_nothing(self) -> bool:
        """Whether no tokens were used, so that the cost is surely zero."""
        counted = self.input_tokens or self.output_tokens or self.cached_tokens or self.reasoning_tokens
        return not counted and self.cost_usd is None and not self.estimated

    @property
    def spent_usd(self) -> float | None:
        """Cost in US dollars: 0 if no tokens were used; `None` if a price is unknown."""
        return 0.0 if self.is_nothing else self.cost_usd

    def plus(self, other: Usage) -> Usage:
        """Return the sum of this usage and *other*; its cost is unknown if one of the two is."""
        if self.is_nothing:
            return other
        if other.is_nothing:
            return self
        has_costs = self.cost_usd is not None and other.cost_usd is not None
        return _usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            (self.cost_usd or 0.0) + (other.cost_usd or 0.0) if has_costs else None,
            self.estimated or other.estimated,
            self.cache_write_tokens + other.cache_write_tokens,
        )

    def minus(self, earlier: Usage) -> Usage:
        """Return the usage since *earlier*, which is an earlier total of the same session."""
        if earlier is NOTHING_USED or earlier.is_nothing:
            return self
        has_costs = self.cost_usd is not None and earlier.cost_usd is not None
        return _usage(
            self.input_tokens - earlier.input_tokens,
            self.output_tokens - earlier.output_tokens,
            self.cached_tokens - earlier.cached_tokens,
            self.reasoning_tokens - earlier.reasoning_tokens,
            (self.cost_usd or 0.0) - (earlier.cost_usd or 0.0) if has_costs else None,
            self.estimated,
            self.cache_write_tokens - earlier.cache_write_tokens,
        )


_usage = quick(Usage)

NOTHING_USED = Usage()


def cost_text(usage: Usage, unknown: str = "cost unknown") -> str:
    """Return the cost of *usage* as people read it: in US dollars, or *unknown* if a price is unknown."""
    return unknown if usage.spent_usd is None else f"${usage.spent_usd:.4f}"


MILLION: Final = 1_000_000


class Price(Authored):
    """The price of one model, in US dollars for a million tokens."""

    input: float
    """US dollars for a million tokens read."""
    output: float
    """US dollars for a million tokens written, reasoning included."""
    cached: float | None = None
    """US dollars for a million tokens read from the provider's cache; `None` means the same as `input`."""
    cache_write: float | None = None
    """US dollars for a million tokens written to the provider's cache; `None` means the same as `input`."""

    def __post_init__(self) -> None:
        """Raise `WrongType` if a figure is not valid as a price."""
        for name in self.__struct_fields__:
            value: object = getattr(self, name)
            needed = name not in ("cached", "cache_write")
            if (needed or value is not None) and as_usd(value) is None:
                raise WrongType(name, brief(value), PRICE_WANTED)

    def cost(self, usage: Usage) -> float:
        """Return the cost of *usage* in US dollars."""
        plain = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
        cached = self.input if self.cached is None else self.cached
        cache_write = self.input if self.cache_write is None else self.cache_write
        return (
            max(0, plain) * self.input
            + usage.cached_tokens * cached
            + usage.cache_write_tokens * cache_write
            + usage.output_tokens * self.output
        ) / MILLION


class ContextUsage(Authored):
    """The size of a context that exceeds the aim of a compaction, and its largest parts, in estimated tokens."""

    tokens: int
    """The whole context."""
    target: int
    """What the compaction aimed at: `compact_to`."""
    system: int
    """The system prompt, with all its sections."""
    tools: int
    """The tools, and the form of the answer."""
    messages: int
    """The messages that are left: pinned prompts and the newest round, and what replaced others."""

    @property
    def told(self) -> str:
        """The largest parts of the context, as text."""
        return f"system prompt {self.system}, tools {self.tools}, messages that must stay {self.messages}"
