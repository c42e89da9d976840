"""Helpers that bring a session of the machine to where a test begins."""

from __future__ import annotations

from agentrail import Options, State
from agentrail.core.machine.forking import branch
from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.inputs import SessionBranched, SessionReturned, StreamEnded
from agentrail.events import Event
from agentrail.models import FrozenObject, Response, StopReason, Text, ToolCall, ToolMessage
from agentrail.plugins import Attachable
from agentrail.testing import Recorder, Scene
from agentrail.testing.world.random_setups import TOOLS
from agentrail.tools import ToolSpec
from tests.kit import AnyInput, Phase, PromptSent
from tests.machinery.worlds.checked_world import CheckedWorld
from tests.machinery.worlds.table_tally import Tally


def session(
    *plugins: Attachable,
    options: Options | None = None,
    tools: tuple[ToolSpec, ...] = TOOLS,
    tally: Tally | None = None,
) -> CheckedWorld:
    """Return a session that has been opened; its first plugin is the recorder."""
    world = CheckedWorld(Scene(options or Options(), tools, (Recorder(), *plugins)), tally=tally)
    world.open()
    return world


def hello(text: str = "hello") -> PromptSent:
    return PromptSent((Text(text),))


def call(name: str, path: str | int = "a") -> ToolCall:
    return ToolCall("", name, FrozenObject({"path": path}))


def answer(world: CheckedWorld, *calls: ToolCall, text: str = "") -> Step:
    """Apply the end of the response, with *text* and *calls*."""
    (request_id,) = world.out.live_requests
    parts = (Text(text),) if text else ()
    stop = StopReason.TOOL_CALLS if calls else StopReason.END
    return world.apply(StreamEnded(request_id, Response(parts, calls, stop)))


def begin(world: CheckedWorld) -> str:
    """Begin the response; return the id of the request."""
    (request_id,) = world.out.live_requests
    world.begin(request_id)
    return request_id


def ask_for_calls(world: CheckedWorld, *calls: ToolCall) -> Step:
    """Prompt the session, and let the model answer with *calls*."""
    world.apply(hello())
    return answer(world, *calls)


def events(step: Step) -> list[Event]:
    return [envelope.event for envelope in step.events]


def names(step: Step) -> list[str]:
    """Return the class names of the events of *step*, in order."""
    return [type(envelope.event).__name__ for envelope in step.events]


def results(state: State) -> list[str]:
    """Return the texts of all tool results in the history."""
    return [message.text for message in state.history if isinstance(message, ToolMessage)]


def back(world: CheckedWorld, *, pause: bool = False) -> SessionReturned:
    """Return the input with which a session comes back after its process has ended, with the same code."""
    return SessionReturned(len(world.records), world.state.plugins, pause=pause)


def branched(origin: CheckedWorld) -> SessionBranched:
    """Return the first input of a session that is forked from *origin*, with the same code."""
    return SessionBranched("s", len(origin.records), attached_plugins=origin.state.plugins)


def fork(origin: CheckedWorld, tally: Tally | None = None, *, branched_: SessionBranched | None = None) -> CheckedWorld:
    """Return a session that is forked from *origin*."""
    world = CheckedWorld(origin.scene, session_id="fork", tally=tally)
    world.hook_runner = origin.hook_runner
    world.state = world.first = branch(origin.state, "fork")
    world.ledger.call_ids |= origin.ledger.call_ids
    world.ledger.effects |= origin.ledger.effects
    world.ledger.outcomes += origin.ledger.outcomes
    world.apply(branched_ or branched(origin))
    return world


def apply_all(world: CheckedWorld, *given: AnyInput) -> list[Step]:
    return [world.apply(item) for item in given]


def ends(world: CheckedWorld) -> bool:
    return world.state.phase is Phase.ENDED
