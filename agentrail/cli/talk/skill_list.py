"""`skill_rows`: the skills that an agent of the command line finds now, for `/skills`."""

from __future__ import annotations

from functools import partial

import trio

from agentrail.adapters.sandboxes.local import LocalSandbox
from agentrail.app.session_code import hidden_by
from agentrail.app.spec import SessionSpec
from agentrail.app.spec_files import outside
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.output.screen import clipped, one_line
from agentrail.cli.talk.rendering import SHORT
from agentrail.tools.skills.folder_scan import find_skills, skill_folders_of


async def skill_rows(agent: str) -> list[str]:
    """Return lines about the skills of the agent with the id *agent*, those that it hides and those that are invalid.

    A session lists in its prompt those that there were when it began, or came back.
    """
    source = AgentSource.read(agent)
    spec = None if source is None else (await trio.to_thread.run_sync(source.profile)).spec
    if not isinstance(spec, SessionSpec):
        return []
    sandbox_at = partial(LocalSandbox, hidden=hidden_by(spec))
    sandbox = spec.sandbox or sandbox_at(spec.working_dir)
    folders = skill_folders_of(spec.skills, sandbox, outside(spec.skills, sandbox_at))
    skills = await find_skills(folders)
    width = max((len(skill.name) for skill in skills.found), default=0)
    return [
        *(f"  {skill.name:{width}}  {clipped(one_line(skill.description), SHORT)}" for skill in skills.found),
        *(f"  hidden by a later one: {skill.folder}" for skill in skills.shadowed),
        *(f"  not valid: {left_out.path}: {left_out.why}" for left_out in skills.left_out),
    ]
