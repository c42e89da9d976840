"""Which agent a subcommand means: its options, the environment and the settings of the folder say so."""

from __future__ import annotations

from pathlib import Path

from agentrail.cli.agent_source import NO_CONFIG, AgentSource
from agentrail.cli.default_agent import Mode
from agentrail.cli.project_settings import ProjectSettings
from agentrail.cli.setting_order import chosen_mode, chosen_model


def chosen_source(
    folder: Path,
    file: Path | None,
    name: str,
    model: str | None,
    mode: Mode | None,
    settings: ProjectSettings | None,
    *,
    has_config: bool = True,
) -> AgentSource:
    """Return the agent in the *file* that has this *name*, or the one of the command line."""
    place = str(folder.resolve())
    if file is not None:
        return AgentSource(place, str(file.resolve()), name, model or "")
    found_mode = chosen_mode(mode, settings)
    return AgentSource(
        place, model=chosen_model(model, settings), config="" if has_config else NO_CONFIG, mode=found_mode or ""
    )
