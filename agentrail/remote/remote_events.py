"""`RemoteSubscription` and `RemoteMonitor`: the events of a session of a host, and its end."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from types import TracebackType
from typing import Final, Self

from agentrail.errors import BadChoice, SessionNotAlive
from agentrail.ports.handles.handle_arguments import cursor_of, kinds_of
from agentrail.ports.handles.session_values import SessionDown
from agentrail.remote.read_values import answer_of
from agentrail.remote.told_values import ToldValues
from agentrail.remote.transport.host_frames import EventFrame, GapFrame
from agentrail.remote.transport.line import Line
from agentrail.remote.transport.line_subscription import LineSubscription, Told
from agentrail.reprs import in_brackets
from agentrail.values.events.envelope import Cursor, Envelope, Event
from agentrail.values.events.life import SessionEnded
from agentrail.values.events.plugins import Gap
from agentrail.values.events.policies import POLICIES, Policy

BEFORE_ALL: Final = Cursor(0)
ITS_HOST: Final = "its host has ended it"


class RemoteSubscription(ToldValues[Envelope]):
    """The events of a session of a host: `async with` it, then `async for` over it. It survives cuts."""

    __slots__ = ()

    def __init__(self, frames: LineSubscription, session: str) -> None:
        super().__init__(frames, partial(envelope_of, session))


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
        """Begin to watch."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Watch no more."""

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


def envelope_of(session: str, told: Told) -> Envelope | None:
    """Return the event of *session* that a host has told, or the mark that some are missing; `None` for a view."""
    if isinstance(told, EventFrame):
        return answer_of(Envelope, told.data)
    if isinstance(told, GapFrame):
        start, end = told.start, told.end
        return Envelope(session, *start, 0, 0, 0, Gap(*start, *end))
    return None


def events_of(
    line: Line, session: str, since: object, types: Iterable[type[Event]] | None, policy: Policy
) -> RemoteSubscription:
    """Return a subscription to the events of *session*."""
    if policy not in POLICIES:
        raise BadChoice.among("policy", policy, POLICIES)
    names = None if types is None else [kind.__name__ for kind in kinds_of(types)]
    frames = line.listen("events", session, since=cursor_of(since), types=names, policy=policy)
    return RemoteSubscription(frames, session)
