"""Plays whole random sessions against the pure machine, without Trio: thousands of steps a second.

A `World` is one session with all that is outstanding. It performs an effect by noting it, and draws the next input from
what outstanding effects could produce and from the calls of users. An effect that cannot be, such as a second start of
one call, raises `InvariantBrokenError`. All random choices come from a `Choose` that the caller passes.
"""

from __future__ import annotations

from typing import Final

from agentrail.core.audit import differences
from agentrail.core.machine.responses import begun
from agentrail.core.machine.step import Step, step
from agentrail.core.vocabulary.changes import Change, change, fold
from agentrail.core.vocabulary.commands import Answer, ChangeToolsSent
from agentrail.core.vocabulary.inputs import AnyInput, Arrival, SessionOpened, SessionReturned, TimerFired
from agentrail.core.vocabulary.state import NO_TOOLS, AttachedTool, Phase, Setup, State
from agentrail.errors import IllegalInput
from agentrail.hooks.attachments import AttachedPlugin, attached_plugin, in_order, refuse_twins, unkeyed
from agentrail.hooks.hook_runner import Storable
from agentrail.hooks.live_runner import LiveRunner
from agentrail.hooks.plugin import AnyPlugin
from agentrail.hooks.ruling import Ruling
from agentrail.testing.probe_plugins import can_store
from agentrail.testing.world.choose import Choose
from agentrail.testing.world.next_inputs import Move, calls, results
from agentrail.testing.world.outstanding import Outstanding, demand
from agentrail.testing.world.random_setups import Scene, fits, fits_answer
from agentrail.values.argument_checks import checked
from agentrail.values.events.envelope import Envelope
from agentrail.values.value import Value

BEGINS: Final = 50
"""Out of 100 steps, those after which the response to a running request begins."""


class WorldRecord(Value, gc=True):
    """One step as a journal keeps it."""

    number: int
    """Number of the record."""
    arrival: Arrival
    """The input."""
    rulings: tuple[Ruling, ...]
    """What the plugins decided in the step."""
    events: tuple[Envelope, ...]
    """The events of the step."""
    effects: tuple[str, ...]
    """Names of the effects of the step."""
    change: Change
    """What the step changed in the state."""
    answer: Answer | None
    """The answer to the caller."""
    began: str | None = None
    """Id of the request whose response began before the step; `None` if none did."""


