"""Which model the terminal talks to if nobody says: one of the first provider whose key is in the environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from agentrail.adapters.models.providers import PROVIDERS

DEMO: Final = "demo"

USUAL: Final = (
    "anthropic:claude-sonnet-5",
    "openai:gpt-5.4",
    "gemini:gemini-flash-latest",
    "mistral:mistral-large-latest",
    "deepseek:deepseek-chat",
    "openrouter:openrouter/auto",
)
"""The models, one of each provider, in the order in which their keys are looked for."""


def usual_model(look_up: Callable[[str], str | None]) -> str:
    """Return the first of `USUAL` whose key *look_up* finds; without any key, the demo, which is offline."""
    return next((name for name in USUAL if has_key(name, look_up)), DEMO)


def has_key(model: str, look_up: Callable[[str], str | None]) -> bool:
    """Whether *look_up* finds a customary key of the provider of *model*."""
    provider = model.partition(":")[0]
    return any((look_up(key) or "").strip() for key in PROVIDERS[provider].keys)
