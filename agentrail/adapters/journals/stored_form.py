"""The stored form of records: nothing that the record, or an earlier one, contains already is stored again.

Of the envelope of an event, only what differs from the event before it is written. `stored_events` has the forms of
events, and `message_index` the references to messages. A ruling that decides nothing is written as the name of its
hook. `full_record` makes the record again.

The pause of a run is left out of its ruling, because the change of the same record has it: it holds what a plugin asked
for, which is most of such a record. An audit needs it in the ruling, so it is put back when the record is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from operator import attrgetter, is_
from typing import Final, TypeAlias, cast

from msgspec import UNSET, UnsetType

from agentrail.adapters.journals.message_index import MessageReferences, MessagesOf, messages_in
from agentrail.adapters.journals.stored_events import STORING, AnyStoredEvent, RecordContext, full_event
from agentrail.core.vocabulary.changes import NO_CHANGE, Change
from agentrail.core.vocabulary.commands import Answer
from agentrail.core.vocabulary.inputs import Arrival
from agentrail.core.vocabulary.state import State
from agentrail.hooks.ruling import ASK, Pause, Ruling
from agentrail.ports.journal import Record, Redaction
from agentrail.values.events.envelope import Envelope
from agentrail.values.messages import Message
from agentrail.values.value import Value, quick


def without_pauses(rulings: tuple[Ruling, ...], change: Change) -> tuple[Ruling, ...]:
    """Return *rulings* without their pauses if the last runs in *change* have the same pauses in the same order."""
    if change.suspended_runs is UNSET or not change.suspended_runs.put:
        return rulings
    pauses = [ruling.pause for ruling in rulings if ruling.verdict is ASK]
    if not pauses or not all(map(is_, pauses, _last_pauses(change, len(pauses)))):
        return rulings
    return tuple([ruling.but(pause=None) if ruling.verdict is ASK else ruling for ruling in rulings])


def with_pauses(rulings: tuple[Ruling, ...], change: Change) -> tuple[Ruling, ...]:
    """Undo `without_pauses`: return *rulings* with the pauses from *change*."""
    asks = [index for index, ruling in enumerate(rulings) if ruling.verdict is ASK and ruling.pause is None]
    if not asks:
        return rulings
    pauses = dict(zip(asks, _last_pauses(change, len(asks)), strict=True))
    return tuple(
        [ruling.but(pause=pauses[index]) if index in pauses else ruling for index, ruling in enumerate(rulings)]
    )


def _last_pauses(change: Change, count: int) -> Sequence[Pause | None]:
    """Return the pauses of the last *count* runs in *change*, with `None` for each that it does not have."""
    added = () if change.suspended_runs is UNSET else change.suspended_runs.put[-count:]
    return (*repeat(None, count - len(added)), *[run.run.pause for run in added])


class EnvelopeChanges(Value):
    """The fields of an event's envelope that differ from those of the event before it; all others are `UNSET`.

    The first event is compared with an envelope that has the record's session, time and `Arrival.by`, no path, and 0 in
    all other fields.
    """

    of: int = 0
    """The index of the event in the record."""
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
    events: tuple[AnyStoredEvent, ...] = ()
    moved: tuple[EnvelopeChanges, ...] = ()
    """Those of the events whose envelope differs by more than the next `seq`: as a rule the first alone."""
    effects: tuple[str, ...] = ()
    change: Change = NO_CHANGE
    began: str | None = None
    command: str | None = None
    answer: Answer | None = None
    opening: State | None = None
    due: int | None = None
    at_work: bool = False
    redacted: Redaction | None = None


EnvelopeFields: TypeAlias = tuple[int, int, int, int, tuple[str, ...], str, str]
"""The fields of an envelope, beside its event and number, that are seldom others than those of the one before it."""

_FIELDS: Final = EnvelopeChanges.__struct_fields__[2:]
_changed_fields: Callable[[EnvelopeChanges], tuple[object, ...]] = attrgetter(*_FIELDS)
_envelope, _record = quick(Envelope), quick(Record)


def stored_record(record: Record, references: MessageReferences) -> StoredRecord:
    """Return *record* in its stored form, which refers to messages of *references*; add its own messages to them."""
    own_messages = messages_in(record.change)
    references.add(record.number, own_messages)
    events, moved = _stored_events(record, own_messages, references)
    return StoredRecord(
        record.arrival,
        tuple([_stored_ruling(ruling) for ruling in without_pauses(record.rulings, record.change)]),
        events=events,
        moved=moved,
        effects=record.effects,
        change=record.change,
        began=record.began,
        command=record.command,
        answer=record.answer,
        opening=record.opening,
        due=record.due,
        at_work=record.at_work,
        redacted=record.redacted,
    )


def _stored_ruling(ruling: Ruling) -> Ruling | str:
    return ruling.hook if ruling == Ruling(ruling.hook) else ruling


def _stored_events(
    record: Record, own_messages: Sequence[Message], references: MessageReferences
) -> tuple[tuple[AnyStoredEvent, ...], tuple[EnvelopeChanges, ...]]:
    events: list[AnyStoredEvent] = []
    moved: list[EnvelopeChanges] = []
    turn, round, n, time, path, by, session_id = _before_first(record.session_id, record.arrival)  # noqa: A001 - as the field
    context: RecordContext | None = None  # few events need it
    previous, seq = None, 1
    for envelope in record.events:
        event = envelope.event
        if (
            envelope.seq != seq
            or envelope.turn != turn
            or envelope.round != round
            or envelope.n != n
            or envelope.at != time
            or envelope.path != path
            or envelope.by != by
            or envelope.session_id != session_id
        ):
            moved.append(_envelope_changes(len(events), envelope, seq, (turn, round, n, time, path, by, session_id)))
            turn, round, n, time = envelope.turn, envelope.round, envelope.n, envelope.at  # noqa: A001 - as the field
            path, by, session_id = envelope.path, envelope.by, envelope.session_id
        storing = STORING.get(type(event))
        if storing is None:
            events.append(event)
        else:
            context = context or RecordContext(record.number, record.arrival, own_messages)
            context.before = previous
            events.append(storing(event, context, references))
        seq, previous = envelope.seq + 1, event
    if context is not None and context.ends_turn:
        references.end_turn()
    return tuple(events), tuple(moved)


def _envelope_changes(of: int, envelope: Envelope, following: int, fields: EnvelopeFields) -> EnvelopeChanges:
    """Return the fields of *envelope*, of the event with the index *of*, that differ from *fields*.

    *fields* has the fields of the event before it.

    *following* is the sequence number after that of the event before it.
    """
    turn, round, n, time, path, by, session_id = fields  # noqa: A001 - as the field
    return EnvelopeChanges(
        of,
        UNSET if envelope.seq == following else envelope.seq,
        UNSET if envelope.turn == turn else envelope.turn,
        UNSET if envelope.round == round else envelope.round,
        UNSET if envelope.n == n else envelope.n,
        UNSET if envelope.at == time else envelope.at,
        UNSET if envelope.path == path else envelope.path,
        UNSET if envelope.by == by else envelope.by,
        UNSET if envelope.session_id == session_id else envelope.session_id,
    )


def _before_first(session_id: str, arrival: Arrival) -> EnvelopeFields:
    return 0, 0, 0, arrival.at, (), arrival.by, session_id


def full_record(form: StoredRecord, session_id: str, number: int, earlier: MessagesOf) -> Record:
    """Rebuild the record from its stored *form*, with all fields that the form leaves out.

    *earlier* returns the messages of earlier records; a message of a damaged record is replaced by a notice. Raise
    `MisfitError` if a reference leads nowhere.
    """
    return _record(
        session_id,
        number,
        form.arrival,
        with_pauses(
            tuple([Ruling(ruling) if isinstance(ruling, str) else ruling for ruling in form.rulings]), form.change
        ),
        _full_events(form, RecordContext(number, form.arrival, messages_in(form.change)), session_id, earlier),
        form.effects,
        form.change,
        form.began,
        form.command,
        form.answer,
        form.opening,
        form.due,
        form.at_work,
        form.redacted,
    )


def _full_events(
    form: StoredRecord, context: RecordContext, session_id: str, earlier: MessagesOf
) -> tuple[Envelope, ...]:
    events: list[Envelope] = []
    fields, seq = _before_first(session_id, form.arrival), 0
    moved = {item.of: item for item in form.moved}
    for index, item in enumerate(form.events):
        event, changed = full_event(item, context, earlier, index), moved.get(index)
        seq += 1
        if changed is not None:
            seq = seq if changed.seq is UNSET else changed.seq
            pairs = zip(_changed_fields(changed), fields, strict=True)
            fields = cast("EnvelopeFields", tuple([old if new is UNSET else new for new, old in pairs]))
        turn, round, n, time, path, by, session = fields  # noqa: A001 - as the field
        events.append(_envelope(session, seq, n, time, turn, round, event, path, by))
        context.before = event
    return tuple(events)
