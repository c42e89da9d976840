"""`backtest_session`: what other plugins would have done in one session, by its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.step import Step, redo
from agentrail.core.vocabulary.inputs import SessionBranched
from agentrail.core.vocabulary.state import State, drafted
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import Hook
from agentrail.hooks.plugin import AnyPlugin
from agentrail.hooks.ruling import ASK, START
from agentrail.insight.beside_runner import BesideRunner, RulingPair
from agentrail.insight.candidate_row import CandidateRow
from agentrail.insight.explanations import Explanation, explain
from agentrail.ports.journal import Record, folded, opening_of
from agentrail.values.messages import EMPTY_HISTORY
from agentrail.values.untrusted_values import error_text
from agentrail.values.value import Value


class AskedPlugin(Value, gc=True):
    """A plugin of the candidate, as it was when it was asked."""

    key: str
    """Key of the plugin."""
    plugin: AnyPlugin
    """The plugin."""
    state: object
    """Its state before it was asked."""


class Parting(Value, gc=True):
    """One ruling of the candidate that does something else than the recorded one."""

    session_id: str
    """The session."""
    record: int
    """Number of the record in which the two rulings differ."""
    turn: int
    """Number of the turn; 0 before the first."""
    hook: str
    """Name of the hook; `init`, `on_options`, `on_event` or `upgrade` of another method."""
    call_id: str
    """Id of the call that it is about; empty if it is about none."""
    field: str
    """What differs first, such as `verdict` or `arguments`."""
    then: Explanation
    """What the plugins of the session ruled, and why."""
    now: Explanation
    """What those of the candidate rule, and why."""
    took_effect: int | None
    """Number of the record in which the difference shows: a later one, if another plugin has paused the hook; `None` if
    it never does.
    """
    guess: bool
    """Whether an earlier ruling differs already, so that the session would have gone otherwise from there on."""
    question: Hook | None
    """What the plugins were asked about; `None` if it is no hook."""
    context: Context | None
    """How the candidate saw the session; `None` if none of its plugins has the hook."""
    plugins: tuple[AskedPlugin, ...]
    """The plugins of the candidate; empty if it is no hook, or goes on after an answer to one of them."""


class SessionBackTest(Value, gc=True):
    """What the candidate would have done in one session."""

    session_id: str
    """The session."""
    records: int
    """How many of its records were compared."""
    turns: int
    """How many turns they have."""
    rulings: int
    """How many rulings were compared."""
    parts: tuple[Parting, ...]
    """Where the two part: the first is exact, those behind it are guesses; empty if they never do."""
    inexact: tuple[str, ...]
    """What could not be compared exactly, each in a sentence."""
    skipped: str
    """Why the rest of the session was not compared; empty if all of it was."""


MakeRow = Callable[[State], CandidateRow]
"""Function that makes the candidate of a session that begins with this state."""

_REDACTED: Final = "record {} is redacted: what was said there is gone"
_OTHERWISE: Final = "today's code makes record {} otherwise than it is stored: `audit` tells what differs"
_BROKEN: Final = "record {} cannot be made again: {}"
_FORK: Final = "it is a fork: what its plugins had heard before it began is not in its records"


def backtest_session(
    session_id: str, records: Iterable[Record], make_row: MakeRow, *, beyond: bool = False
) -> SessionBackTest:
    """Ask the candidate that *make_row* makes beside the recorded rulings of one session.

    *records* are all records of the session, from the first one on. With *beyond*, it goes on behind the first ruling
    that differs, with the recorded answers.
    """
    walk = SessionWalk(session_id, beyond=beyond)
    for record in records:
        if not walk.take(record, make_row):
            break
    return walk.outcome()


class _Difference(NamedTuple):
    """A pair of rulings that differ, and where that takes effect, as far as it is known."""

    pair: RulingPair
    turn: int
    plugins: tuple[AskedPlugin, ...]
    took_effect: int | None


class SessionWalk:
    """Goes through the records of a session, and keeps what differs."""

    def __init__(self, session_id: str, *, beyond: bool) -> None:
        self._session_id = session_id
        self._beyond = beyond
        self._state: State | None = None
        self._history = EMPTY_HISTORY
        """Equal to the history of the state, on the log of the steps that are made again: else each would copy it."""
        self._row: CandidateRow | None = None
        self._differences: list[_Difference] = []
        self._is_parted = False
        """Whether differences were handed out already."""
        self._waiting: dict[tuple[str, str], int] = {}
        """Where in `_differences` the differences are that take effect when their run of a hook ends."""
        self._records = self._rulings = 0
        self._inexact: dict[str, None] = {}
        self._skipped = ""

    def outcome(self) -> SessionBackTest:
        """Return what was found so far."""
        parts = tuple([self._part(index, difference) for index, difference in enumerate(self._differences)])
        turns = 0 if self._state is None else self._state.turn_count
        return SessionBackTest(
            self._session_id, self._records, turns, self._rulings, parts, tuple(self._inexact), self._skipped
        )

    def hand_out(self) -> SessionBackTest:
        """Return what was found so far, and forget the differences."""
        outcome = self.outcome()
        self._is_parted = self._is_parted or bool(self._differences)
        self._differences.clear()
        self._waiting.clear()
        return outcome

    def take(self, record: Record, make_row: MakeRow) -> bool:
        """Compare one record; return whether to go on."""
        if record.redacted is not None:
            self._skipped = _REDACTED.format(record.number)
            return False
        if self._state is None or self._row is None:
            self._state = opening_of(record)
            self._row = make_row(self._state)
            self._history = self._state.history
            if isinstance(record.arrival.input, SessionBranched):
                self._row.begin_with(self._state)
                self._inexact[_FORK] = None
        if not self._compare(self._state, record, self._row):
            return False
        self._records += 1
        return self._beyond or not self._differences or bool(self._waiting)

    def _compare(self, old: State, record: Record, row: CandidateRow) -> bool:
        beside = BesideRunner(record, row)
        try:
            again = redo(old.but(history=self._history), record.arrival, beside, record.began)
        except Exception as error:  # noqa: BLE001 - what other code has made may break a step in any way; it is told
            self._skipped = _BROKEN.format(record.number, error_text(error))
            return False
        if not _is_as_recorded(again, record):
            self._skipped = _OTHERWISE.format(record.number)
            return False
        if again.events and not again.state.plugins:  # the machine shows events to plugins of the session alone
            draft = StepDraft(drafted(again.state), beside, record.arrival.at, record.arrival.random)
            beside.show(again.events, (), draft.context)
        self._rulings += beside.asked_count
        turn = again.state.turn_count if again.state.turn is not None or old.turn is not None else 0
        for pair in beside.pairs:
            self._note(pair, turn, row)
        new = folded(old, record)
        self._history = again.state.history if len(again.state.history) == len(new.history) else new.history
        self._state = new
        row.follow(new.plugins)
        return True

    def _note(self, pair: RulingPair, turn: int, row: CandidateRow) -> None:
        """Keep a pair that differs, and note when one that waited takes effect."""
        waiting = self._waiting.pop(pair.run, None)
        if waiting is not None and pair.then.ruling.verdict is ASK and pair.field:
            self._waiting[pair.run] = waiting
        elif waiting is not None and pair.field:
            self._differences[waiting] = self._differences[waiting]._replace(took_effect=pair.record)
        if not pair.field or waiting is not None or (self._differences and not self._beyond):
            return
        plugins: tuple[AskedPlugin, ...] = ()
        if pair.now.question.position == START:
            rows = zip(pair.now.question.attached_plugins, pair.now.states, strict=True)
            plugins = tuple([AskedPlugin(attached.key, row.plugin(attached), state) for attached, state in rows])
        self._differences.append(_Difference(pair, turn, plugins, None if pair.waits else pair.record))
        if pair.waits:
            self._waiting[pair.run] = len(self._differences) - 1

    def _part(self, index: int, difference: _Difference) -> Parting:
        pair = difference.pair
        hook = pair.then.hook
        call_id: object = getattr(hook, "call_id", "")
        return Parting(
            self._session_id,
            pair.record,
            difference.turn,
            pair.then.ruling.hook,
            call_id if isinstance(call_id, str) else "",
            pair.field,
            explain(pair.then),
            explain(pair.now.question),
            difference.took_effect,
            self._is_parted or index > 0,
            hook,
            pair.now.context,
            difference.plugins,
        )


def _is_as_recorded(again: Step, record: Record) -> bool:
    """Whether a step that was made again tells, asks for and answers what is recorded."""
    return (
        again.events == record.events
        and again.answer == record.answer
        and len(again.effects) == len(record.effects)
        and all(type(effect).__name__ == name for effect, name in zip(again.effects, record.effects, strict=True))
    )