class World:
    """One random session, with all work that it has started and that has not ended."""

    def __init__(self, scene: Scene, *, session_id: str = "s", storable: Storable = can_store) -> None:
        self.scene = scene
        self.now = 1_000_000
        self.out = Outstanding()
        self.records: list[WorldRecord] = []
        self.revisions = 0
        self.slow = False
        self.hook_runner = LiveRunner(storable, misfit=fits_answer)
        self.state = self.first = self._first(session_id)
        self._begun: tuple[str, State] | None = None

    def _first(self, session_id: str) -> State:
        keyed = [unkeyed(plugin) for plugin in self.scene.plugins]
        refuse_twins([key for key, _ in keyed])
        attached_plugins = tuple(self.teach(key, plugin) for key, plugin in keyed)
        tools: dict[str, AttachedTool] = {}
        for spec in self.scene.tools:
            self.hook_runner.tool(spec.name, 0, fits)
            tools[spec.name] = AttachedTool(spec, 0)
        return State(
            session_id,
            Setup(options=self.scene.options, user_data=self.scene.user_data, returns=self.scene.returns),
            self.scene.model,
            tools=tools or NO_TOOLS,
            plugins=tuple(attached_plugins[index] for index in in_order(attached_plugins)),
            fallbacks=self.scene.spares,
        )

    def teach(self, key: str, plugin: AnyPlugin) -> AttachedPlugin:
        """Give the hook runner *plugin*'s code under a new revision; return the attached plugin."""
        self.revisions += 1
        self.hook_runner.attach(key, self.revisions, plugin)
        attached = attached_plugin(key, plugin, self.revisions)
        for spec in attached.tools:
            self.hook_runner.tool(spec.name, self.revisions, fits)
        return attached

    # Steps

    def open(self) -> Step:
        """Open the session."""
        return self.apply(SessionOpened())

    def moves(self) -> list[Move]:
        """Return the inputs that can come next."""
        if self.state.phase is Phase.ENDED:
            return list(results(self.out, slow=self.slow))
        return [*results(self.out, slow=self.slow), *calls(self.state, self.out, self.teach)]

    def go(self, choose: Choose) -> Step | None:
        """Draw an input and make the step; return `None` if there is no possible input."""
        moves = self.moves()
        if not moves:
            return None
        move = choose.weighted([(move.weight, move) for move in moves])
        return self.apply(move.make(choose), choose)

    def apply(self, input_: AnyInput, choose: Choose | None = None) -> Step:
        """Make a step with *input_* and perform its effects; return the step."""
        if choose is not None:
            self.now += choose.pick((1, 0, 30, 120))
        self._comes(input_)
        arrival = Arrival(input_, self.now, 0.5 if choose is None else choose.below(10) / 10)
        old = self.state
        step_ = step(old, arrival, self.hook_runner)
        names = tuple(type(effect).__name__ for effect in step_.effects)
        began, old = self._begun or (None, old)
        self._begun = None
        change_, number = change(old, step_.state), len(self.records) + 1
        self.records.append(
            WorldRecord(number, arrival, step_.rulings, step_.events, names, change_, step_.answer, began)
        )
        for effect in step_.effects:
            self.out.perform(effect, self.now)
        self.out.back(step_.state.subagents, step_.effects)
        self.state = step_.state
        self.slow = bool(step_.rulings)
        for request_id in self.out.live_requests:
            if choose is not None and not self.out.requests[request_id].began and choose.percent(BEGINS):
                self.begin(request_id)
        return step_

    def begin(self, request_id: str) -> None:
        """Begin the response to a running request, which the next record says."""
        old = self.state
        self.out.requests[request_id].began = True
        self.state = begun(old, request_id)
        self._begun = request_id, old

    def play(self, choose: Choose, steps: int) -> None:
        """Open the session, make at most *steps* steps with drawn inputs, and check that the records replay."""
        self.open()
        for _ in range(steps):
            if self.go(choose) is None:
                break
        self.check_replay()

    def refuses(self, input_: AnyInput) -> None:
        """Check that the ended session refuses *input_*."""
        try:
            step(self.state, Arrival(input_, self.now), self.hook_runner)
        except IllegalInput:
            return
        demand(False, "an ended session took {}", input_)

    def _comes(self, input_: AnyInput) -> None:
        """Note *input_*: the work that it ends is no longer outstanding, and tools that it brings are known."""
        match input_:
            case TimerFired(timer=timer):
                self._fires(timer)
            case SessionReturned():
                self.out = Outstanding()  # a restart: all work ended with the old process
            case ChangeToolsSent(attach=attach, revision=revision):
                for spec in attach:
                    self.hook_runner.tool(spec.name, revision, fits)
            case _:
                self.out.answered(input_)

    def _fires(self, timer: str) -> None:
        """Fire *timer* on time, or late: after it was cleared, when its name may already be used for another time."""
        out = self.out
        if timer not in out.fired_late:
            self.now = max(self.now, out.timers.pop(timer))
            return
        out.fired_late.remove(timer)
        if timer in out.timers and out.timers[timer] <= self.now:
            del out.timers[timer]
            out.fired_late.append(timer)

    # Records

    def replay(self, upto: int | None = None) -> State:
        """Fold the first *upto* records (or all) and return the state; raise if an audit finds a difference."""
        state = self.first
        for record in self.records[:upto]:
            old, state = state, fold(state, record.change)
            differences_ = differences(old, state, record)
            demand(not differences_, "the audit of record {} finds {}", record.number, differences_)
        return state

    def check_replay(self) -> None:
        """Check that all records replay to the session's state."""
        again = self.replay()
        if self._begun is not None:
            again = begun(again, self._begun[0])
        demand(again == self.state and repr(again) == repr(self.state), "the replay leads to another state")


@checked
def play(choose: Choose, scene: Scene, steps: int) -> World:
    """Play the session of *scene* for at most *steps* inputs, check that its records replay, and return its world.

    Steps after its end are inputs of work that still runs; when none is left, playing stops.
    """
    world = World(scene)
    world.play(choose, steps)
    return world
