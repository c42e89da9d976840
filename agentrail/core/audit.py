"""The audit of a session: where today's step would do otherwise than its records say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, Protocol

from msgspec.structs import astuple

from agentrail.core.machine.step import Step, redo
from agentrail.core.vocabulary.changes import NAMES
from agentrail.core.vocabulary.commands import Answer
from agentrail.core.vocabulary.inputs import Arrival
from agentrail.core.vocabulary.state import State
from agentrail.errors import ReplayDiffers
from agentrail.hooks.hook_runner import RecordedRunner
from agentrail.hooks.ruling import Ruling
from agentrail.values.events.envelope import Envelope, Ephemeral
from agentrail.values.messages import EMPTY_HISTORY, Message
from agentrail.values.untrusted_values import error_text
from agentrail.values.value import Value

BEFORE: Final = 60
"""How many characters of a text a finding shows from before the difference."""

LONGEST: Final = 400
"""How many characters of a text a finding shows."""

_FIELDS: Final = tuple([f"state.{name}" for name in NAMES])
_HISTORY: Final = "state.history"


class Difference(Value):
    """One thing that today's step does otherwise than a record says: a finding of an audit."""

    record: int
    """Number of the record."""
    what: str
    """What differs: `events`, `effects`, `answer`, `rulings`, `step`, `redacted`, or `state.` and a field."""
    recorded: str
    """What the record says, as text, from shortly before the difference."""
    now: str
    """What today's step does, likewise; for `rulings` and `step`, why it could not be made."""


class RecordedStep(Protocol):
    """Interface: the parts of a record that an audit reads."""

    @property
    def number(self) -> int:
        """Number of the record in its session."""
        ...

    @property
    def arrival(self) -> Arrival:
        """Input of the step."""
        ...

    @property
    def rulings(self) -> Sequence[Ruling]:
        """What plugins and validators decided."""
        ...

    @property
    def events(self) -> Sequence[Envelope]:
        """Events of the step."""
        ...

    @property
    def effects(self) -> Sequence[str]:
        """Names of the effects of the step."""
        ...

    @property
    def began(self) -> str | None:
        """Id of the request whose response began before the step; `None` if none did."""
        ...

    @property
    def answer(self) -> Answer | None:
        """Answer to the caller; `None` if there was none."""
        ...


class Audit:
    """Repeats the recorded steps of one session in order, and compares the results with the records.

    The recorded history and the recomputed one each extend an append-only log of their own: if two histories extended
    the same log, one of them would have to copy it.
    """

    def __init__(self) -> None:
        self._last: State | None = None  # state after the last record
        self._history = EMPTY_HISTORY  # equal to the history of that state, on the log of today's steps

    def differences(self, old: State, new: State, record: RecordedStep) -> tuple[Difference, ...]:
        """Repeat the step of *record* from state *old*; return where the result differs from *record* or *new*.

        If today's code cannot make the step, that is returned as a difference and not raised.
        """
        start = old.but(history=self._history) if old is self._last else old
        self._last = None
        try:
            again = redo(
                start, record.arrival, RecordedRunner(record.rulings, start.session_id, record.number), record.began
            )
        except ReplayDiffers as differs:
            _, _, what = differs.args
            return (Difference(record.number, "rulings", _listed(record.rulings), str(what)),)
        except Exception as error:  # noqa: BLE001 - any error of today's code is a finding of the audit
            return (Difference(record.number, "step", type(record.arrival.input).__name__, error_text(error)),)
        histories = _histories(old, new, start, again.state)
        if histories[0] == histories[1]:
            self._last, self._history = new, again.state.history
        differing = _differing(record, new, again, histories)
        return tuple(Difference(record.number, what, then, now) for what, then, now in differing)


def differences(old: State, new: State, record: RecordedStep) -> tuple[Difference, ...]:
    """Repeat one recorded step and return where the result differs from *record*: see `Audit.differences`."""
    return Audit().differences(old, new, record)


def _histories(old: State, new: State, start: State, again: State) -> tuple[Sequence[Message], Sequence[Message]]:
    """Return the recorded and the recomputed history to compare; only the new messages, if the older ones are equal."""
    recorded, now = new.history.added_to(old.history), again.history.added_to(start.history)
    if recorded is None or now is None:
        return new.history, again.history
    return recorded, now


def _differing(
    record: RecordedStep, after: State, again: Step, histories: tuple[object, object]
) -> Iterator[tuple[str, str, str]]:
    """Yield each part that differs: its name, and the recorded and today's text around the difference."""
    events = _still_stored(record.events)
    again_after = again.state
    if len(events) < len(record.events):
        again_after = again_after.but(last_seq=again_after.last_seq + len(record.events) - len(events))
    pairs: list[tuple[str, object, object]] = [
        ("events", events, again.events),
        ("effects", tuple(record.effects), tuple([type(effect).__name__ for effect in again.effects])),
        ("answer", record.answer, again.answer),
    ]
    for what, then, now in chain(pairs, zip(_FIELDS, astuple(after), astuple(again_after), strict=True)):
        recorded, today = histories if what == _HISTORY else (then, now)
        if recorded is not today and recorded != today:
            yield what, *_around(repr(recorded), repr(today))


def _still_stored(events: Sequence[Envelope]) -> tuple[Envelope, ...]:
    """Return *events* without those of a kind that was stored once and is not any more; the others move up."""
    stored = [envelope for envelope in events if not isinstance(envelope.event, Ephemeral)]
    if len(stored) == len(events):
        return tuple(events)
    return tuple([envelope.but(seq=seq) for seq, envelope in enumerate(stored, events[0].seq)])


def _around(then: str, now: str) -> tuple[str, str]:
    """Return both texts, cut to the part around the first place where they differ."""
    same = (index for index, (old, right) in enumerate(zip(then, now, strict=False)) if old != right)
    start = max(0, next(same, min(len(then), len(now))) - BEFORE)
    return then[start : start + LONGEST], now[start : start + LONGEST]


def _listed(rulings: Sequence[Ruling]) -> str:
    """Return the hook names of *rulings* as text."""
    return ", ".join(ruling.hook for ruling in rulings) or "none"
