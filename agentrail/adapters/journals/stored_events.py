"""The stored form of events: it leaves out fields whose values follow from the record, or from an earlier one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, Union

from msgspec import UNSET, Struct, UnsetType

from agentrail.adapters.journals.message_index import MessageReference, MessageReferences, MessagesOf, message_at
from agentrail.codec.decode_error import MisfitError
from agentrail.core.vocabulary.inputs import Arrival, ToolReturned
from agentrail.values.content import Part, ToolCall
from agentrail.values.events import EVENTS
from agentrail.values.events.envelope import Event
from agentrail.values.events.life import AgentAbort, AgentEnd
from agentrail.values.events.response import ResponseComplete
from agentrail.values.events.tools import ToolExecutionEnd, ToolExecutionMetrics, ToolExecutionStart
from agentrail.values.json import JsonObject
from agentrail.values.messages import AssistantMessage, Message
from agentrail.values.tools import Err, Ok, StandingApproval
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import TAG, Value


class StoredAgentEnd(Value, tag_field=TAG, tag=AgentEnd.__name__):
    """An `AgentEnd`, with references in place of messages that are stored already."""

    ref: str
    reason: str
    messages: tuple[Message | MessageReference, ...] = ()
    usage: Usage = NOTHING_USED
    fits: bool = False


class StoredResponseComplete(Value, tag_field=TAG, tag=ResponseComplete.__name__):
    """A `ResponseComplete`; its message is the index in `messages_in` of the record's own change, if it is there."""

    message: AssistantMessage | int
    replaced_by: tuple[str, ...] = ()


class StoredToolExecutionStart(Value, tag_field=TAG, tag=ToolExecutionStart.__name__):
    """A `ToolExecutionStart`; name and arguments are `UNSET` if they are those of the call in the record's message."""

    call_id: str
    name: str | UnsetType = UNSET
    args: JsonObject | UnsetType = UNSET
    attempt: int = 1
    standing: tuple[StandingApproval, ...] = ()


class StoredToolExecutionEnd(Value, tag_field=TAG, tag=ToolExecutionEnd.__name__):
    """A `ToolExecutionEnd`; a field that is `UNSET` has the value from the result in the record's input."""

    name: str
    call_id: str | UnsetType = UNSET
    content: tuple[Part, ...] | UnsetType = UNSET
    is_error: bool | UnsetType = UNSET
    details: JsonObject | UnsetType | None = UNSET
    late: bool = False


class StoredToolExecutionMetrics(Value, tag_field=TAG, tag=ToolExecutionMetrics.__name__):
    """A `ToolExecutionMetrics`; fields that follow from the `ToolExecutionEnd` before it or the time are `UNSET`."""

    duration_ms: int
    call_id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    started_at_ms: int | UnsetType = UNSET
    ended_at_ms: int | UnsetType = UNSET


_Abridged: TypeAlias = StoredToolExecutionStart | StoredToolExecutionEnd | StoredToolExecutionMetrics
_Unabridged: TypeAlias = ToolExecutionStart | ToolExecutionEnd | ToolExecutionMetrics

_ABRIDGED: Final[Mapping[type[object], Callable[..., _Abridged]]] = MappingProxyType(
    {
        ToolExecutionStart: StoredToolExecutionStart,
        ToolExecutionEnd: StoredToolExecutionEnd,
        ToolExecutionMetrics: StoredToolExecutionMetrics,
    }
)
"""The stored form of each event that leaves out what its surroundings say."""

_FULL: Final[Mapping[type[object], Callable[..., Event]]] = MappingProxyType(
    {
        StoredToolExecutionStart: ToolExecutionStart,
        StoredToolExecutionEnd: ToolExecutionEnd,
        StoredToolExecutionMetrics: ToolExecutionMetrics,
    }
)
"""The event of each of these forms."""

if TYPE_CHECKING:
    AnyStoredEvent: TypeAlias = Event | StoredAgentEnd | StoredResponseComplete | _Abridged
