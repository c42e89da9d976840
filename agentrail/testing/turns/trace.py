"""`simulate` plays a script; the `Trace` that it returns holds all that happened, to inspect, compare and print."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

from agentrail.core.vocabulary.effects import ReportStart, StartCall, StartRequest
from agentrail.core.vocabulary.options import Options
from agentrail.core.vocabulary.state import Phase, State
from agentrail.hooks.plugin import Attachable
from agentrail.testing.scripted import ScriptStep
from agentrail.testing.turns.script_steps import Script
from agentrail.testing.turns.simulation import Decision, Happened, Simulation, Watch, called
from agentrail.testing.turns.story import story
from agentrail.testing.world.random_setups import Scene
from agentrail.values.argument_checks import checked
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.events.life import AgentAbort, AgentEnd
from agentrail.values.events.people import ApprovalRequired
from agentrail.values.events.tools import ToolBlocked
from agentrail.values.json import EMPTY, JsonObject, freeze_object
from agentrail.values.messages import Message
from agentrail.values.stream import ModelRequest
from agentrail.values.tools import ToolSpec
from agentrail.values.usage import Usage

DEFAULTS: Final = Options()


class Trace:
    """All that happened in a simulated session; `str()` of it is a story for people."""

    def __init__(
        self, scene: Scene, script: tuple[ScriptStep, ...], simulation: Simulation, *, as_given: bool = False
    ) -> None:
        self.scene = scene
        self.script = script
        self.steps: Sequence[Happened] = simulation.happened
        self.state: State = simulation.state
        self.void: tuple[int, ...] = tuple(simulation.void)
        self._as_given = as_given

    def __repr__(self) -> str:
        turns = ", ".join(self.outcomes) or "no turn"
        return f"<Trace of {len(self.plugins)} plugins and {len(self.script)} steps: {turns}>"

    @property
    def plugins(self) -> tuple[Attachable, ...]:
        """The plugins, in the order of their registration."""
        return self.scene.plugins

    @cached_property
    def envelopes(self) -> tuple[Envelope, ...]:
        """The durable events in their envelopes, which have number and time."""
        return tuple(envelope for happened in self.steps for envelope in happened.step.events)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The durable events of the session, in order."""
        return tuple(envelope.event for envelope in self.envelopes)

    @cached_property
    def started(self) -> tuple[StartCall, ...]:
        """The starts of tool calls, in order, each with its arguments; each attempt of a call is one start."""
        return tuple(effect for effect in self._effects if isinstance(effect, StartCall))

    @cached_property
    def requests(self) -> tuple[ModelRequest, ...]:
        """The requests to the model, in order."""
        return tuple(effect.request for effect in self._effects if isinstance(effect, StartRequest))

    @cached_property
    def blocked(self) -> tuple[ToolBlocked, ...]:
        """One event for each call that a plugin blocked, with the reason."""
        return tuple(event for event in self.events if isinstance(event, ToolBlocked))

    @cached_property
    def held(self) -> tuple[ApprovalRequired, ...]:
        """One event for each call that was held until a person decides."""
        return tuple(event for event in self.events if isinstance(event, ApprovalRequired))

    @cached_property
    def outcomes(self) -> tuple[str, ...]:
        """The outcome of each ended turn, in order: `finished` or `aborted`; an open turn has none."""
        turns = (event for event in self.events if isinstance(event, AgentEnd | AgentAbort) and event.ref is not None)
        return tuple("finished" if isinstance(event, AgentEnd) else "aborted" for event in turns)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The history of the conversation at the end."""
        return tuple(self.state.history)

    @property
    def usage(self) -> Usage:
        """The tokens and cost that the session has used."""
        return self.state.usage

    @property
    def ended(self) -> bool:
        """Whether the session has ended."""
        return self.state.phase is Phase.ENDED

    @property
    def refused(self) -> str | None:
        """The error with which the session failed to start, as text; `None` if it started."""
        reports = (effect for effect in self._effects if isinstance(effect, ReportStart))
        return next((str(report.error) for report in reports if report.error is not None), None)

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """What each plugin decided at each hook; to record it, the script is played once more when first asked for."""
        watch = Watch()
        Simulation(self.scene, self.script, as_given=self._as_given, watch=watch).play()
        return tuple(watch.decisions)

    def plugin_state(self, key: str) -> object:
        """Return the state of the plugin *key* at the end."""
        keys = [attached.key for attached in self.state.plugins]
        return self.state.plugin_states[keys.index(key)]

    def digest(self) -> str:
        """Return a hash of all inputs, events and effects; equal sessions have equal hashes, in any process."""
        checksum = hashlib.sha256()
        for happened in self.steps:
            checksum.update(repr((happened.arrival, happened.step.events, happened.step.effects)).encode())
        return checksum.hexdigest()

    def __str__(self) -> str:
        return story(self.script, self.steps, self.decisions, self.void)

    @cached_property
    def _effects(self) -> tuple[object, ...]:
        return tuple(effect for happened in self.steps for effect in happened.step.effects)


@checked
def simulate(
    plugins: Iterable[Attachable],
    script: Script,
    *,
    options: Options = DEFAULTS,
    tools: Iterable[ToolSpec] | None = None,
    user_data: JsonObject = EMPTY,
    as_given: bool = False,
) -> Trace:
    """Play *script* against a session with *plugins*, without Trio, and return what happened.

    Steps are made by `prompt`, `say`, `returns`, `approve` and others. `Trace.void` has the numbers of steps that found
    nothing to do. At the end all that is outstanding gets plain answers, until the session rests.

    Args:
        plugins: The plugins, in the order of their registration.
        script: The steps, in order.
        options: The options of the session.
        tools: The tools of the session; without it, each tool that the script calls exists. None is run.
        user_data: The `user_data` of the session, as given when it is spawned.
        as_given: Ask the plugins in the given order, not by their priorities.
    """
    played = tuple(script)
    specs = called(played) if tools is None else tools
    scene = Scene(options, tuple(specs), tuple(plugins), user_data=freeze_object(user_data))
    simulation = Simulation(scene, played, as_given=as_given)
    simulation.play()
    return Trace(scene, played, simulation, as_given=as_given)
