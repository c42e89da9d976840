"""`EventFrames`: the events of sessions as frames of streams; an event is encoded once, however many listen.

`ClientStreams`: the open streams of events, counted by tenant; one ends when its key is withdrawn.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Final, TypeAlias

import trio

from agentrail.api.limits import HostLimits
from agentrail.api.problems import Problem
from agentrail.api.public_ids import is_within, read_internal
from agentrail.api.sse_frames import HEARTBEAT, PROBLEM, event_frame, frame
from agentrail.errors import AgentrailError, RefusedError
from agentrail.host.authentication.identity import ForwardedIdentity, Identity
from agentrail.host.authentication.key_watch import KeyWatch
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.operations.call import OperationCall, Streamed
from agentrail.host.requests.http_messages import EndableSend, Streaming, hold_nothing
from agentrail.runtime.diagnosis.figures import Figures
from agentrail.runtime.events.subscription import Subscription
from agentrail.values.events.envelope import Envelope

KEPT: Final = 1024
"""Frames that are kept for others who listen; one is asked for at once by all, or never again."""

AT_ONCE: Final = 16 * 1024
"""Bytes of frames from which no more are added to what is given at once."""

LOOK: Final = 0.5
"""Seconds between two looks at which clients take no event."""

LOOKS: Final = 2
"""So many looks that find a client at the same event tell that it has stopped reading; one may only be late itself."""

KEPT_BYTES: Final = 4 * 1024 * 1024
"""The most bytes of all frames that are kept: the last ones."""


class EventFrames:
    """Makes frames of events, and keeps the last ones for others who listen."""

    def __init__(self, limits: HostLimits, figures: Figures | None = None) -> None:
        self.limits = limits
        self._figures = figures
        self._frames = OrderedDict[tuple[str, int, int], tuple[Envelope, bytes]]()
        """The last frames, by the session and the place of their events, the oldest first."""
        self.bytes = 0
        """Size of all frames that are kept, in bytes."""
        self.encoded = 0
        # by subscription whose client is being sent an event: how many checks of `shed` have found it at this event
        self._checks: dict[Subscription, int] = {}

    def frame(self, envelope: Envelope) -> bytes:
        """Return the frame of an event."""
        key = envelope.session_id, envelope.seq, envelope.n
        cached = self._frames.get(key)
        # compared, because a merged delta has the number of its last part
        if cached is not None and cached[0] == envelope:
            return cached[1]
        frame = event_frame(envelope)
        self.encoded += 1
        if cached is not None:
            self._forget(key)
        self._frames[key] = envelope, frame
        self.bytes += len(frame)
        while len(self._frames) > KEPT or self.bytes > KEPT_BYTES:
            self.bytes -= len(self._frames.popitem(last=False)[1][1])
        return frame

    def erase(self, session_id: str) -> None:
        """Forget the frames of a session and its sub-agents, because the session or its texts are erased."""
        for key in [key for key in self._frames if is_within(key[0], session_id)]:
            self._forget(key)

    def _forget(self, key: tuple[str, int, int]) -> None:
        self.bytes -= len(self._frames.pop(key)[1])

    async def give_each(
        self,
        events: Subscription,
        give: Callable[[bytes], Awaitable[bool]],
        frame: Callable[[Envelope], bytes] | None = None,
    ) -> None:
        """Call *give* with the frames of events as they come, until the last event, or until *give* returns false.

        Frames that are ready are given together. A heartbeat is given after `heartbeat_seconds` without an event.
        *frame* makes the frame of an event, or no bytes to leave it out.
        """
        make, looks, goes_on = frame or self.frame, self._checks, True
        apart = self.limits.heartbeat_seconds
        try:
            while goes_on:
                late = HEARTBEAT
                # One cancel scope for many events: one per event would add a tenth to the cost of an event.
                with trio.move_on_after(apart) as scope:
                    async for envelope in events:
                        scope.deadline = math.inf
                        if events.merged or events.dropped:
                            self._count(envelope.session_id, events)
                        frames = ready(events, make(envelope), make)
                        # the deadline passed while an event came: the frames are sent outside of the cancelled scope
                        if scope.cancel_called:
                            late = frames
                            break
                        looks[events] = 0
                        if not await give(frames):
                            return
                        del looks[events]
                        scope.deadline = trio.current_time() + apart
                    else:
                        return
                goes_on = await give(late)
        finally:
            looks.pop(events, None)

    async def give_all(self, events: Subscription, give: Callable[[Envelope], Awaitable[None]]) -> None:
        """Call *give* with each event as it comes, until the last one. A WebSocket needs no heartbeat: it has pings."""
        looks = self._checks
        try:
            async for envelope in events:
                if events.merged or events.dropped:
                    self._count(envelope.session_id, events)
                looks[events] = 0
                await give(envelope)
                del looks[events]
        finally:
            looks.pop(events, None)

    async def shed(self) -> None:
        """Body of the task that drops the events in memory that wait for clients which have stopped reading.

        If such a client goes on, its events are read again from the journal.
        """
        while True:
            await trio.sleep(LOOK)
            for events in self._checks:
                self._checks[events] += 1
                if self._checks[events] >= LOOKS:
                    events.let_go()

    def _count(self, session_id: str, events: Subscription) -> None:
        """Count what a slow client has lost since its last event."""
        owned = read_internal(session_id)
        if self._figures is not None and owned is not None:
            figures = self._figures.of(owned.tenant)
            figures.merged += events.merged
            figures.dropped += events.dropped
        events.merged = events.dropped = 0


def ready(events: Subscription, frames: bytes, frame: Callable[[Envelope], bytes]) -> bytes:
    """Return *frames*, followed by the frames of the events that are ready, up to `AT_ONCE` bytes."""
    while len(frames) < AT_ONCE and (envelope := events.next_now()) is not None:
        frames += frame(envelope)
    return frames


ProblemFrame: TypeAlias = Callable[[Problem], bytes]
"""Returns a problem as the last frame of a stream."""


def problem_frame(problem: Problem) -> bytes:
    """Return a problem as the last frame of a stream of events."""
    return frame(PROBLEM, problem.content)


class ClientStreams:
    """Opens streams of events for clients, and limits how many of them a tenant may have open."""

    def __init__(self, keys: KeyWatch, late: DelayedTasks, limits: HostLimits) -> None:
        self._keys = keys
        self._late = late
        self._most = limits.streams
        self._of_tenant: dict[str, int] = {}
        self._endless: set[EndableSend] = set()
        self._over = False

    def check(self, who: Identity) -> None:
        """Raise `RefusedError` if the tenant of *who* may not open one more stream."""
        if self._of_tenant.get(who.tenant, 0) >= self._most and not isinstance(who, ForwardedIdentity):
            raise RefusedError("too-many-streams", self._most)

    def turn(
        self,
        call: OperationCall,
        write: Streaming,
        problem_frame: ProblemFrame = problem_frame,
        abandon: Callable[[], None] = hold_nothing,
    ) -> Streamed:
        """Return the answer with the stream of a turn, which *write* sends; it ends with the turn.

        *problem_frame* makes the last frame of a stream that an error ends. *write* is never called if the client has
        gone, or has too many streams by then; *abandon* is then.
        """
        return Streamed(partial(self._send, call, write, problem_frame), abandon)

    def session(self, call: OperationCall, write: Streaming) -> Streamed:
        """Return the answer with the stream of a session, which *write* sends; the end of the host ends it."""
        return Streamed(partial(self._send_endless, call, write))

    def end_sessions(self) -> None:
        """End the streams of sessions: the host is closing. Their clients go on with another connection."""
        self._over = True
        for stream in self._endless:
            stream.end()

    async def _send_endless(self, call: OperationCall, write: Streaming, send: EndableSend) -> bytes | None:
        async def begin(send: EndableSend) -> bytes | None:
            await send(HEARTBEAT)  # the head of the answer is sent with it
            return await write(send)

        self._endless.add(send)
        if self._over:
            send.end()
        try:
            return await self._send(call, begin, problem_frame, send)
        finally:
            self._endless.remove(send)

    async def _send(
        self, call: OperationCall, write: Streaming, problem_frame: ProblemFrame, send: EndableSend
    ) -> bytes | None:
        """Write a stream, and return its last frames; it ends when its key no longer allows it."""

        async def watch_key() -> None:
            send.end(problem_frame(call.problem(await self._keys.refusal(call.who, call.headers))))

        try:
            with self.counted(call.who):
                async with self._late.beside(watch_key):
                    return await write(send)
        except AgentrailError as error:
            return problem_frame(call.problem(error))

    @contextmanager
    def counted(self, who: Identity) -> Generator[None]:
        """Count a stream of the tenant of *who* as long as it is open, unless another host counts it.

        Raise `RefusedError` if other streams were opened between `check` and this.
        """
        if isinstance(who, ForwardedIdentity):
            yield
            return
        self.check(who)
        tenant = who.tenant
        self._of_tenant[tenant] = self._of_tenant.get(tenant, 0) + 1
        try:
            yield
        finally:
            self._of_tenant[tenant] -= 1
            if not self._of_tenant[tenant]:
                del self._of_tenant[tenant]
