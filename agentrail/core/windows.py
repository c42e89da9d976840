"""Context windows: how many tokens a model can read, by the name of the model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Final, NamedTuple

ASSUMED: Final = 32_000
"""The window that is assumed of a model that has no row, in tokens, unless the option `context_window` says it."""

LOOKED_UP: Final = "2026-11-22"
"""The date on which the rows of `BY_HAND` were looked up.

They were compared with models.dev (as of 2026-07-02) and the table of LiteLLM (2026-08-06). Where those differ, a row
has the smaller figure, because a window that is too large ends in refused requests.
"""


class ByHand(NamedTuple):
    """A window that the printed table lacks, for all models whose names begin with one of some texts."""

    provider: str
    """The provider; models of the built-in offline models have their own."""
    window: int
    """Tokens that the models can read."""
    names: str
    """How the names of the models begin, with a space between; if empty, all models of the provider."""
    source: str
    """URL of the provider's page on the models; empty for offline models."""
    confirmed: bool = True
    """Whether the figure was found; `False`: not confirmed, and the smallest of what was found is taken."""


_CLAUDE: Final = "https://platform.claude.com/docs/en/about-claude/models/overview"
_GEMINI: Final = "https://ai.google.dev/gemini-api/docs/models"
_GEMMA: Final = "https://ai.google.dev/gemma/docs/core"
_GPT: Final = "https://platform.openai.com/docs/models"
_MISTRAL: Final = "https://docs.mistral.ai/getting-started/models/models_overview"
_GROQ: Final = "https://console.groq.com/docs/models"

BY_HAND: Final = (
    # They read any number of words; a window keeps their sessions from growing without end.
    ByHand("demo", 1_000_000, "", ""),
    ByHand("scripted", 1_000_000, "", ""),
    ByHand("anthropic", 9_000, "claude-instant", _CLAUDE, confirmed=False),
    ByHand("anthropic", 200_000, "claude-3", _CLAUDE),
    ByHand("anthropic", 1_000_000, "claude-fable- claude-mythos-", _CLAUDE),
    ByHand("gemini", 30_720, "gemini-1", _GEMINI, confirmed=False),
    ByHand("gemini", 128_000, "gemini-2.5-computer-use", "https://ai.google.dev/gemini-api/docs/computer-use"),
    ByHand("gemini", 1_048_576, "gemini-2 gemini-3-pro gemini-3.1-pro gemini-pro-latest", _GEMINI),
    ByHand("gemini", 32_767, "learnlm", _GEMINI),
    ByHand("gemini", 8_192, "gemma", _GEMMA),
    ByHand("gemini", 32_768, "gemma-3-1b gemma-3-270m gemma-3n", _GEMMA),
    ByHand("gemini", 131_072, "gemma-3", _GEMMA),
    ByHand("openai", 4_096, "gpt-3 ft:gpt-3.5-turbo-0613", f"{_GPT}/gpt-3.5-turbo"),
    ByHand("openai", 16_385, "ft:gpt-3.5-turbo", f"{_GPT}/gpt-3.5-turbo"),
    ByHand("openai", 128_000, "chatgpt- ft:gpt-4o gpt-5-chat gpt-5.1-chat gpt-5.2-chat", _GPT),
    ByHand("openai", 128_000, "gpt-5-search-api", f"{_GPT}/gpt-5-search-api", confirmed=False),
    ByHand("openai", 1_047_576, "ft:gpt-4.1", f"{_GPT}/gpt-4.1"),
    ByHand("mistral", 8_000, "open-mistral-7b", _MISTRAL),
    ByHand(
        "mistral", 32_000, "mistral-tiny open-mixtral-8x7b mistral-large-2402 mistral-medium mistral-small", _MISTRAL
    ),
    ByHand("mistral", 40_000, "magistral", "https://mistral.ai/news/magistral"),
    ByHand("mistral", 64_000, "open-mixtral-8x22b", _MISTRAL),
    ByHand("mistral", 128_000, "devstral ministral mistral-large open-mistral-nemo pixtral", _MISTRAL),
    ByHand("mistral", 128_000, "mistral-small-2503 mistral-small-2506 mistral-small-latest", _MISTRAL),
    ByHand("mistral", 131_072, "mistral-medium-2505 mistral-medium-2508", _MISTRAL),
    ByHand("mistral", 256_000, "devstral-latest devstral-medium-latest devstral-small-latest", _MISTRAL),
    ByHand("mistral", 262_144, "mistral-large-latest mistral-medium-latest", _MISTRAL),
    # The router chooses among models of which those for long texts begin here; the tables say 2,000,000.
    ByHand("openrouter", 128_000, "openrouter/auto", "https://openrouter.ai/openrouter/auto"),
    ByHand("groq", 8_192, "llama3", _GROQ, confirmed=False),
    ByHand("groq", 128_000, "llama-3.1 llama-3.3", _GROQ),
)
"""Windows that the printed table lacks; a printed row of the same name counts."""

SAME: Final = {"openai-chat": "openai"}
"""Providers that have the models of another one."""


@cache
def _rows(provider: str) -> Mapping[str, int]:
    """Return the windows of the models of *provider* by the beginnings of their names."""
    from agentrail.core.printed_windows import PRINTED  # noqa: PLC0415 - 18 kB, which many programs never need

    rows: dict[str, int] = {}
    for by_hand in BY_HAND:
        if by_hand.provider == provider:
            rows.update(dict.fromkeys(by_hand.names.split() or ("",), by_hand.window))
    for window, names in PRINTED.get(provider, {}).items():
        rows.update(dict.fromkeys(names.split(), window))
    return rows


@lru_cache(maxsize=1000)
def window_of(model: str) -> int | None:
    """Return how many tokens *model* can read; `None` if no row has its name, or the beginning of it."""
    provider, _, name = model.partition(":")
    rows = _rows(SAME.get(provider, provider))
    return next((rows[name[:length]] for length in range(len(name), -1, -1) if name[:length] in rows), None)
