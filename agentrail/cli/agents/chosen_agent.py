"""Which agent a subcommand means: its options, the environment and the settings of the folder say so."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from agentrail.app.spec import SessionSpec, check_spec
from agentrail.cli.agents.agent_source import NO_CONFIG, AgentSource
from agentrail.cli.chat_options import ChatOptions
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.settings.project_settings import ProjectSettings
from agentrail.cli.settings.setting_order import chosen_mode, chosen_model, chosen_sandbox
from agentrail.cli.trust.allowed_code import unguarded
from agentrail.cli.trust.trust_store import settings_of

BUILT_FOR_REQUESTS: Final = "its agent is built for each request by a function, so it has no tools and plugins before"


def source_of(options: ChatOptions, folder: Path) -> AgentSource:
    """Return the agent that the options name, working in *folder*; raise `BadInputError` as `settings_of` does."""
    return source_with(options, folder, settings_of(folder) if options.obeys_folder else None)


def source_with(options: ChatOptions, folder: Path, settings: ProjectSettings | None) -> AgentSource:
    """Return the agent that the options name, working in *folder*, whose *settings* were read before."""
    if options.agent is not None:
        file, name = str(options.agent.file.resolve()), options.agent.name
        sandbox = chosen_sandbox(options.sandbox, None)
        return AgentSource(str(folder), file, name, options.model or "", sandbox=sandbox)
    return AgentSource(
        str(folder),
        model=chosen_model(options.model, settings),
        config="" if options.has_config else NO_CONFIG,
        mode=chosen_mode(options.mode, settings) or "",
        sandbox=chosen_sandbox(options.sandbox, settings),
    )


def spec_of(options: ChatOptions) -> SessionSpec:
    """Return the specification of the agent that *options* name; if they name none, of the agent that `chat` uses.

    It has the plugins that its file or the settings give it, without the `AllowedCode` that each agent of the command
    line gets. Raise `BadInputError` if there is none.
    """
    spec = source_of(options, options.working_folder).profile().spec
    if not isinstance(spec, SessionSpec):
        raise BadInputError(f"{None if options.agent is None else options.agent.file.resolve()}: {BUILT_FOR_REQUESTS}")
    check_spec(spec)
    return unguarded(spec)
