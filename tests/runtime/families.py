"""Sessions with sub-agents, for tests of the shell."""

from collections.abc import Iterable

from agentrail import SessionSpec
from agentrail.ports.model import Model
from agentrail.runtime.handle import SessionHandle
from agentrail.testing import ScriptedModel, call, say
from agentrail.testing.scripted import Element
from agentrail.values.events import SubAgentEvent
from agentrail.values.events.envelope import Event
from agentrail.values.json import Json
from agentrail.values.usage import NOTHING_USED, Usage
from tests.runtime.world import World


def agent(script: Iterable[Element] | Model = (), name: str = "child", **spec: object) -> SessionSpec:
    """What a sub-agent is made of: what it says, and the rest of its spec."""
    model = ScriptedModel(script, name=name) if isinstance(script, Iterable) else script
    return SessionSpec(model=model, description="Finds things.", **spec)  # type: ignore[arg-type]  # a test may give any field


def task(agent: str = "finder", prompt: str = "find it", *, usage: Usage = NOTHING_USED, **more: Json) -> Element:
    """A response that asks for one task."""
    return say(calls=[call("task", {"agent": agent, "description": "look", "prompt": prompt, **more})], usage=usage)


def tasks(*agents: str) -> Element:
    """A response that asks for several tasks."""
    wanted = [call("task", {"agent": name, "description": "look", "prompt": f"go, {name}"}) for name in agents]
    return say(calls=wanted)


def inner(world: World, session: SessionHandle) -> list[Event]:
    """What a session has told of its sub-agents."""
    return [event.event for event in world.heard(session).of(SubAgentEvent)]


def ids(world: World) -> list[str]:
    """Who lives."""
    return [session.id for session in world.supervisor.sessions()]
