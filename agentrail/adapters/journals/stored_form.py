"""The form in which a record is stored: what it, or an earlier record, says already is not said again.

Of the envelope of an event, only what differs from the event before it is written. `stored_events` has the forms of
events, and `message_places` the references to messages. A ruling that decides nothing is written as the name of its
hook. `whole` makes the record again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, UnsetType

from agentrail.adapters.journals.message_places import MessagePlaces, MessagesOf, messages_in
from agentrail.adapters.journals.stored_events import AnyStoredEvent, Surroundings, stored_event, whole_event
from agentrail.core.vocabulary.changes import NO_CHANGE, Change
from agentrail.core.vocabulary.commands import Answer
from agentrail.core.vocabulary.inputs import Arrival
from agentrail.core.vocabulary.state import State
from agentrail.hooks.ruling import Ruling
from agentrail.ports.journal import Record, Redaction
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.events.life import AgentAbort, AgentEnd
from agentrail.values.value import Value, quick


class StoredEvent(Value):
    """An event, and what of its envelope differs from the event before it; the other fields are `UNSET`.

    The first event follows one of the record's session, time and `Arrival.by`, with no path, and 0 in all other fields.
    """

    event: AnyStoredEvent
    seq: int | UnsetType = UNSET
    """`Envelope.seq`, unless it is the next number."""
    turn: int | UnsetType = UNSET
    round: int | UnsetType = UNSET
    n: int | UnsetType = UNSET
    at: int | UnsetType = UNSET
    path: tuple[str, ...] | UnsetType = UNSET
    by: str | UnsetType = UNSET
    session_id: str | UnsetType = UNSET


class StoredRecord(Value):
    """A `Record` without its session and number: the journal knows them from where the record is stored."""

    arrival: Arrival
    rulings: tuple[Ruling | str, ...] = ()
    """The rulings; of one that decides nothing, the name of its hook."""
    events: tuple[StoredEvent, ...] = ()
    effects: tuple[str, ...] = ()
    change: Change = NO_CHANGE
    began: str | None = None
    command: str | None = None
    answer: Answer | None = None
    opening: State | None = None
    due: int | None = None
    at_work: bool = False
    redacted: Redaction | None = None


_CHANGED: Final = ("events", "rulings")
_AS_THEY_ARE: Final = tuple(name for name in StoredRecord.__struct_fields__ if name not in _CHANGED)
_OF_ENVELOPE: Final = tuple(name for name in StoredEvent.__struct_fields__ if name not in {"event", "seq"})
_envelope = quick(Envelope)


def stored(record: Record, places: MessagePlaces) -> StoredRecord:
    """Return *record* in its stored form, with references to the messages in *places*; add its own messages there."""
    places.add(record)
    fields = {name: getattr(record, name) for name in _AS_THEY_ARE}
    rulings = tuple([ruling.hook if ruling == Ruling(ruling.hook) else ruling for ruling in record.rulings])
    made = StoredRecord(rulings=rulings, events=tuple(_stored_events(record, places)), **fields)
    if any(isinstance(envelope.event, AgentEnd | AgentAbort) for envelope in record.events):
        places.end_turn()
    return made


def _stored_events(record: Record, places: MessagePlaces) -> Iterator[StoredEvent]:
    around = Surroundings(record.number, record.arrival, messages_in(record.change))
    before = _before_first(record.session_id, record.arrival)
    for envelope in record.events:
        differs: dict[str, object] = {} if envelope.seq == before.seq + 1 else {"seq": envelope.seq}
        for name in _OF_ENVELOPE:
            value: object = getattr(envelope, name)
            if value != getattr(before, name):
                differs[name] = value
        yield StoredEvent(stored_event(envelope.event, around, places), **differs)  # type: ignore[arg-type]
        before, around.before = envelope, envelope.event


def _before_first(session_id: str, arrival: Arrival) -> Envelope:
    return _envelope(session_id, 0, 0, arrival.at, 0, 0, Event(), (), arrival.by)


def whole(form: StoredRecord, session_id: str, number: int, earlier: MessagesOf) -> Record:
    """Return the record of the stored *form*, with all that it does not repeat.

    *earlier* returns the messages of earlier records; one of a damaged record is replaced by one that says so. Raise
    `MisfitError` if a reference leads nowhere.
    """
    around = Surroundings(number, form.arrival, messages_in(form.change))
    events: list[Envelope] = []
    before = _before_first(session_id, form.arrival)
    for place, each in enumerate(form.events):
        event = whole_event(each.event, around, earlier, f".events[{place}].event")
        before, around.before = _whole_envelope(each, before, event), event
        events.append(before)
    rulings = tuple([Ruling(ruling) if isinstance(ruling, str) else ruling for ruling in form.rulings])
    fields = {name: getattr(form, name) for name in _AS_THEY_ARE}
    return Record(session_id, number, rulings=rulings, events=tuple(events), **fields)


def _whole_envelope(form: StoredEvent, before: Envelope, event: Event) -> Envelope:
    return _envelope(
        before.session_id if form.session_id is UNSET else form.session_id,
        before.seq + 1 if form.seq is UNSET else form.seq,
        before.n if form.n is UNSET else form.n,
        before.at if form.at is UNSET else form.at,
        before.turn if form.turn is UNSET else form.turn,
        before.round if form.round is UNSET else form.round,
        event,
        before.path if form.path is UNSET else form.path,
        before.by if form.by is UNSET else form.by,
    )
