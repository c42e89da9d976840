"""A plausible world around the pure machine: whole sessions without Trio, thousands of steps a second.

The world performs each effect by remembering it, and draws the next input only from what outstanding effects could
produce, plus any call of a user. After every step it checks the invariants. It has no chance of its own: whoever
drives it passes a `Choose` in.

How often each row of the transition table was reached, and which of its promises were never seen kept.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, TypeAlias, get_args

from agentrail.core.machine.step import Step, step
from agentrail.core.machine.table import TABLE
from agentrail.core.vocabulary.commands import ChangeToolsSent, Command
from agentrail.core.vocabulary.effects import WriteLog
from agentrail.core.vocabulary.inputs import AnyInput, Arrival, SessionOpened, SessionReturned, TimerFired
from agentrail.core.vocabulary.state import NO_TOOLS, Attached, Phase, Setup, State
from agentrail.errors import IllegalInput
from agentrail.hooks.attachments import AttachedPlugin, in_order, refuse_twins, seat_for, unkeyed
from agentrail.hooks.judge import Recorded
from agentrail.hooks.live import Live
from agentrail.hooks.pipeline import Storable
from agentrail.hooks.plugin import AnyPlugin
from agentrail.hooks.ruling import Ruling
from agentrail.testing.probes import can_store
from agentrail.testing.world.choose import Choose
from agentrail.testing.world.ledger import Ledger
from agentrail.testing.world.moves import Move, calls, results
from agentrail.testing.world.outstanding import Outstanding, demand
from agentrail.testing.world.scenes import Scene, fits
from agentrail.values.events.envelope import Envelope
from agentrail.values.spelling import checked
from agentrail.values.value import Value, value

Row: TypeAlias = tuple[Phase, type[Value]]
Promise: TypeAlias = Phase | type[Value]

RARE: Final = 600
"""How much more often a row that was never reached is sought than one that was reached so often."""

UNSEEN: Final = 60
"""How much more often a row is sought for each of its promises that was never seen."""


class Tally:
    """Counts over any number of sessions."""

    def __init__(self) -> None:
        self.steps = 0
        self.rows: Counter[Row] = Counter()
        self.unseen: dict[Row, set[Promise]] = {
            (phase, kind): {*rule.to, *rule.may}
            for phase, rules in TABLE.items()
            for kind, rule in rules.items()
            if rule.to
        }

    def note(self, before: State, given: type[Value], step: Step) -> None:
        """Count one step."""
        row = (before.phase, given)
        self.steps += 1
        self.rows[row] += 1
        left = self.unseen[row]
        if not left or any(ruling.hook == "on_event" and ruling.critical for ruling in step.rulings):
            return  # what a listener's abort adds belongs to another row
        left.discard(step.state.phase)
        left.difference_update(type(effect) for effect in step.effects if type(effect) is not WriteLog)

    def wanted(self, phase: Phase, kind: type[Value], *, apt: bool = True) -> int:
        """Say how much a row is worth looking for; a move that is not *apt* will not show its promises."""
        row = (phase, kind)
        return RARE // (1 + self.rows[row]) + (UNSEEN * len(self.unseen.get(row, ())) if apt else 0)

    def seldom(self, least: int) -> dict[str, int]:
        """Return the legal rows that were reached less than *least* times."""
        return {_named(row): self.rows[row] for row in self.unseen if self.rows[row] < least}

    def broken(self) -> dict[str, list[str]]:
        """Return the promises that nobody has seen kept, by row."""
        return {
            _named(row): sorted(left.value if isinstance(left, Phase) else left.__name__ for left in unseen)
            for row, unseen in self.unseen.items()
            if unseen
        }


def _named(row: Row) -> str:
    return f"{row[0].value} × {row[1].__name__}"


COMMANDS: Final = frozenset(get_args(Command))
"""The calls of users; an ended session refuses them."""


@value
class WorldRecord(Value):
    """One step as a journal would keep it."""

    arrival: Arrival
    """The input."""
    rulings: tuple[Ruling, ...]
    """The decisions of plugins."""
    events: tuple[Envelope, ...]
    """The events."""


class World:
    """One session and everything that it has asked for."""

    def __init__(
        self, scene: Scene, *, session_id: str = "s", storable: Storable = can_store, tally: Tally | None = None
    ) -> None:
        self.scene = scene
        self.now = 1_000_000
        self.tally = tally if tally is not None else Tally()
        self.out = Outstanding()
        self.ledger = Ledger()
        self.records: list[WorldRecord] = []
        self.revisions = 0
        self.slow = False
        self.judge = Live(storable)
        self.state = self.first = self._first(session_id)

    def _first(self, session_id: str) -> State:
        given = [unkeyed(plugin) for plugin in self.scene.plugins]
        refuse_twins([key for key, _ in given])
        seats = tuple(self.teach(key, plugin) for key, plugin in given)
        tools: dict[str, Attached] = {}
        for spec in self.scene.tools:
            self.judge.tool(spec.name, 0, fits)
            tools[spec.name] = Attached(spec, 0)
        return State(
            session_id,
            Setup(options=self.scene.options, user_data=self.scene.user_data),
            self.scene.model,
            tools=tools or NO_TOOLS,
            seats=tuple(seats[place] for place in in_order(seats)),
            spares=self.scene.spares,
        )

    def teach(self, key: str, plugin: AnyPlugin) -> AttachedPlugin:
        """Give the judge the code of *plugin* under a revision of its own, and return its seat."""
        self.revisions += 1
        self.judge.seat(key, self.revisions, plugin)
        return seat_for(key, plugin, self.revisions)

    # What happens

    def open(self) -> Step:
        """Open the session."""
        return self.apply(SessionOpened())

    def moves(self) -> list[Move]:
        """Return what could happen next."""
        if self.state.phase is Phase.ENDED:
            return list(results(self.out, slow=self.slow))
        return [*results(self.out, slow=self.slow), *calls(self.state, self.out, self.teach)]

    def go(self, choose: Choose, *, seek: bool = False) -> Step | None:
        """Let something happen; `None` if nothing can. *seek* prefers rows that the tally has seen least."""
        moves = self.moves()
        if not moves:
            return None
        weights = [move.weight for move in moves]
        if seek and choose.percent(50):
            wanted = self.tally.wanted
            weights = [move.weight * (1 + wanted(self.state.phase, move.kind, apt=move.apt)) for move in moves]
        move = choose.weighted(tuple(zip(weights, moves, strict=True)))
        return self.apply(move.make(choose), choose)

    def apply(self, given: AnyInput, choose: Choose | None = None) -> Step:
        """Let *given* happen, and check everything."""
        if choose is not None:
            self.now += choose.pick((1, 0, 30, 120))
        self._comes(given)
        arrival = Arrival(given, self.now, 0.5 if choose is None else choose.below(10) / 10)
        before = self.state
        kept, length, tools = before.but(), len(before.history), dict(before.tools)
        done = step(before, arrival, self.judge)
        same = all(getattr(before, name) is getattr(kept, name) for name in State.__fields__)
        demand(same and len(before.history) == length and dict(before.tools) == tools, "the state given was changed")
        self.records.append(WorldRecord(arrival, done.rulings, done.events))
        self.tally.note(before, type(given), done)
        for effect in done.effects:
            self.out.perform(effect, self.now)
        self.out.back(done.state.subagents, done.effects)
        self.state = done.state
        self.slow = bool(done.rulings)
        self.ledger.check(before, arrival, done, self.out)
        return done

    def refuses(self, given: AnyInput) -> None:
        """Demand that an ended session refuses the call *given*."""
        try:
            step(self.state, Arrival(given, self.now), self.judge)
        except IllegalInput:
            return
        demand(False, f"an ended session took {given}")

    def _comes(self, given: AnyInput) -> None:
        """Take *given* out of what is outstanding."""
        match given:
            case TimerFired(timer=timer):
                self._fires(timer)
            case SessionReturned():
                self.out = Outstanding()  # the process has ended, and everything with it
            case ChangeToolsSent(attach=attach, revision=revision):
                for spec in attach:
                    self.judge.tool(spec.name, revision, fits)
            case _:
                self.out.answered(given)

    def _fires(self, timer: str) -> None:
        """Let *timer* fire: its own time, or too late, when the name may stand for another time already."""
        out = self.out
        if timer not in out.fired_late:
            self.now = max(self.now, out.timers.pop(timer))
            return
        out.fired_late.remove(timer)
        if timer in out.timers and out.timers[timer] <= self.now:
            del out.timers[timer]
            out.fired_late.append(timer)

    # What was recorded

    def replay(self, upto: int | None = None) -> State:
        """Rebuild the session from its first records, or all; what differs breaks an invariant."""
        state = self.first
        for number, record in enumerate(self.records[:upto]):
            judge = Recorded(record.rulings, state.session_id, number)
            again = step(state, record.arrival, judge)
            demand(again.events == record.events, f"the events of record {number} differ at the replay")
            demand(judge.left == 0, f"record {number} has rulings that the replay did not ask for")
            state = again.state
        return state

    def check_replay(self) -> None:
        """Demand that the records lead to this very state."""
        again = self.replay()
        demand(again == self.state and repr(again) == repr(self.state), "the replay leads to another state")


@checked
def play(choose: Choose, scene: Scene, steps: int, *, tally: Tally | None = None, seek: bool = False) -> World:
    """Run a session for at most *steps* steps, to its end and until nothing runs any more if it ends."""
    world = World(scene, tally=tally)
    world.open()
    for _ in range(steps):
        if world.go(choose, seek=seek) is None:
            break
    world.check_replay()
    return world
