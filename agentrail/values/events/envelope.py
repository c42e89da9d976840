"""Base classes of events, and the envelope with the place and time of each."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Never, final

import msgspec
from typing_extensions import dataclass_transform

from agentrail.hints import missing_attribute
from agentrail.other_names import hint_for
from agentrail.values.personal import Kept
from agentrail.values.value import TAG, Authored, AuthoredKind


class Cursor(NamedTuple):
    """A position in a session's stream of events, to continue reading from."""

    seq: int
    """Sequence number of the last durable event up to here."""
    n: int = 0
    """Number of ephemeral events since that one."""

    def __str__(self) -> str:
        return f"{self.seq}.{self.n}"


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class _EventKind(AuthoredKind):
    """Metaclass of events: warns a caller who asks whether an envelope is an event, which is never true.

    A `match` on the envelope asks so too, and none of its cases would run. Type checkers know it by themselves, because
    `Envelope` is final. Python calls the method only if the class of the object is another one, so a check that is true
    costs nothing, and one that is false a tenth of a microsecond.
    """

    if not TYPE_CHECKING:  # type checkers would believe that it may be true

        def __instancecheck__(cls, instance: object) -> bool:  # noqa: N805 - `self` is a class
            """Return whether *instance* is an event of this class, or of one below it."""
            if type(instance) is Envelope and "durable" not in vars(cls):  # not of the two bases, which tell them apart
                problem = f"an `Envelope` is no `{cls.__name__}`: match its `event`, as in `match envelope.event:`"
                warnings.warn(problem, RuntimeWarning, stacklevel=2)
            return type.__instancecheck__(cls, instance)  # twice as quick as by `super`


class Event(Authored, metaclass=_EventKind, tag_field=TAG):
    """Something that happened in a session."""

    durable: ClassVar[bool] = True

    if not TYPE_CHECKING:  # hidden from type checkers, so that they report missing fields

        def __getattr__(self, name: str) -> Never:
            """Raise the `AttributeError`, with a hint if there is one; warn if a pattern may have asked.

            A pattern such as `case ApprovalRequired(id=id)` drops the error and fits nothing, so that a program which
            decides there would wait in silence.
            """
            kind = type(self).__name__
            if hint := hint_for(kind, name):
                warnings.warn(f"`{kind}` has no `{name}`: {hint}", RuntimeWarning, stacklevel=2)
            raise missing_attribute(kind if hint else "Event", self, name)


class Ephemeral(Event):
    """Base of events that are not stored, such as deltas; they have no sequence number of their own."""

    durable: ClassVar[bool] = False


@final
class Envelope(Authored):
    """An event with its session, its place in the stream and its time."""

    session_id: Kept[str]
    """Id of the session."""
    seq: int
    """Sequence number of the event, without gaps in a session; of an ephemeral event: that of the last durable one."""
    n: int
    """Number of an ephemeral event since the last durable one, from 1; 0 for a durable event."""
    at: int
    """When the event happened, in milliseconds since 1970."""
    turn: int
    """Number of the turn, 0 before the first."""
    round: int
    """Number of the round in the turn, 0 before the first."""
    event: Event
    """The event itself."""
    path: Kept[tuple[str, ...]] = ()
    """For a sub-agent's event: the ids of the parent session and call, outermost first; else empty."""
    by: Kept[str] = ""
    """Who gave the command of the step that the event is part of, as the caller said; empty if nobody said so."""

    if not TYPE_CHECKING:  # hidden from type checkers, so that they report missing fields

        def __getattr__(self, name: str) -> Never:
            """Raise the `AttributeError`; it says so if the event has the attribute."""
            if name in self.event.__struct_fields__:
                problem = (
                    f"'Envelope' object has no attribute {name!r}: its event has it; write `envelope.event.{name}`"
                )
                raise AttributeError(problem)
            raise missing_attribute("Envelope", self, name)

    @property
    def cursor(self) -> Cursor:
        """Position after this event, for `subscribe(since=…)`."""
        return Cursor(self.seq, self.n)
