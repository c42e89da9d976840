"""Which agent a subcommand means: its options, the environment and the settings of the folder say so."""

from __future__ import annotations

from pathlib import Path

from agentrail.cli.agent_source import NO_CONFIG, AgentSource
from agentrail.cli.chat_options import ChatOptions
from agentrail.cli.project_settings import ProjectSettings
from agentrail.cli.setting_order import chosen_mode, chosen_model
from agentrail.cli.trust_store import Ask, nobody_to_ask, settings_of


def settings_for(options: ChatOptions, folder: Path, ask: Ask = nobody_to_ask) -> ProjectSettings | None:
    """Return the settings of *folder*, `None` if they do not apply; raise `BadInputError` as `settings_of` does."""
    has_own = options.agent is not None or options.has_samples
    return settings_of(folder, ask) if options.has_config and not has_own else None


def source_of(options: ChatOptions, folder: Path) -> AgentSource:
    """Return the agent that the options name, working in *folder*; raise `BadInputError` as `settings_for` does."""
    return source_with(options, folder, settings_for(options, folder))


def source_with(options: ChatOptions, folder: Path, settings: ProjectSettings | None) -> AgentSource:
    """Return the agent that the options name, working in *folder*, whose *settings* were read before."""
    if options.agent is not None:
        return AgentSource(str(folder), str(options.agent.file.resolve()), options.agent.name, options.model or "")
    return AgentSource(
        str(folder),
        model=chosen_model(options.model, settings),
        config="" if options.has_config else NO_CONFIG,
        mode=chosen_mode(options.mode, settings) or "",
    )
