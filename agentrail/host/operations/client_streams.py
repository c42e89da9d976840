"""`ClientStreams`: the open streams of events, counted by tenant; one ends when its key is withdrawn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

import trio

from agentrail.api.limits import HostLimits
from agentrail.api.problems import Problem
from agentrail.api.sse_frames import HEARTBEAT, PROBLEM, frame
from agentrail.errors import AgentrailError, RefusedError
from agentrail.host.authentication.authenticators import KeyWatch
from agentrail.host.authentication.identity import ForwardedIdentity, Identity
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.operations.call import OperationCall, Streamed
from agentrail.host.requests.http_messages import Send, Streaming, hold_nothing

ProblemFrame: TypeAlias = Callable[[Problem], bytes]
"""Returns a problem as the last frame of a stream."""


def problem_frame(problem: Problem) -> bytes:
    """Return a problem as the last frame of a stream of events."""
    return frame(PROBLEM, problem.content)


class Endable:
    """Ends a stream between two pieces: cut within a piece, a stream looks broken to its client."""

    __slots__ = ("_ends", "_is_sending", "scope")

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self._ends = self._is_sending = False

    def end(self) -> None:
        """End the stream; if a piece is being sent, after that piece."""
        self._ends = True
        if not self._is_sending:
            self.scope.cancel()

    async def send(self, send: Send, data: bytes) -> None:
        """Send a piece."""
        if self._ends:
            self.scope.cancel()
            await trio.lowlevel.checkpoint()  # cancelled here: the next checkpoint would be in the middle of the piece
        self._is_sending = True
        await send(data)
        self._is_sending = False
        if self._ends:
            self.scope.cancel()


class ClientStreams:
    """Opens streams of events for clients, and limits how many of them a tenant may have open."""

    def __init__(self, keys: KeyWatch, late: DelayedTasks, limits: HostLimits) -> None:
        self._keys = keys
        self._late = late
        self._most = limits.streams
        self._of_tenant: Counter[str] = Counter()
        self._endless: set[Endable] = set()
        self._over = False

    def check(self, who: Identity) -> None:
        """Raise `RefusedError` if the tenant of *who* may not open one more stream."""
        if self._of_tenant[who.tenant] >= self._most and not isinstance(who, ForwardedIdentity):
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
        return Streamed(partial(self._send, call, write, Endable(), problem_frame), abandon)

    def session(self, call: OperationCall, write: Streaming) -> Streamed:
        """Return the answer with the stream of a session, which *write* sends; the end of the host ends it."""
        return Streamed(partial(self._send_endless, call, write))

    def end_sessions(self) -> None:
        """End the streams of sessions: the host is closing. Their clients go on with another connection."""
        self._over = True
        for stream in self._endless:
            stream.end()

    async def _send_endless(self, call: OperationCall, write: Streaming, send: Send) -> bytes:
        async def begin(send: Send) -> bytes | None:
            await send(HEARTBEAT)  # the head of the answer is sent with it
            return await write(send)

        stream = Endable()
        self._endless.add(stream)
        if self._over:
            stream.end()
        try:
            return await self._send(call, begin, stream, problem_frame, send)
        finally:
            self._endless.remove(stream)

    async def _send(
        self, call: OperationCall, write: Streaming, stream: Endable, problem_frame: ProblemFrame, send: Send
    ) -> bytes:
        """Write a stream, and return its last frames."""
        last: bytes | None = None
        refused: list[Problem] = []

        def refuse(error: AgentrailError) -> None:
            refused.append(call.problem(error))

        async def watch_key() -> None:
            refuse(await self._keys.refusal(call.who, call.headers))
            stream.end()

        try:
            with self.counted(call.who), stream.scope:
                async with self._late.beside(watch_key):
                    last = await write(partial(stream.send, send))
        except AgentrailError as error:
            refuse(error)
        return (last or b"") + b"".join(problem_frame(problem) for problem in refused[:1])

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
        self._of_tenant[tenant] += 1
        try:
            yield
        finally:
            self._of_tenant[tenant] -= 1
            if not self._of_tenant[tenant]:
                del self._of_tenant[tenant]
