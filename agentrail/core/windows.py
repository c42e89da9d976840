"""Context windows: how many tokens a model can read, by the name of the model."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Final

ASSUMED: Final = 32_000
"""The window that is assumed of a model that has no row, in tokens, unless the option `context_window` says it."""

BY_HAND: Final[Mapping[str, Mapping[int, str]]] = {
    # They read any number of words; a window keeps their sessions from growing without end.
    "demo": {1_000_000: ""},
    "scripted": {1_000_000: ""},
    # platform.claude.com/docs/en/about-claude/models, 2026-11-22
    "anthropic": {
        100_000: "claude-instant claude-v1",
        200_000: "claude-3 claude-haiku-4-5 claude-opus-4-0 claude-opus-4-2 claude-sonnet-4-0 claude-sonnet-4-2",
        1_000_000: "claude-fable- claude-mythos- claude-sonnet-5-5 claude-opus-5-5",
    },
    # ai.google.dev/gemini-api/docs/models, 2026-11-22
    "gemini": {
        8_192: "gemma-2",
        32_768: "gemini-1 learnlm",
        128_000: "gemini-live-2.5-flash gemini-3.1-flash-live-preview",
        131_072: "gemma gemma-3",
        1_048_576: ("gemini-2 gemini-2.5-pro gemini-2.5-flash-preview gemini-3-pro gemini-3.1-pro  gemini-pro-latest"),
    },
    # platform.openai.com/docs/models, 2026-11-22
    "openai": {
        4_096: "gpt-3",
        16_385: "gpt-3.5 ft:gpt-3.5-turbo",
        128_000: "chatgpt- ft:gpt-4o gpt-4.5-preview gpt-chat-latest",
        400_000: "gpt-5-chat gpt-5-search-api",
    },
    # docs.mistral.ai/getting-started/models, 2026-11-22
    "mistral": {
        32_000: "mistral-tiny open-mistral-7b open-mixtral-8x7b",
        128_000: (
            "mistral-large mistral-large-latest mistral-medium mistral-small pixtral magistral devstral ministral "
            "open-mistral-nemo"
        ),
    },
    # openrouter.ai/models, 2026-11-22: the router chooses among models, and those for long texts begin here
    "openrouter": {128_000: "openrouter/auto"},
    # console.groq.com/docs/models, 2026-11-22
    "groq": {131_072: "llama-3 llama3"},
}
"""Windows that the printed table lacks, with source and date, in the same form; a printed row of that name counts."""

SAME: Final = {"openai-chat": "openai"}
"""Providers that have the models of another one."""


@cache
def _rows(provider: str) -> Mapping[str, int]:
    """Return the windows of the models of *provider* by the beginnings of their names."""
    from agentrail.core.printed_windows import PRINTED  # noqa: PLC0415 - 18 kB, which many programs never need

    rows: dict[str, int] = {}
    for table in (BY_HAND, PRINTED):
        for window, names in table.get(provider, {}).items():
            rows.update(dict.fromkeys(names.split() or ("",), window))
    return rows


@lru_cache(maxsize=1000)
def window_of(model: str) -> int | None:
    """Return how many tokens *model* can read; `None` if no row has its name, or the beginning of it."""
    provider, _, name = model.partition(":")
    rows = _rows(SAME.get(provider, provider))
    return next((rows[name[:length]] for length in range(len(name), -1, -1) if name[:length] in rows), None)
