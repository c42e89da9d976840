"""The agent that the command line has if none is named: its model, by the keys in the environment, and its tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from agentrail.adapters.models.providers import PROVIDERS
from agentrail.app.spec import SessionSpec
from agentrail.cli.console_tools import ASK_FIRST, terminal_tools
from agentrail.plugins.approval import HumanApproval

STOP_WITHIN: Final = 3.0
"""The most seconds that the program may take to end; short, because a person waits."""
SYSTEM: Final = "You help in a terminal. You have tools for the files of one folder; use them rather than guess."
DEMO: Final = "demo"

USUAL: Final = (
    "anthropic:claude-sonnet-5",
    "openai:gpt-5.4",
    "gemini:gemini-flash-latest",
    "mistral:mistral-large-latest",
    "deepseek:deepseek-chat",
    "openrouter:openrouter/auto",
)
"""The default models, one of each provider, in the order in which API keys are looked for."""


def usual_model(look_up: Callable[[str], str | None]) -> str:
    """Return the first model of `USUAL` for which *look_up* finds an API key; without any, the offline demo model."""
    return next((name for name in USUAL if has_key(name, look_up)), DEMO)


def has_key(model: str, look_up: Callable[[str], str | None]) -> bool:
    """Whether *look_up* finds a usual API key of the provider of *model*."""
    provider = model.partition(":")[0]
    return any((look_up(key) or "").strip() for key in PROVIDERS[provider].keys)


def spec_for(model: str, folder: Path) -> SessionSpec:
    """Return the specification of the session to talk to."""
    return SessionSpec(
        model=model,
        tools=terminal_tools(),
        plugins=(HumanApproval(tools=ASK_FIRST, safe_commands=(), timeout=None),),
        system=SYSTEM,
        working_dir=str(folder),
    )
