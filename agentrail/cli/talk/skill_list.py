"""The skills that an agent of the command line finds now: the commands `/NAME`, and the rows of `/skills`."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial

import trio

from agentrail.adapters.sandboxes.local import LocalSandbox
from agentrail.app.session_code import hidden_by
from agentrail.app.spec import SessionSpec
from agentrail.app.spec_files import outside
from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.output.screen import clean, clipped, escaped, one_line
from agentrail.cli.talk.rendering import SHORT
from agentrail.tools.skills.folder_scan import Skills, find_skills, skill_folders_of


async def skills_of(agent: str) -> Skills:
    """Return the skills that the agent with the id *agent* finds now; none if it cannot be read here."""
    source = AgentSource.read(agent)
    spec = None if source is None else (await trio.to_thread.run_sync(source.profile)).spec
    if not isinstance(spec, SessionSpec):
        return Skills()
    sandbox_at = partial(LocalSandbox, hidden=hidden_by(spec))
    sandbox = spec.sandbox or sandbox_at(spec.working_dir)
    return await find_skills(skill_folders_of(spec.skills, sandbox, outside(spec.skills, sandbox_at)))


def offered_skills(skills: Skills, others: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield the command and the description of each skill that the user may begin; *others* are commands there are."""
    for skill in skills.found:
        if skill.for_user and f"/{skill.name}" not in others:
            yield f"/{skill.name}", clipped(f"skill: {one_line(clean(skill.description))}", SHORT)


def skill_rows(skills: Skills) -> list[str]:
    """Return lines about *skills*, those that are hidden and those that are invalid.

    A session lists in its prompt those that there were when it began, or came back.
    """
    width = max((len(skill.name) for skill in skills.found), default=0)
    return [
        *(f"  {skill.name:{width}}  {clipped(one_line(clean(skill.description)), SHORT)}" for skill in skills.found),
        *(f"  hidden by a later one: {escaped(skill.folder)}" for skill in skills.shadowed),
        *(f"  not valid: {escaped(left_out.path)}: {escaped(left_out.why)}" for left_out in skills.left_out),
    ]
