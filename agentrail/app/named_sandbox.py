"""The sandbox that a person names as `ENGINE:IMAGE`: commands of the agent run in a container of that image."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, cast

from agentrail.adapters.sandboxes.containers.container_sandbox import ENGINES, NAME, ContainerSandbox
from agentrail.adapters.sandboxes.containers.engine import EngineName
from agentrail.app.session_code import hidden_by
from agentrail.app.spec import SessionSpec
from agentrail.errors import BadSpec
from agentrail.values.untrusted_values import brief

EXAMPLES: Final = " or ".join(f"`{engine}:IMAGE`" for engine in ENGINES)


FROM_FUNCTION: Final = (
    "a sandbox was named, and its agent is built for each request by a function; give it a `ContainerSandbox` there"
)
"""What is wrong with a named sandbox for such an agent."""


def sandbox_problem(text: str) -> str:
    """Return why *text* names no sandbox; empty if it names one."""
    engine, _, image = text.partition(":")
    if engine in ENGINES and NAME.fullmatch(image):
        return ""
    return f"{brief(text)} names no image of an engine; give {EXAMPLES}"


def sandbox_named(text: str, folder: Path, hidden: Iterable[str], network: str = "none") -> ContainerSandbox:
    """Return the sandbox that *text* names, for *folder*, of which the paths *hidden* are not mounted."""
    engine, _, image = text.partition(":")
    return ContainerSandbox(
        image, engine=cast("EngineName", engine), folder=folder, network=network, hidden=hidden, snapshots=True
    )


def in_container(spec: SessionSpec, text: str) -> SessionSpec:
    """Return the agent of a file, *spec*, with the sandbox that *text* names; as it is if *text* is empty.

    Raise `BadSpec` if it, or one of its agents, has a sandbox already: its commands would run elsewhere.
    """
    if not text:
        return spec
    if (name := _with_sandbox(spec, "")) is not None:
        of_agent = f" of its agent `{name}`" if name else ""
        raise BadSpec("sandbox", f"{of_agent} is there already, and {text} was named; leave out one of them".strip())
    return spec.but(sandbox=sandbox_named(text, Path(spec.working_dir), hidden_by(spec)))


def _with_sandbox(spec: SessionSpec, name: str) -> str | None:
    """Return the name of the agent in *spec*, itself called *name*, that has a sandbox; `None` if none has."""
    if spec.sandbox is not None:
        return name
    names = (_with_sandbox(agent, agent_name) for agent_name, agent in spec.agents.items())
    return next((found_name for found_name in names if found_name is not None), None)