else:
    _FORMS: Final = {AgentEnd: StoredAgentEnd, ResponseComplete: StoredResponseComplete, **_ABRIDGED}
    AnyStoredEvent = Union[tuple(_FORMS.get(cls, cls) for cls in EVENTS)]  # noqa: UP007 - `|` takes no tuple


class RecordContext(Struct):
    """The parts of a record from which fields of its events can be derived."""

    number: int
    arrival: Arrival
    own: Sequence[Message]
    """The messages in the record's change."""
    before: Event | None = None
    """The event before this one in the record."""
    ends_turn: bool = False
    """Whether an event of the record ends the turn."""
    _calls: dict[str, ToolCall] | None = None

    def call(self, call_id: str) -> ToolCall | None:
        """Return a call in a message of the record's change, by its id."""
        if self._calls is None:
            calls = (call for message in self.own if isinstance(message, AssistantMessage) for call in message.calls)
            self._calls = {call.call_id: call for call in calls}
        return self._calls.get(call_id)


def _of_start(event: ToolExecutionStart | StoredToolExecutionStart, context: RecordContext) -> dict[str, object]:
    call = context.call(event.call_id)
    return {} if call is None else {"name": call.name, "args": call.args}


def _of_end(_: ToolExecutionEnd | StoredToolExecutionEnd, context: RecordContext) -> dict[str, object]:
    input_ = context.arrival.input
    if not isinstance(input_, ToolReturned) or not isinstance(input_.result, Ok | Err):
        return {}
    result = input_.result
    is_error = isinstance(result, Err)
    return {"call_id": input_.call_id, "content": result.content, "is_error": is_error, "details": result.details}


def _of_metrics(event: ToolExecutionMetrics | StoredToolExecutionMetrics, context: RecordContext) -> dict[str, object]:
    now, previous = context.arrival.at, context.before
    times: dict[str, object] = {"started_at_ms": now - event.duration_ms, "ended_at_ms": now}
    if isinstance(previous, ToolExecutionEnd):
        return {"call_id": previous.call_id, "name": previous.name, **times}
    return times


def _derived_fields(event: _Abridged | _Unabridged, context: RecordContext) -> dict[str, object]:
    """Return the fields of *event* whose values follow from the record, with these values."""
    match event:
        case ToolExecutionStart() | StoredToolExecutionStart():
            return _of_start(event, context)
        case ToolExecutionEnd() | StoredToolExecutionEnd():
            return _of_end(event, context)
        case ToolExecutionMetrics() | StoredToolExecutionMetrics():
            return _of_metrics(event, context)


def _stored_end(event: AgentEnd, context: RecordContext, references: MessageReferences) -> StoredAgentEnd:
    context.ends_turn = True
    messages: list[Message | MessageReference] = []
    referred = set[MessageReference]()
    for message in event.messages:
        reference = references.reference_to(message)
        if (
            reference is None or reference in referred
        ):  # the texts of a repeated one are shared by `text_dedup`, and counted
            messages.append(message)
        else:
            messages.append(reference)
            referred.add(reference)
    return StoredAgentEnd(event.ref, event.reason, tuple(messages), event.usage, event.fits)


def _stored_abort(event: AgentAbort, context: RecordContext, _: MessageReferences) -> AgentAbort:
    context.ends_turn = True
    return event


def _stored_response(
    event: ResponseComplete, context: RecordContext, references: MessageReferences
) -> StoredResponseComplete:
    home, index = references.reference_to(event.message) or (0, 0)
    return StoredResponseComplete(index if home == context.number else event.message, event.replaced_by)


def _abridge(event: _Unabridged, context: RecordContext, _: MessageReferences) -> _Abridged:
    derived = _derived_fields(event, context)
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    different = {
        name: value for name, value in fields.items() if not (name in derived and _is_same(derived[name], value))
    }
    return _ABRIDGED[type(event)](**different)


