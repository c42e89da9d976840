"""Sessions with sub-agents, for tests of the runtime."""

from collections.abc import Iterable

from agentrail import SessionHandle, SessionSpec
from agentrail.events import Event, SubAgentEvent
from agentrail.models import Json, Model, Usage
from agentrail.testing import ScriptedModel, call, say
from tests.kit import NOTHING_USED, Element
from tests.runtime.world import World


def agent(script: Iterable[Element] | Model = (), name: str = "child", **spec: object) -> SessionSpec:
    """Return the spec of a sub-agent: its script or model, and further fields."""
    model = ScriptedModel(script, name=name) if isinstance(script, Iterable) else script
    return SessionSpec(model=model, description="Finds things.", **spec)  # type: ignore[arg-type]  # a test may give any field


def task(agent: str = "finder", prompt: str = "find it", *, usage: Usage = NOTHING_USED, **more: Json) -> Element:
    """Return a response that calls the tool `task` once."""
    return say(calls=[call("task", {"agent": agent, "description": "look", "prompt": prompt, **more})], usage=usage)


def tasks(*agents: str) -> Element:
    """Return a response that calls the tool `task` once for each of *agents*."""
    calls = [call("task", {"agent": name, "description": "look", "prompt": f"go, {name}"}) for name in agents]
    return say(calls=calls)


def inner(world: World, session: SessionHandle) -> list[Event]:
    """Return the sub-agents' events that *session* has published."""
    return [event.event for event in world.heard(session).of(SubAgentEvent)]


def ids(world: World) -> list[str]:
    """Return the ids of the sessions that live."""
    return [session.id for session in world.supervisor.sessions()]
