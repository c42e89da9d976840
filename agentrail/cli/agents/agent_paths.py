"""`hidden_from`: what the agent of a session is not shown, by tools, by `@` in a prompt or by a link."""

from __future__ import annotations

import trio

from agentrail.app.session_code import hidden_by
from agentrail.app.spec import SessionSpec
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.errors import AgentrailError
from agentrail.plugins.shell.guarded_paths import BLOCKED_PATHS


async def hidden_from(agent: str) -> tuple[str, ...]:
    """Return the patterns of what a sandbox hides from the agent with the id *agent*; if unknown, the usual ones."""
    source = AgentSource.read(agent)
    if source is None:
        return BLOCKED_PATHS
    try:
        spec = (await trio.to_thread.run_sync(source.profile)).spec
    except AgentrailError:  # its settings or its file have been broken since; whoever starts it is told
        return BLOCKED_PATHS
    return hidden_by(spec) if isinstance(spec, SessionSpec) else BLOCKED_PATHS