STORING: Final[Mapping[type[object], Callable[..., AnyStoredEvent]]] = {
    AgentAbort: _stored_abort,
    AgentEnd: _stored_end,
    ResponseComplete: _stored_response,
    **dict.fromkeys(_ABRIDGED, _abridge),
}
"""The functions that return the stored form of events of some classes; an event of another class is its own form.

Whoever stores an event looks here: a function between would be called for each event, and few have a form. For the same
reason it is a plain `dict`.
"""


def _is_same(value: object, other: object) -> bool:
    return value is other or (type(value) is type(other) and isinstance(value, str | int) and value == other)


def full_event(form: AnyStoredEvent, context: RecordContext, earlier: MessagesOf, index: int) -> Event:
    """Return the event of a stored *form*, the one with that *index* in its record.

    Raise `MisfitError` if *form* leaves out a field that does not follow from the record.
    """
    if isinstance(form, Event):
        return form
    path = f".events[{index}]"
    match form:
        case StoredAgentEnd(ref, stop, messages, usage, fits):
            return AgentEnd(ref, stop, _full_messages(messages, context, earlier, f"{path}.messages"), usage, fits)
        case StoredResponseComplete(message, replaced_by):
            return ResponseComplete(_full_response(message, context, f"{path}.message"), replaced_by)
        case StoredToolExecutionStart() | StoredToolExecutionEnd() | StoredToolExecutionMetrics():
            return _FULL[type(form)](**_all_fields(form, context, path))


def _full_response(message: AssistantMessage | int, context: RecordContext, path: str) -> AssistantMessage:
    if not isinstance(message, int):
        return message
    response = message_at((context.number, message), context.own, path)
    if not isinstance(response, AssistantMessage):
        raise MisfitError(path, "refers to a message that is no response")
    return response


MAX_REPEATED: Final = 1024 * 1024
"""The most bytes of messages that an event may repeat by references; see `_stored_end`, which repeats none."""


def _full_messages(
    messages: Sequence[Message | MessageReference], context: RecordContext, earlier: MessagesOf, path: str
) -> tuple[Message, ...]:
    full_messages: list[Message] = []
    for index, item in enumerate(messages):
        if isinstance(item, tuple):
            home, number = item[0], context.number
            home_messages = context.own if home == number else earlier(home) if 0 < home < number else ()
            full_messages.append(message_at(item, home_messages, f"{path}[{index}]"))
        else:
            full_messages.append(item)
    references = [item for item in messages if isinstance(item, tuple)]
    if len(references) > len(set(references)):
        _check_repeated(messages, full_messages, path)
    return tuple(full_messages)


def _check_repeated(
    messages: Sequence[Message | MessageReference], full_messages: Sequence[Message], path: str
) -> None:
    """Raise `MisfitError` if the references in *messages* repeat too much of *full_messages*."""
    from agentrail.codec.values import write  # noqa: PLC0415 - costs 20 ms, and hardly any record needs it

    sizes: dict[MessageReference, int] = {}
    repeated = 0
    for item, message in zip(messages, full_messages, strict=True):
        if isinstance(item, tuple):
            repeated += sizes.get(item, 0)
            if item not in sizes:
                sizes[item] = len(write(message))
    if repeated > MAX_REPEATED:
        raise MisfitError(path, f"repeats {repeated:,} bytes of messages, and may repeat {MAX_REPEATED:,}")


def _all_fields(form: _Abridged, context: RecordContext, path: str) -> dict[str, object]:
    """Return all fields of a stored event; fields that it leaves out are derived from the record."""
    derived = _derived_fields(form, context)
    fields = {name: getattr(form, name) for name in form.__struct_fields__}
    for name, value in fields.items():
        if value is UNSET:
            if name not in derived:
                raise MisfitError(path, f"lacks `{name}`, which nothing in its record says")
            fields[name] = derived[name]
    return fields
