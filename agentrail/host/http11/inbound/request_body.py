"""`ConnectionBody`: the body of the request that a connection is serving."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import h11
import trio

from agentrail.host.http11.http_messages import Body
from agentrail.host.http11.inbound.chunking import ChunkedBody, Framing, PlainBody
from agentrail.host.http11.inbound.received import Inbound
from agentrail.host.http11.inbound.request_head import RequestHead
from agentrail.host.http11.places import Wait
from agentrail.host.http11.refusals import CUT_BODY, LATE_BODY, SLOW_BODY, HttpRefusal
from agentrail.wire.limits import HostLimits


class ConnectionBody(Body):
    """Reads a body from a connection, and tells h11 of it in a plain form."""

    __slots__ = (
        "_detached",
        "_framing",
        "_inbound",
        "_length",
        "_limits",
        "_machine",
        "_received",
        "_say_continue",
        "_waited",
        "_waits",
    )

    def __init__(
        self,
        head: RequestHead,
        inbound: Inbound,
        machine: h11.Connection,
        limits: HostLimits,
        say_continue: Callable[[], Awaitable[None]],
    ) -> None:
        self._framing: Framing = ChunkedBody() if head.length is None else PlainBody(head.length)
        self._inbound = inbound
        self._machine = machine
        self._limits = limits
        self._length = head.length
        self._say_continue = say_continue
        self._waits = head.expects
        self._detached = False
        self._received = len(inbound.buffer)  # bytes, as they were sent
        self._waited = 0.0  # seconds, without those in which the handler did something else
        if head.length == 0:
            self._machine.next_event()  # the end of the message

    @property
    def length(self) -> int | None:
        """The number of bytes that the peer has announced; `None` if it sends chunks."""
        return self._length

    @property
    def limit(self) -> int:
        """The most bytes that `read` takes, if it is given no limit."""
        return self._limits.body_bytes

    @property
    def ended(self) -> bool:
        """Whether the whole body has been taken."""
        return self._framing.ended

    def detach(self) -> None:
        """End the reading: what comes now is another request, also for a task that still has this body."""
        self._detached = True

    async def chunk(self) -> bytes:
        """Return the next bytes, of any number; no bytes at the end."""
        while not self._framing.ended:
            if self._detached:
                raise HttpRefusal(CUT_BODY)
            content = self._take()
            if content:
                await trio.lowlevel.checkpoint()  # many small chunks may be there already
                return content
            if not self._framing.ended:
                await self._receive()
        return b""

    def take_what_is_there(self) -> bool:
        """Drop what has been received of the body already; return whether that was the rest.

        A peer that still waits for `100 Continue` may leave its body out, and go on with another request.
        """
        if self._waits:
            return False
        try:
            while self._inbound.buffer and self._take():
                pass
        except HttpRefusal:
            return False
        return self._framing.ended

    def _take(self) -> bytes:
        """Take what is in the buffer, and hand it to h11 as one chunk, or as it is."""
        content = self._framing.take(self._inbound.buffer)
        told = content
        if self._length is None:
            told = b"%x\r\n%b\r\n" % (len(content), content) if content else b""
            if self._framing.ended:
                told += b"0\r\n\r\n"
        if told:
            self._machine.receive_data(told)
            while self._machine.their_state is h11.SEND_BODY and self._machine.next_event() is not h11.NEED_DATA:
                pass
        return content

    async def _receive(self) -> None:
        if self._waits:
            self._waits = False
            if not self._inbound.buffer:
                await self._say_continue()
        limits, began, there = self._limits, trio.current_time(), len(self._inbound.buffer)
        left = limits.body_seconds + self._received / limits.body_rate - self._waited
        came = await self._inbound.more(min(limits.body_seconds, max(left, 0)), Wait.BODY, began + left)
        self._waited += trio.current_time() - began
        self._received += len(self._inbound.buffer) - there
        if came is None and left < limits.body_seconds:
            raise HttpRefusal(SLOW_BODY, self._received, round(self._waited, 1), limits.body_seconds, limits.body_rate)
        if came is None:
            raise HttpRefusal(LATE_BODY, limits.body_seconds)
        if not came:
            raise HttpRefusal(CUT_BODY)
