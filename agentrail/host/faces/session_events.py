"""`SessionEvents`: the events of a session, for a face, read from the frames that a client of the host would get."""

from __future__ import annotations

from collections import deque
from typing import Final, Self, cast

import trio

from agentrail.api.body_parsing import strict_json
from agentrail.api.limits import DEFAULTS
from agentrail.api.problems import error_of
from agentrail.api.sse_frames import PROBLEM, read_cursor
from agentrail.errors import HostClosing
from agentrail.host.operations.sse_reading import SseFrame, envelope_in, frame_in
from agentrail.host.requests.http_messages import Streaming
from agentrail.runtime.shared.untrusted_calls import Contained
from agentrail.values.events.envelope import Cursor, Envelope
from agentrail.values.json import JsonObject

END: Final = b"\n\n"
START: Final = Cursor(0)


class SessionEvents:
    """The events of a session from a position on: `async for` over them.

    They end with the session, or when the host closes. If the key counts no more, its refusal is raised.
    """

    def __init__(self, session: str) -> None:
        self._session = session
        self._pieces, self._frames = trio.open_memory_channel[bytes](0)  # noqa: TID251 - it holds nothing
        self._events = deque[Envelope]()
        """Events that have come and were not read."""
        self._scope = trio.CancelScope()
        """Scope of what writes the frames."""
        self._last = b""
        """The last frames, which come after the writer has ended."""
        self._ended = trio.Event()
        self._failed: list[BaseException] = []
        """What the writer has raised, or the last frame has told of."""
        self._position: Cursor | None = None
        """The position after which the events are; `None` before the writer has told it."""

    async def run(self, write: Streaming) -> None:
        """Body of the task in which *write* writes the frames."""
        try:
            with self._scope, Contained(self._failed.append):
                self._last = await write(self) or b""
            if self._last:
                await self._pieces.send(self._last)
        except trio.BrokenResourceError:
            pass  # nobody reads any more
        finally:
            self._pieces.close()
            self._ended.set()

    async def __call__(self, data: bytes) -> None:
        """Take whole frames from the writer, when those before were read."""
        await self._pieces.send(data)

    def end(self, last: bytes = b"") -> None:
        """End the writer, with *last* as the last frames."""
        self._last = last
        self._scope.cancel()

    @property
    def position(self) -> Cursor:
        """The position after which the events are."""
        return self._position or START

    async def begin(self) -> None:
        """Wait until the position is known; raise the error with which the stream ends at once."""
        while self._position is None:
            try:
                await self._receive()
            except trio.EndOfChannel:
                raise HostClosing from None
            if self._failed:
                raise self._failed.pop()

    async def leave(self) -> None:
        """End the writer, and wait for that."""
        self._frames.close()
        self._scope.cancel()
        # Shielded: the subscription is closed when this returns, also for a reader that was cancelled; its end waits
        # for nothing. tests/host/faces/test_faces.py
        with trio.CancelScope(shield=True):
            await self._ended.wait()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Envelope:
        await trio.lowlevel.checkpoint()
        while not self._events:
            try:
                await self._receive()
            except trio.EndOfChannel:
                if self._failed:
                    raise self._failed.pop() from None
                raise StopAsyncIteration from None
        return self._events.popleft()

    async def _receive(self) -> None:
        for text in (await self._frames.receive()).split(END):
            if (frame := frame_in(text)) is not None:
                self._take(frame)

    def _take(self, frame: SseFrame) -> None:
        if frame.event == PROBLEM:
            error = error_of(cast("JsonObject", strict_json(frame.data.encode(), DEFAULTS.json_depth)), self._session)
            if not isinstance(error, HostClosing):
                self._failed.append(error)
        elif frame.event:
            envelope = envelope_in(frame, self._session)
            if envelope is not None:
                self._events.append(envelope)
        else:
            self._position = read_cursor(frame.id) or START
