"""`Environment`: what all parts of a simulation share, such as random choices, the auditor and the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import trio

from agentrail.core.vocabulary.state import Phase
from agentrail.plugins.budget import BudgetGuard
from agentrail.runtime.actor.session import Session
from agentrail.testing.probe_plugins import CANARY
from agentrail.testing.simulator.auditor import Auditor
from agentrail.testing.simulator.fault_kinds import RUNS, Chaos, choice
from agentrail.testing.simulator.rules import RunVerdict
from agentrail.testing.simulator.run_settings import Temper
from agentrail.testing.simulator.virtual import ClockWatch
from agentrail.testing.world.choose import Choose
from agentrail.values.json import JsonObject, canonical
from agentrail.values.messages import why_unfit
from agentrail.values.stream import ModelRequest


def nobody(_: str) -> None:
    """No-op, in place of the function that meddles with sessions while no life is played."""


class Environment:
    """The shared state of all parts of one simulation, through all lives of its process."""

    def __init__(self, seed: int, faults: tuple[str, ...], runs: int = RUNS) -> None:
        self.seed = seed
        self.chaos = Chaos(seed, faults, runs)
        self.verdict = RunVerdict()
        self.auditor = Auditor(self.verdict)
        self.watch = ClockWatch()
        self.temper = Temper()
        self.doings: Counter[str] = Counter()
        self.running: Counter[str] = Counter()
        self.ran: Counter[str] = Counter()
        self.meddle: Callable[[str], None] = nobody
        self.spawned: list[str] = []
        self.doom: trio.Event | None = None
        self.closing: list[str] = []
        self.ending: set[str] = set()
        self.down: list[str] = []
        self.poison: list[object] = []
        self.actors: dict[str, Session] = {}
        self.timers: dict[tuple[str, str], object] = {}
        self.asking: Counter[tuple[str, str]] = Counter()
        self.relieved: Counter[str] = Counter()
        self.answers: dict[tuple[str, str], tuple[str, str]] = {}

    def __hash__(self) -> int:
        """Return a hash of the seed.

        The stage is an option of the simulator's plugins, and options must be hashable.
        """
        return hash(self.seed)

    def begin(self) -> None:
        """Begin a new life: forget sessions, timers and requests, which ended with the life before."""
        self.actors.clear()
        self.timers.clear()
        self.asking.clear()

    def choice(self, *names: object) -> Choose:
        """Return a source of random choices for the purpose *names*."""
        return choice(self.seed, *names)

    def fires(self, name: str) -> bool:
        """Draw whether the fault *name* fires now; return the result."""
        return self.chaos.fires(name)

    def demand(self, holds: bool, rule: str, text: str, *about: object) -> None:
        """Report that *rule* is broken unless *holds*; this ends the run. *about* fills each `{}` in *text*."""
        self.verdict.demand(holds, rule, text, *about)

    def strike(self, session_id: str) -> None:
        """Let the faults `meddling` and `process_dies` fire by chance; called while a session is at work."""
        if self.fires("meddling"):
            self.meddle(session_id)
        if self.doom is not None and not self.doom.is_set() and self.fires("process_dies"):
            self.doom.set()

    def expect(self, session_id: str, budget: BudgetGuard | None) -> None:
        """Note a session that is about to be spawned, with its budget."""
        self.auditor.book(session_id).budget = budget
        self.spawned.append(session_id)

    def stored(self) -> list[str]:
        """Return the ids of the sessions that have records, have not ended, and were not deleted."""
        books = ((name, self.auditor.book(name)) for name in self.spawned)
        states = ((name, book.state) for name, book in books if not book.deleted)
        return [name for name, state in states if state is not None and state.phase is not Phase.ENDED]

    def canary(self, choose: Choose, percent: int = 25) -> str:
        """Draw whether to say the canary now; return it after a space, or an empty text."""
        return f" {CANARY}" if self.temper.canary and choose.percent(percent) else ""

    # Witnesses

    def asked(self, request: ModelRequest) -> None:
        """Check a request that a model gets: the journal has it exactly once, and its messages are valid."""
        if not request.request_id:
            return  # a plugin's question
        book = self.auditor.book(request.session_id)
        is_new = request.request_id in book.requests
        book.requests.discard(request.request_id)
        problem = why_unfit(request.messages)
        self.verdict.note("asked", request.session_id, request.request_id)
        self.demand(
            is_new, "requests", "{} of `{}` is not in the journal, or twice", request.request_id, request.session_id
        )
        self.demand(problem is None, "requests", "{} of `{}`: {}", request.request_id, request.session_id, problem)

    def runs(self, session_id: str, call_id: str, args: JsonObject) -> None:
        """Check a call that begins to run: the journal has its start, with the same arguments."""
        book = self.auditor.book(session_id)
        self.verdict.note("runs", session_id, call_id, canonical(args))
        if call_id in book.out.asks:
            return
        book.ran[call_id] += 1
        starts = book.starts.get(call_id, [])
        text = f"{call_id} of `{session_id}` runs for the {book.ran[call_id]}. time, started {len(starts)} times"
        self.demand(book.ran[call_id] <= len(starts), "witness", text)
        same = any(canonical(start.args) == canonical(args) for start in starts[-1:])
        self.demand(same, "witness", "{} of `{}` runs with {}, which are not in the journal", call_id, session_id, args)
