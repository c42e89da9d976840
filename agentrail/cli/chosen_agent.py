"""Which agent a subcommand means: its options, the environment and the settings of the folder say so."""

from __future__ import annotations

from pathlib import Path

from agentrail.cli.agent_source import NO_CONFIG, AgentSource
from agentrail.cli.chat_options import ChatOptions
from agentrail.cli.project_settings import ProjectSettings
from agentrail.cli.setting_order import chosen_mode, chosen_model
from agentrail.cli.trust_store import settings_of


def counts_settings(options: ChatOptions) -> bool:
    """Whether the settings of the folder apply; they do not if the agent is in a file, which has its own settings."""
    return options.has_config and options.file is None and not options.has_samples


def settings_for(options: ChatOptions, folder: Path) -> ProjectSettings | None:
    """Return the settings of *folder*, `None` if they do not apply; raise `BadInputError` if invalid or not allowed."""
    return settings_of(folder) if counts_settings(options) else None


def source_of(options: ChatOptions, folder: Path) -> AgentSource:
    """Return the agent that the options name, working in *folder*; raise `BadInputError` as `settings_for` does."""
    if options.file is not None:
        return AgentSource(str(folder), str(options.file), options.name, options.model or "")
    settings = settings_for(options, folder)
    return AgentSource(
        str(folder),
        model=chosen_model(options.model, settings),
        config="" if options.has_config else NO_CONFIG,
        mode=chosen_mode(options.mode, settings) or "",
    )
