"""The audit of a session: where today's step would do otherwise than its records say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final, Protocol

from msgspec.structs import astuple

from agentrail.core.machine.step import Step, redo
from agentrail.core.vocabulary.commands import Answer
from agentrail.core.vocabulary.folding import NAMES
from agentrail.core.vocabulary.inputs import Arrival
from agentrail.core.vocabulary.state import State
from agentrail.errors import ReplayDiffers
from agentrail.hooks.ruling import Ruling
from agentrail.values.events.envelope import Envelope
from agentrail.values.foreign import crash
from agentrail.values.value import Value

BEFORE: Final = 60
"""How many characters of a text a finding shows from before the difference."""

LONGEST: Final = 400
"""How many characters of a text a finding shows."""

_FIELDS: Final = tuple([f"state.{name}" for name in NAMES])


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
    """What an audit needs of a record."""

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


def differences(before: State, after: State, record: RecordedStep) -> tuple[Difference, ...]:
    """Return where today's step does otherwise than *record*, which leads from the state *before* to *after*.

    A step that cannot be made any more is a difference too, and not an error.
    """
    try:
        again = redo(before, record.arrival, record.rulings, record.began, record.number)
    except ReplayDiffers as differs:
        _, _, what = differs.args
        return (Difference(record.number, "rulings", _listed(record.rulings), str(what)),)
    except Exception as error:  # noqa: BLE001 - whatever today's code raises is what the audit is to tell
        return (Difference(record.number, "step", type(record.arrival.input).__name__, crash(error)),)
    found = _compared(record, after, again)
    return tuple(Difference(record.number, what, then, now) for what, then, now in found)


def _compared(record: RecordedStep, after: State, again: Step) -> Iterator[tuple[str, str, str]]:
    pairs: list[tuple[str, object, object]] = [
        ("events", tuple(record.events), again.events),
        ("effects", tuple(record.effects), tuple([type(effect).__name__ for effect in again.effects])),
        ("answer", record.answer, again.answer),
    ]
    for what, then, now in chain(pairs, zip(_FIELDS, astuple(after), astuple(again.state), strict=True)):
        if then is not now and then != now:
            yield what, *_around(repr(then), repr(now))


def _around(then: str, now: str) -> tuple[str, str]:
    """Return the part of two texts in which they begin to differ."""
    same = (place for place, (one, other) in enumerate(zip(then, now, strict=False)) if one != other)
    start = max(0, next(same, min(len(then), len(now))) - BEFORE)
    return then[start : start + LONGEST], now[start : start + LONGEST]


def _listed(rulings: Sequence[Ruling]) -> str:
    return ", ".join(ruling.hook for ruling in rulings) or "none"
