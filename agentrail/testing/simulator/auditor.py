"""Checks each record as soon as it is written, and keeps a `Book` of each session, from its records alone.

The auditor makes each step again, with the rulings in its record, and notes the work that it starts and ends. So the
state that a recovery would find is checked after every record, and not only at the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import trio

from agentrail.core.machine.responses import begun
from agentrail.core.machine.step import Step, step
from agentrail.core.machine.table import COMMANDS
from agentrail.core.vocabulary.changes import fold
from agentrail.core.vocabulary.commands import (
    AbortSent,
    Accepted,
    Answer,
    ApproveSent,
    PromptSent,
    RejectSent,
    RespondSent,
    ResultSent,
    SteerSent,
    StopSent,
)
from agentrail.core.vocabulary.effects import StartCall, StartRequest
from agentrail.core.vocabulary.inputs import (
    AnyInput,
    Arrival,
    CallsEnded,
    SessionReturned,
    SubagentReported,
    SubagentStarted,
    TimerFired,
)
from agentrail.core.vocabulary.state import State
from agentrail.errors import AgentrailError, ReplayDiffers
from agentrail.hooks.hook_runner import RecordedRunner
from agentrail.plugins.budget import BudgetGuard
from agentrail.ports.journal import Record, Snapshot, folded, opening_of
from agentrail.runtime.actor.journal_log import with_plugins_of
from agentrail.testing.probe_plugins import CANARY
from agentrail.testing.simulator.rules import RunVerdict
from agentrail.testing.world.outstanding import InvariantBrokenError, Outstanding
from agentrail.values.content import Text
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.events.life import (
    AgentEnd,
    PromptDropped,
    PromptReceived,
    PromptRejected,
    PromptWithdrawn,
    SteeringApplied,
    SteeringReceived,
)
from agentrail.values.messages import EMPTY_HISTORY, History, UserMessage

IDS: Final = ("child", "request_id", "call_id", "ask_id", "compaction_id")
"""The fields of inputs that hold the id of the work that the input ends."""
MAX_UNASKED: Final = 60
"""How many records a session may write at one instant of virtual time without a command; the most in 500 runs is 10."""
SAYS: Final = " says "
"""A part of each text of a caller, and of nothing else that is stored."""
LATELY: Final = 20
"""In how many of the last user messages an applied steering text is looked for; one step may begin several turns."""


def is_same(live: State, expected: State | None) -> bool:
    """Whether *live* equals *expected*, the state from records, in which a redaction has left plugin states as JSON."""
    if expected is None:
        return False
    try:
        return live == with_plugins_of(expected, live, 0)
    except ReplayDiffers:
        return False


class Book:
    """Everything that the records of one session say: state, events, commands, usage and started calls."""

    def __init__(self, session_id: str, budget: BudgetGuard | None) -> None:
        self.session_id = session_id
        self.budget = budget
        self.state: State | None = None
        self.states: list[State] = []
        self.records = 0
        self.events: list[Envelope] = []
        self.out = Outstanding()
        self.accepted: set[str] = set()
        self.decided: set[str] = set()
        self.aborts = 0
        self.commands: dict[str, tuple[AnyInput, Answer | None]] = {}
        self.requests: set[str] = set()
        self.starts: dict[str, list[StartCall]] = {}
        self.ran: Counter[str] = Counter()
        self.steered: dict[str, str] = {}
        self.biggest = 0
        self.dearest = 0.0
        self.stopping = False
        self.queue: list[str] = []
        self.ended: set[str] = set()
        self.crashed = False
        self.deleted = False
        self.instant = -1.0
        self.unasked = 0

    @property
    def seq(self) -> int:
        """The number of the last durable event."""
        return len(self.events)


class Auditor:
    """Replays each written record, and checks it against the invariants; keeps a `Book` per session."""

    def __init__(self, verdict: RunVerdict) -> None:
        self._verdict = verdict
        self.canary = False
        self.books: dict[str, Book] = {}

    def book(self, session_id: str) -> Book:
        """Return the book of a session; make an empty one at first use."""
        if session_id not in self.books:
            self.books[session_id] = Book(session_id, None)
        return self.books[session_id]

    def committed(self, records: Sequence[Record]) -> None:
        """Check and replay records that the journal has just written."""
        for record in records:
            book = self.book(record.session_id)
            kinds = ",".join(f"{envelope.seq}:{type(envelope.event).__name__}" for envelope in record.events)
            self._verdict.note(
                "record",
                record.session_id,
                record.number,
                type(record.arrival.input).__name__,
                record.arrival.at,
                kinds,
            )
            self._unsaid(record.session_id, f"record {record.number}", record)
            try:
                self._enter(book, record)
            except InvariantBrokenError as broken:
                self._verdict.demand(False, "session", "`{}`, record {}: {}", book.session_id, record.number, broken)
            except AgentrailError as differs:
                self._verdict.demand(False, "replay", "{}", differs)

    def _unsaid(self, session_id: str, where: str, value: object) -> None:
        """Check that *value* does not contain the canary; no-op in runs without a canary."""
        if self.canary:
            text_ = repr(value)
            index = text_.find(CANARY)
            text = f"{where} of `{session_id}` has the canary: …{text_[max(0, index - 120) : index + 20]}"
            self._verdict.demand(index < 0, "screened", text)

    def kept(self, snapshot: Snapshot) -> None:
        """Check that *snapshot* equals the state after the records up to its number."""
        states = self.book(snapshot.session_id).states
        self._unsaid(snapshot.session_id, "a snapshot", snapshot.state)
        expected = states[snapshot.number - 1] if 0 < snapshot.number <= len(states) else None
        since = snapshot.since
        if expected is not None and since is not None:
            expected = expected.but(history=states[since - 1].history if since else EMPTY_HISTORY)
        text = f"the snapshot of `{snapshot.session_id}` at record {snapshot.number} is not the state of its records"
        self._verdict.demand(is_same(snapshot.state, expected), "snapshots", text)

    def deleted(self, session_id: str, stored: Sequence[str]) -> None:
        """Note that a session was deleted; check that *stored*, the stored sessions, has neither it nor a sub-agent."""
        self.book(session_id).deleted = True
        mine = [other for other in stored if other == session_id or other.startswith(f"{session_id}.c")]
        self._verdict.demand(not mine, "erased", "`{}` was deleted, and there are {}", session_id, mine)

    def redacted(self, records: Sequence[Record]) -> None:
        """Replace the book's notes by the redacted *records*, and check that no text of a caller is left in them."""
        book = self.book(records[0].session_id)
        book.events = [envelope for record in records for envelope in record.events]
        book.commands = {record.command: (record.arrival.input, record.answer) for record in records if record.command}
        book.states = list(accumulate(records, folded, initial=opening_of(records[0])))[1:]
        book.state = book.states[-1]
        is_whole = len(book.states) == book.records and all(record.redacted is not None for record in records)
        self._verdict.demand(
            is_whole, "erased", "`{}` has {} records of {}", book.session_id, len(book.states), book.records
        )
        unredacted = [record.number for record in records if SAYS in repr(record)]
        self._verdict.demand(
            not unredacted, "erased", "records {} of `{}` have texts of callers", unredacted, book.session_id
        )

    def _enter(self, book: Book, record: Record) -> None:
        demand = self._verdict.demand
        book.records += 1
        demand(record.number == book.records, "numbers", "{} is written as record {}", record.number, book.records)
        if book.state is None:
            book.state = record.opening
        old = start = book.state
        if old is None or start is None:
            demand(False, "replay", "the first record of `{}` has no beginning", book.session_id)
            return
        input_ = record.arrival.input
        if record.began is not None:
            old = begun(old, record.began)
            book.out.requests[record.began].began = True
        hook_runner = RecordedRunner(record.rulings, book.session_id, record.number)
        step_ = self._step(book, old, record.arrival, hook_runner)
        demand(
            step_.events == record.events, "replay", "record {} of `{}`: other events", record.number, book.session_id
        )
        demand(
            hook_runner.left == 0, "replay", "record {} of `{}`: rulings are left over", record.number, book.session_id
        )
        folded = fold(start, record.change)
        demand(folded == step_.state, "replay", "record {} of `{}`: another change", record.number, book.session_id)
        demand(_due(folded) == record.due, "replay", "record {} of `{}`: other timers", record.number, book.session_id)
        book.state = folded
        book.states.append(step_.state)
        for envelope in record.events:
            book.events.append(envelope)
            demand(envelope.seq == book.seq, "numbers", "event {} comes as number {}", envelope.seq, book.seq)
        self._said(book, input_, step_)
        self._quiet(book, input_)
        self._spent(book, old, step_.state, input_)
        if record.command is not None:
            demand(record.command not in book.commands, "commands", "`{}` is carried out twice", record.command)
            book.commands[record.command] = (input_, record.answer)

    def _step(self, book: Book, old: State, arrival: Arrival, hook_runner: RecordedRunner) -> Step:
        """Repeat a step, note the work that it starts in the book, check it, and return it."""
        input_ = arrival.input
        if isinstance(input_, TimerFired) and book.out.timers.get(input_.timer, arrival.at + 1) <= arrival.at:
            del book.out.timers[input_.timer]
        if isinstance(input_, SessionReturned):
            book.out = Outstanding()  # a restart: all work ended with the old process
        _closed(book.out, input_)
        step_ = step(old, arrival, hook_runner)
        for effect in step_.effects:
            book.out.perform(effect, arrival.at)
            if isinstance(effect, StartRequest):
                book.requests.add(effect.request.request_id)
            elif isinstance(effect, StartCall):
                book.starts.setdefault(effect.call_id, []).append(effect)
        book.out.back(step_.state.subagents, step_.effects)
        self.check(book, old, arrival, step_)
        return step_

    def check(self, book: Book, old: State, arrival: Arrival, step: Step) -> None:  # noqa: ARG002 - for subclasses
        """Check a step that was repeated, whose work is in *book* already; override this to check more of it."""
        input_ = arrival.input
        if isinstance(input_, AbortSent | StopSent) and old.turn is not None:
            after = step.state.turn
            over = after is None or after.ended is not None or after.ref != old.turn.ref
            self._verdict.demand(over, "abort", "after {} the turn {} is open", input_, old.turn.ref)

    def _said(self, book: Book, input_: AnyInput, step: Step) -> None:
        """Note in the book what a step tells: accepted refs, decisions, aborts, a stop."""
        if isinstance(step.answer, Accepted):
            ref = step.answer.ref
            book.accepted.add(ref)
            if isinstance(input_, SteerSent):
                book.steered.setdefault(ref, input_.text)
            if isinstance(input_, PromptSent):
                book.queue.append(ref)
        if isinstance(input_, ApproveSent | RejectSent):
            book.decided.add(input_.approval_id)
        elif isinstance(input_, RespondSent | ResultSent):
            book.decided.add(input_.ref)
        elif isinstance(input_, AbortSent):
            book.aborts += 1
        elif isinstance(input_, StopSent):
            book.stopping = True
        for envelope in step.events:
            self._hears(book, envelope.event, step.state)

    def _quiet(self, book: Book, input_: AnyInput) -> None:
        """Count a session's records within one instant that no command caused; too many mean that it never rests."""
        now = trio.current_time()
        if isinstance(input_, COMMANDS) or now != book.instant:
            book.instant, book.unasked = now, 0
        book.unasked += 1
        text = f"`{book.session_id}` writes {book.unasked} records at one instant, without any call: {input_}"
        self._verdict.demand(book.unasked <= MAX_UNASKED, "quiet", text)

    def _hears(self, book: Book, event: Event, after: State) -> None:
        match event:
            case AgentEnd(ref=ref):
                book.ended.add(ref)
            case PromptReceived(ref=ref) | PromptRejected(ref=ref) if ref in book.queue:
                self._verdict.demand(ref == book.queue[0], "turns", "{} is taken before {}", ref, book.queue[0])
                book.queue.remove(ref)
            case PromptDropped(ref=ref) | PromptWithdrawn(ref=ref) if ref in book.queue:
                book.queue.remove(ref)
            case SteeringReceived(ref=ref, text=text, replaced_by=replaced) if replaced:
                book.steered[ref] = text
            case SteeringApplied(refs=refs):
                user_text = _said_by_users(after.history)
                for ref in refs:
                    text = book.steered.get(ref, "")
                    self._verdict.demand(text in user_text, "steering", "{!r} was applied, and is not there", text)
            case _:
                pass

    def _spent(self, book: Book, old: State, new: State, input_: AnyInput) -> None:
        """Check usage against the budget; it may be exceeded by the largest response of the session or a sub-agent."""
        if not isinstance(input_, SubagentReported):
            path = new.setup.path
            lead = self.book(path[0]) if path else book
            lead.biggest = max(lead.biggest, new.usage.total_tokens - old.usage.total_tokens)
            lead.dearest = max(lead.dearest, (new.usage.cost_usd or 0.0) - (old.usage.cost_usd or 0.0))
        budget = book.budget
        if budget is None:
            return
        used, cost = new.usage.total_tokens, new.usage.cost_usd or 0.0
        if budget.max_tokens is not None:
            text = f"`{book.session_id}` has used {used} tokens of {budget.max_tokens}"
            self._verdict.demand(used <= budget.max_tokens + book.biggest, "budget", text)
        if budget.max_usd is not None:
            text = f"`{book.session_id}` has spent ${cost:.6f} of ${budget.max_usd}"
            self._verdict.demand(cost <= budget.max_usd + book.dearest + 1e-9, "budget", text)


def _due(state: State) -> int | None:
    return min((due_ms for _, due_ms in state.timers), default=None)


def _closed(out: Outstanding, input_: AnyInput) -> None:
    """Remove from *out* the work that *input_* ends; no-op if it is not there."""
    if isinstance(input_, CallsEnded):
        out.answered(CallsEnded(tuple(call for call in input_.ended if call.call_id in out.calls)))
    ids = {*out.requests, *out.calls, *out.asks, *out.compactions, *out.agents}
    names = [getattr(input_, name) for name in IDS if hasattr(input_, name)]
    if isinstance(input_, SubagentStarted) or (names and names[0] in ids):
        out.answered(input_)


def _said_by_users(history: History) -> str:
    messages = [message for message in history if isinstance(message, UserMessage)]
    return "\n\n".join(part.text for message in messages[-LATELY:] for part in message.parts if isinstance(part, Text))
