"""The form in which a record is stored: what it, or an earlier record, says already is not said again.

Of the envelope of an event, only what differs from the event before it is written. A message stands in the change of
one record, which appends it to the history, or is the result of a call in it. The events that repeat it
(`AgentEnd`, `ResponseComplete`) refer to that place. `whole` puts the messages in place of the references again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, Union

from msgspec import UNSET, UnsetType

from agentrail.codec.misfit import MisfitError
from agentrail.core.vocabulary.changes import NO_CHANGE, Appended, Change, ChangedCalls
from agentrail.core.vocabulary.commands import Answer
from agentrail.core.vocabulary.inputs import Arrival
from agentrail.core.vocabulary.state import State
from agentrail.hooks.ruling import Ruling
from agentrail.ports.journal import Record, Redaction
from agentrail.values.content import Text
from agentrail.values.events import EVENTS
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.events.life import AgentAbort, AgentEnd
from agentrail.values.events.response import ResponseComplete
from agentrail.values.messages import AssistantMessage, Message, Origin, Rearranged, ToolMessage, UserMessage
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import TAG, Value, quick

MessageAt: TypeAlias = tuple[int, int]
"""A reference to a message: the number of the record whose change holds it, and its index in `messages_in` there."""

LOST: Final = "[lost: record {} cannot be read]"
"""The text of the message that stands for one whose record is damaged."""

MOST_SESSIONS: Final = 1000
"""The most sessions whose messages are remembered by a journal, so that events can refer to them."""

MessagesOf: TypeAlias = Callable[[int], Sequence[Message] | None]
"""A function that returns the messages in the change of an earlier record; `None` if that cannot be read."""


class StoredAgentEnd(Value, tag_field=TAG, tag=AgentEnd.__name__):
    """An `AgentEnd`, with references in place of messages that are stored already."""

    ref: str
    stop_reason: str
    messages: tuple[Message | MessageAt, ...] = ()
    usage: Usage = NOTHING_USED


class StoredResponseComplete(Value, tag_field=TAG, tag=ResponseComplete.__name__):
    """A `ResponseComplete`; its message is the index in `messages_in` of the record's own change, if it is there."""

    message: AssistantMessage | int


if TYPE_CHECKING:
    AnyStoredEvent: TypeAlias = Event | StoredAgentEnd | StoredResponseComplete
else:
    _FORMS: Final = {AgentEnd: StoredAgentEnd, ResponseComplete: StoredResponseComplete}
    AnyStoredEvent = Union[tuple(_FORMS.get(cls, cls) for cls in EVENTS)]  # noqa: UP007 - `|` takes no tuple


class StoredEvent(Value):
    """An event, and what of its envelope differs from the event before it; the other fields are `UNSET`.

    The first event follows one of the record's session and time, with no path, and 0 in all other fields.
    """

    event: AnyStoredEvent
    seq: int | UnsetType = UNSET
    """`Envelope.seq`, unless it is the next number."""
    turn: int | UnsetType = UNSET
    round: int | UnsetType = UNSET
    n: int | UnsetType = UNSET
    at: int | UnsetType = UNSET
    path: tuple[str, ...] | UnsetType = UNSET
    session_id: str | UnsetType = UNSET


class StoredRecord(Value):
    """A `Record` without its session and number: the journal knows them from where the record is stored."""

    arrival: Arrival
    rulings: tuple[Ruling, ...] = ()
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


_AS_THEY_ARE: Final = tuple(name for name in StoredRecord.__struct_fields__ if name != "events")
_envelope = quick(Envelope)


def messages_in(change: Change) -> list[Message]:
    """Return the messages that *change* holds: those of the history, then the results of calls.

    A redaction keeps each in its place.
    """
    found: list[Message] = []
    history, batch = change.history, change.batch
    if isinstance(history, Appended | Rearranged):
        pieces: Iterable[object] = history.messages if isinstance(history, Appended) else history.pieces
        found += [piece for piece in pieces if isinstance(piece, UserMessage | AssistantMessage | ToolMessage)]
    if isinstance(batch, ChangedCalls):
        found += [put.result for put in batch.put if isinstance(put.result, ToolMessage)]
    return found


class MessagePlaces:
    """Where the messages of a session's open turn are stored; they are found by identity."""

    __slots__ = ("_last", "_places")

    def __init__(self) -> None:
        self._last = 0
        self._places: dict[int, tuple[Message, MessageAt]] = {}  # a message in it is kept: its `id` stays its own

    def add(self, record: Record) -> None:
        """Note where the messages in the change of *record* are; those stored before keep their places.

        A record that is no successor of the last one takes the place of one that was not written after all, or follows
        records that were not packed here. Then only the places in earlier records, or none, are kept.
        """
        number = record.number
        if number != self._last + 1:
            self._keep(range(1, number if number <= self._last else 1))
        self._last = number
        for index, message in enumerate(messages_in(record.change)):
            self._places.setdefault(id(message), (message, (number, index)))

    def end_turn(self) -> None:
        """Forget the messages in records before the last one: no later event repeats them."""
        self._keep(range(self._last, self._last + 1))

    def _keep(self, numbers: range) -> None:
        self._places = {key: found for key, found in self._places.items() if found[1][0] in numbers}

    def said(self, message: Message) -> MessageAt | None:
        """Return where *message* is stored; `None` if that is not known."""
        found = self._places.get(id(message))
        return None if found is None else found[1]


