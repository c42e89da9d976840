"""Converts the answers of a host to the values of local handles: one by one, or as async iterators over what comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType, TracebackType
from typing import Final, Generic, Self, TypeVar, cast

import msgspec

from agentrail.api.command_checks import cursor_of, kinds_of
from agentrail.api.session_values import ChildView, HeldCall, SessionDown
from agentrail.api.views import ApprovalsView, ChildShown, HeldView, SessionView
from agentrail.codec.values import decode
from agentrail.errors import BadChoice, BadData, HostFailed, SessionNotAlive
from agentrail.ports.journal import About, StoredSession
from agentrail.remote.transport.host_frames import ChangesFrame, EventFrame, GapFrame, ViewFrame
from agentrail.remote.transport.host_subscription import HostSubscription, Line, SubscriptionFrame
from agentrail.reprs import in_brackets
from agentrail.values.events.envelope import Cursor, Envelope, Event
from agentrail.values.events.life import SessionEnded
from agentrail.values.events.plugins import Gap
from agentrail.values.events.policies import POLICIES, SubscriptionPolicy
from agentrail.values.json import Json
from agentrail.values.value import Value, learned

T = TypeVar("T")
V = TypeVar("V", bound=Value)


def answer_of(kind: type[T], answer: Json) -> T:
    """Convert *answer*, the JSON of a call's answer, to *kind*; raise `HostFailed` if it does not fit."""
    try:
        return decode(kind, answer)
    except BadData as bad:
        _, at, problem = bad.args
        problem_text = f"its answer cannot be read: {at} {problem}"
        raise HostFailed(problem_text) from None


def value_of(kind: type[V], view: object) -> V:
    """Convert a view, or the fields of one, back to the value that it shows, of the class *kind*."""
    return cast("V", msgspec.convert(view, learned(kind), from_attributes=True))


def stored_of(view: SessionView) -> StoredSession:
    """Return *view* as a summary of a session; its tenant is empty, because hosts do not tell it."""
    about = About("", view.owner, view.agent, view.title, view.labels, view.created)
    return StoredSession(
        view.session,
        view.records,
        due=view.due,
        at_work=view.at_work,
        ended=view.ended,
        problem=view.problem,
        about=about,
        active=view.active,
    )


class ToldValues(Generic[T]):
    """Values made from the frames of a `HostSubscription`: `async with` it, then `async for` over it."""

    __slots__ = ("_convert", "_frames")

    def __init__(self, frames: HostSubscription, convert: Callable[[SubscriptionFrame], T | None]) -> None:
        """*convert* returns the value of a frame; `None` to skip the frame."""
        self._frames = frames
        self._convert = convert

    @in_brackets
    def __repr__(self) -> str:
        return self._frames.about

    async def __aenter__(self) -> Self:
        """Begin the subscription; raise the host's error if it refuses."""
        await self._frames.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the subscription."""
        await self._frames.__aexit__(kind, error, trace)  # noqa: ASYNC102 - it waits for nothing

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while True:
            value = self._convert(await anext(self._frames))
            if value is not None:
                return value


BEFORE_ALL: Final = Cursor(0)
ITS_HOST: Final = "its host has ended it"


class RemoteSubscription(ToldValues[Envelope]):
    """The events of a host's session: `async with` it, then `async for` over it. It goes on after a lost connection."""

    __slots__ = ()

    def __init__(self, frames: HostSubscription, session: str) -> None:
        super().__init__(frames, partial(envelope_of, session))

    @property
    def cursor(self) -> Cursor:
        """Place after the last event that has come, read or not; before the first, where the subscription began."""
        return self._frames.cursor or BEFORE_ALL


class RemoteMonitor:
    """Waits for the end of a session of a host: `wait` returns when it is gone for good."""

    __slots__ = ("_line", "_session")

    def __init__(self, line: Line, session: str) -> None:
        self._line = line
        self._session = session

    @in_brackets
    def __repr__(self) -> str:
        return f"end of {self._session!r}"

    async def __aenter__(self) -> Self:
        """Begin to wait for the end of the session; raise the host's error if it refuses."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop waiting for the end of the session."""

    async def wait(self) -> SessionDown:
        """Return when the session is gone for good."""
        reason = ITS_HOST
        try:
            async with events_of(self._line, self._session, BEFORE_ALL, [SessionEnded], "coalesce") as events:
                async for envelope in events:
                    if isinstance(envelope.event, SessionEnded):
                        reason = envelope.event.reason
        except SessionNotAlive as ended:
            reason = str(ended.args[1])
        return SessionDown(self._session, reason)


def envelope_of(session: str, frame: SubscriptionFrame) -> Envelope | None:
    """Return the event of *session* in *frame*, or the mark that events are missing; `None` for a view."""
    if isinstance(frame, EventFrame):
        return answer_of(Envelope, frame.data)
    if isinstance(frame, GapFrame):
        start, end = frame.start, frame.end
        return Envelope(session, *start, 0, 0, 0, Gap(*start, *end))
    return None


def events_of(
    line: Line, session: str, since: object, types: Iterable[type[Event]] | None, policy: SubscriptionPolicy
) -> RemoteSubscription:
    """Return a subscription to the events of *session*."""
    if policy not in POLICIES:
        raise BadChoice.among("policy", policy, POLICIES)
    names = None if types is None else [kind.__name__ for kind in kinds_of(types)]
    frames = line.listen("events", session, since=cursor_of(since), types=names, policy=policy)
    return RemoteSubscription(frames, session)


class RemoteView(ToldValues[T]):
    """A view of a host: `async with` it, then `async for` over it.

    It goes on after a lost connection. Of a view that is sent whole, it skips states that are no longer the newest.
    """

    __slots__ = ()

    def __init__(self, frames: HostSubscription, convert: Callable[[Json], T]) -> None:
        """*convert* returns the value of the JSON that the host shows."""
        super().__init__(
            frames, lambda frame: convert(frame.data) if isinstance(frame, ViewFrame | ChangesFrame) else None
        )


def tree_of(answer: Json) -> ChildView:
    """Return the tree of sessions in *answer*."""
    return value_of(ChildView, answer_of(ChildShown, answer))


def approvals_of(answer: Json) -> Mapping[str, tuple[HeldCall, ...]]:
    """Return the held calls, by session, in *answer*, a page of a host's list."""
    return held_of(answer_of(ApprovalsView, answer).items)


def held_of(views: Iterable[HeldView]) -> Mapping[str, tuple[HeldCall, ...]]:
    """Return held calls by session, the ones first that have waited longest."""
    held_by_session: dict[str, tuple[HeldCall, ...]] = {}
    for view in views:
        held_by_session[view.session] = (*held_by_session.get(view.session, ()), value_of(HeldCall, view))
    return MappingProxyType(held_by_session)