class PlacesBySession:
    """The message places of the sessions that a journal has written last; of others, messages are written again."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, MessagePlaces] = {}

    def __getitem__(self, session_id: str) -> MessagePlaces:
        found = self._known.pop(session_id, None) or MessagePlaces()
        self._known[session_id] = found
        if len(self._known) > MOST_SESSIONS:
            del self._known[next(iter(self._known))]
        return found

    def clear(self) -> None:
        """Forget all places: records were not written after all, or another process may write the sessions."""
        self._known.clear()


def nothing_earlier(_: int) -> Sequence[Message]:
    """Return no messages: the record is to stand alone, and refers to no earlier one."""
    return ()


# Writing


def stored(record: Record, places: MessagePlaces) -> StoredRecord:
    """Return *record* in its stored form, with references to the messages in *places*; add its own messages there."""
    places.add(record)
    fields = {name: getattr(record, name) for name in _AS_THEY_ARE}
    made = StoredRecord(events=tuple(_stored_events(record, places)), **fields)
    if any(isinstance(envelope.event, AgentEnd | AgentAbort) for envelope in record.events):
        places.end_turn()
    return made


def _stored_events(record: Record, places: MessagePlaces) -> Iterator[StoredEvent]:
    before = _before_first(record.session_id, record.arrival)
    for envelope in record.events:
        differs: dict[str, object] = {} if envelope.seq == before.seq + 1 else {"seq": envelope.seq}
        for name in ("turn", "round", "n", "at", "path", "session_id"):
            value: object = getattr(envelope, name)
            if value != getattr(before, name):
                differs[name] = value
        yield StoredEvent(_stored_event(envelope.event, places, record.number), **differs)  # type: ignore[arg-type]
        before = envelope


def _before_first(session_id: str, arrival: Arrival) -> Envelope:
    return _envelope(session_id, 0, 0, arrival.at, 0, 0, Event())


def _stored_event(event: Event, places: MessagePlaces, number: int) -> AnyStoredEvent:
    match event:
        case AgentEnd(ref, stop, messages, usage):
            return StoredAgentEnd(ref, stop, tuple([places.said(each) or each for each in messages]), usage)
        case ResponseComplete(message):
            home, index = places.said(message) or (0, 0)
            return StoredResponseComplete(index if home == number else message)
        case _:
            return event


# Reading


def whole(form: StoredRecord, session_id: str, number: int, earlier: MessagesOf) -> Record:
    """Return the record of the stored *form*, with the messages themselves in place of references.

    A message of a damaged record is replaced by one that says so. Raise `MisfitError` if a reference leads nowhere.
    """
    own = messages_in(form.change)
    events: list[Envelope] = []
    before = _before_first(session_id, form.arrival)
    for place, each in enumerate(form.events):
        event = _whole_event(each.event, number, own, earlier, f".events[{place}].event")
        before = _whole_envelope(each, before, event)
        events.append(before)
    fields = {name: getattr(form, name) for name in _AS_THEY_ARE}
    return Record(session_id, number, events=tuple(events), **fields)


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
    )


def _whole_event(form: AnyStoredEvent, number: int, own: Sequence[Message], earlier: MessagesOf, at: str) -> Event:
    match form:
        case StoredAgentEnd(ref, stop, messages, usage):
            found: list[Message] = []
            for place, each in enumerate(messages):
                if isinstance(each, tuple):
                    home = own if each[0] == number else earlier(each[0]) if 0 < each[0] < number else ()
                    found.append(_message_at(each, home, f"{at}.messages[{place}]"))
                else:
                    found.append(each)
            return AgentEnd(ref, stop, tuple(found), usage)
        case StoredResponseComplete(message):
            if not isinstance(message, int):
                return ResponseComplete(message)
            at = f"{at}.message"
            response = _message_at((number, message), own, at)
            if not isinstance(response, AssistantMessage):
                raise MisfitError(at, "refers to a message that is no response")
            return ResponseComplete(response)
        case _:
            return form


def _message_at(reference: MessageAt, home: Sequence[Message] | None, at: str) -> Message:
    """Return the message that *reference* means, of those in its *home*; `None` if its record cannot be read."""
    number, index = reference
    if home is None:
        return UserMessage((Text(LOST.format(number)),), Origin.NOTICE)
    if not 0 <= index < len(home):
        raise MisfitError(at, f"refers to message {index} of record {number}, which has {len(home)}")
    return home[index]
