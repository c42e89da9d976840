"""`SocketConnection`: one WebSocket, from its handshake to its close.

`Sockets`: carries out the call that opens a WebSocket, and ends all that are open when the host ends.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import trio

from agentrail.api import socket_frames
from agentrail.api.body_parsing import read_query
from agentrail.api.limits import PONG_SECONDS, SOCKET_CALLS, SOCKET_MISTAKES, UNSENT_BYTES
from agentrail.api.operation_table import CALLS
from agentrail.api.problems import Problem
from agentrail.api.public_ids import user_in_ids
from agentrail.api.socket_frames import (
    BROKEN_RULE,
    FAULT,
    KEY_UNKNOWN,
    RESTARTS,
    SUBPROTOCOL,
    TOO_MANY_CONNECTIONS,
    TRY_LATER,
    USER,
    CallFrame,
    Close,
    EndFrame,
    KeyFrame,
    ListenFrame,
    SentFrame,
    id_in,
    read_frame,
    read_object,
)
from agentrail.errors import (
    AgentrailError,
    AuthenticatorFailed,
    BadFrame,
    BadText,
    ConnectionsInUse,
    NotAuthenticated,
    UsageError,
)
from agentrail.host.authentication.identity import Identity, take_slot, user_signed_for
from agentrail.host.error_responses import told_problem
from agentrail.host.requests.http_messages import (
    Headers,
    HttpRequest,
    HttpResponse,
    MessageSocket,
    SocketClosed,
    Upgrade,
    words_of,
)
from agentrail.host.requests.refusals import HttpRefusal
from agentrail.host.websocket.send_queue import SendQueue
from agentrail.host.websocket.socket_calls import SocketCalls, SocketParts, SocketUser
from agentrail.host.websocket.socket_listening import SocketListening
from agentrail.runtime.shared.untrusted_calls import Contained, tell

T = TypeVar("T")

log = logging.getLogger("agentrail.host")

READ: Final = "read the message"
"""What the host attempts, in the problem of a message that does not fit."""

CLOSING: Final = 1.0
"""Seconds that the client has to answer a close, and the last messages to be sent."""

IT: Final = "it"
ID: Final = "its `id`"
IN_USE: Final = "is that of a call or a subscription that has not ended"
LATE_KEY: Final = "has a key, and the host knows one already"
BINARY: Final = "is binary, and not text"
NO_KEY: Final = "the handshake has no header `Authorization`, and the first message no `key`"

WITHDRAWN: Final = "the key is not valid"
MISTAKES: Final = "too many messages that do not fit"
SILENT: Final = "no pong came in time"
RECONNECT: Final = "the host restarts; reconnect, and continue from your last cursor"
FAILED: Final = "a fault of the host"


class SocketConnection:
    """Serves one WebSocket: reads messages, carries out calls, and closes with a code that says why."""

    def __init__(self, parts: SocketParts, request: HttpRequest) -> None:
        self._limits = parts.limits
        self.user = SocketUser(parts.authenticator, parts.keys, request.headers, user_signed_for(request))
        self._calls = SocketCalls(parts, self.user, request)
        self._note = request.note
        self._request = request
        self._send_queue = SendQueue(UNSENT_BYTES)
        self._looking = trio.StrictFIFOLock()
        """Held by a call or view that reads a session, until its answer has room in the queue."""
        self._listening = SocketListening(parts, self.user, request, self._send_queue, self._looking)
        # by id: the function that ends the wait for the call, or the subscription
        self._uses: dict[str, Callable[[], None]] = {}
        self._running = 0
        self._listens = 0  # open subscriptions, including those that have not begun, or whose end is not sent yet
        self._changed = trio.lowlevel.ParkingLot()
        self._mistakes = 0
        self._was_held = False  # whether messages were left unread since the last ping
        self._reading = trio.CancelScope()
        self._ending: tuple[Close, str] | None = None

    def __repr__(self) -> str:
        return f"<SocketConnection {self._running} calls, {self._send_queue.unsent} bytes unsent>"

    # The life of the connection

    def drain(self) -> None:
        """Read no more; when no call is under way, close so that the client connects again."""
        self._end(RESTARTS, RECONNECT)

    async def serve(self, socket: MessageSocket) -> None:
        """Serve the WebSocket, from the answer to its handshake on, until either side ends it.

        Calls that have begun come to their end all the same.
        """
        async with trio.open_nursery() as calls:  # noqa: TID251 - the calls end with the connection, or after it
            async with socket.opened(), trio.open_nursery() as tasks:  # noqa: TID251 - as above
                try:
                    with Contained(self._failed):
                        await self._converse(socket, tasks, calls)
                finally:
                    await self._close(socket)  # noqa: ASYNC102 - it is shielded, and bounds its own time
                tasks.cancel_scope.cancel()
            self._send_queue.close()
            for end in tuple(self._uses.values()):
                end()

    async def _converse(self, socket: MessageSocket, tasks: trio.Nursery, calls: trio.Nursery) -> None:
        """Read messages until either side ends the WebSocket."""
        self._send_queue.open(socket.send_now)
        tasks.start_soon(self._guarded, self._write, socket)
        with self._reading, suppress(SocketClosed):
            who = await self._read_key(socket)
            self._note.tenant, self._note.user = who.tenant, who.user
            tasks.start_soon(self._guarded, self._keep_alive, socket)
            tasks.start_soon(self._guarded, self._watch_key, who)
            while True:
                await self._wait_for_room()
                self._take(await socket.receive(), calls, tasks)

    async def _close(self, socket: MessageSocket) -> None:
        """Close as told to `_end`; no-op if the client has closed already, or the connection is broken."""
        # without a call of `_end`, the server is cancelling this open connection
        cut = (TRY_LATER, TOO_MANY_CONNECTIONS) if self._request.slot.closed_by is not None else (RESTARTS, RECONNECT)
        code, reason = self._ending or cut
        try:
            while self._ending is not None and code == RESTARTS and self._running:
                await self._changed.park()
        finally:
            # Shielded: a client whose calls last until the host cancels them must also be told to connect again.
            # tests/host/websocket/test_drain.py
            with trio.move_on_after(CLOSING, shield=True):
                if self._ending is not None:
                    await self._send_queue.emptied()
                await socket.close(code, reason)

    def _end(self, code: Close, reason: str) -> None:
        """Read no more, and close with *code*, unless the connection ends for another reason already."""
        if self._ending is None:
            self._ending = code, reason
            self._reading.cancel()

    def _failed(self, error: BaseException) -> None:
        tell(log, error, "a WebSocket failed (request %s)", self._note.id, words=False)
        self._end(FAULT, FAILED)

    def _key_refused(self) -> None:
        self._end(BROKEN_RULE, WITHDRAWN)

    # Tasks

    async def _guarded(self, task: Callable[[T], Awaitable[None]], arg: T) -> None:
        """Body of each task: run *task*. Its end, by an exception or a closed WebSocket, ends the connection."""
        with Contained(self._failed), suppress(SocketClosed):
            await task(arg)
        self._reading.cancel()  # the reader may be waiting for room, and would not see that the WebSocket has closed

    async def _write(self, socket: MessageSocket) -> None:
        try:
            while True:
                messages = await self._send_queue.first()
                await socket.send(messages)
                self._send_queue.note_sent(len(messages))
        finally:
            self._send_queue.close()  # otherwise answers that wait for room would hold up the close

    async def _keep_alive(self, socket: MessageSocket) -> None:
        """Send a ping every `ping_seconds`; end the connection if no pong comes."""
        while True:
            await trio.sleep(self._limits.ping_seconds)
            self._was_held = self._is_full
            with trio.move_on_after(PONG_SECONDS) as waited:
                await socket.ping()
            # messages were left unread meanwhile, and the pong may be among them
            if waited.cancelled_caught and not self._was_held:
                self._end(BROKEN_RULE, SILENT)

    async def _watch_key(self, began: Identity) -> None:
        """Close when the key is no longer valid, or could not be checked for too long."""
        if isinstance(await self.user.refusal(began), AuthenticatorFailed):
            self._end(TRY_LATER, KEY_UNKNOWN)
        else:
            self._key_refused()

    # Messages

    async def _read_key(self, socket: MessageSocket) -> Identity:
        """Return the identity of the client; its first message has the key if the handshake had none."""
        try:
            if not self.user.has_key:
                self.user.take_key(await self._first_key(socket))
            who = await self.user.identity()
            take_slot(self._request, who)
            return who
        except NotAuthenticated as error:
            self._report_invalid(None, error)
            self._key_refused()
            raise SocketClosed from error
        except AuthenticatorFailed as error:
            self._report_invalid(None, error)
            self._end(TRY_LATER, KEY_UNKNOWN)
            raise SocketClosed from error
        except (ConnectionsInUse, HttpRefusal) as error:
            problem = error.problem if isinstance(error, HttpRefusal) else told_problem(error, READ, "", self._note.id)
            self._send_queue.put_now(socket_frames.unread(None, problem.content))
            self._end(TRY_LATER, TOO_MANY_CONNECTIONS)
            raise SocketClosed from error

    async def _first_key(self, socket: MessageSocket) -> str:
        frame = None
        with trio.move_on_after(self._limits.header_seconds):
            frame = self._parse(await socket.receive())
        if isinstance(frame, KeyFrame):
            return frame.key
        raise NotAuthenticated(NO_KEY)

    @property
    def _is_full(self) -> bool:
        """Whether as many calls are carried out as may be at once, or as many subscriptions begin and end."""
        return self._running >= SOCKET_CALLS or self._listens >= SOCKET_CALLS + self._limits.streams

    async def _wait_for_room(self) -> None:
        """Wait until one more message may be acted on; what the client sends meanwhile is left unread."""
        while self._is_full:
            self._was_held = True
            await self._changed.park()

    def _parse(self, message: str | bytes) -> SentFrame | None:
        """Parse a message of the client; return `None`, and tell the client, if it is not valid."""
        if isinstance(message, bytes):
            self._report_invalid(None, BadFrame(IT, BINARY))
            return None
        name: str | None = None
        try:
            fields = read_object(message, self._limits.json_depth)
            name = id_in(fields)
            return read_frame(fields)
        except (BadFrame, BadText) as error:
            self._report_invalid(name, error)
            return None

    def _take(self, message: str | bytes, calls: trio.Nursery, tasks: trio.Nursery) -> None:
        """Parse *message*, and start the task of the call or subscription that it asks for, or end one."""
        match self._parse(message):
            case None:
                return
            case EndFrame(id=name):
                if name in self._uses:
                    self._uses[name]()
            case (CallFrame() | ListenFrame()) as frame if frame.id in self._uses:
                self._report_invalid(frame.id, BadFrame(ID, IN_USE))
            case CallFrame() as frame:
                has_left = trio.Event()
                self._uses[frame.id] = partial(self._give_up, frame.id, has_left)
                self._running += 1
                calls.start_soon(self._call, frame, has_left)
            case ListenFrame() as frame:
                scope = trio.CancelScope()
                self._listens += 1
                self._uses[frame.id] = scope.cancel
                tasks.start_soon(self._listen, frame, scope)
            case _:
                self._report_invalid(None, BadFrame(IT, LATE_KEY))

    def _report_invalid(self, name: str | None, error: AgentrailError) -> None:
        """Tell the client that a message is not valid; too many of these end the connection."""
        self._mistakes += 1
        self._send_queue.put_now(socket_frames.unread(name, told_problem(error, READ, "", self._note.id).content))
        if self._mistakes > SOCKET_MISTAKES:
            self._end(BROKEN_RULE, MISTAKES)

    # Calls and subscriptions

    async def _listen(self, frame: ListenFrame, scope: trio.CancelScope) -> None:
        """Body of the task of one subscription."""
        problem: Problem | None = None
        with scope:
            problem = await self._listening.listen(frame)
        await self._send_queue.put(lambda: socket_frames.ended(frame.id, b"" if problem is None else problem.content))
        del self._uses[frame.id]
        self._listens -= 1
        self._changed.unpark_all()

    def _give_up(self, name: str, has_left: trio.Event) -> None:
        """End the wait for the answer to a call, at the client's wish: the id can be used again."""
        del self._uses[name]
        has_left.set()

    async def _call(self, frame: CallFrame, has_left: trio.Event) -> None:
        """Body of the task of one call."""
        if CALLS[frame.call].looks:
            async with self._looking:
                if not has_left.is_set():
                    await self._answer(frame, has_left)
        else:
            await self._answer(frame, has_left)
        if not has_left.is_set():
            del self._uses[frame.id]
        self._running -= 1
        self._changed.unpark_all()

    async def _answer(self, frame: CallFrame, has_left: trio.Event) -> None:
        """Carry out a call; return when its answer has room in the queue."""
        answer = await self._calls.answer(frame, has_left.wait, self._key_refused)
        if answer is not None and not has_left.is_set():
            await self._send_queue.put(answer)


SOCKET: Final = CALLS["socket"]


class Sockets:
    """The WebSockets of a host."""

    def __init__(self, parts: SocketParts) -> None:
        self._parts = parts
        self._open: set[SocketConnection] = set()
        parts.operations.drain.when_over.append(self._end)

    def _end(self) -> None:
        """Close each WebSocket as soon as none of its calls is under way."""
        for socket in tuple(self._open):
            socket.drain()

    async def open(self, request: HttpRequest) -> HttpResponse:
        """Open a WebSocket, if the request is its handshake; a key that comes with it has to be valid."""
        read_query(SOCKET, request.query)
        if request.upgrade_problem:
            raise UsageError("upgrade-wanted", request.upgrade_problem)
        self._parts.operations.check_open()
        connection = SocketConnection(self._parts, request)
        headers: Headers = ()
        if connection.user.has_key:
            who = await connection.user.identity()
            self._parts.operations.count(who)
            take_slot(request, who)
            headers = ((USER, user_in_ids(who.tenant, who.user)),)
        else:
            request.slot.settle()

        async def converse(socket: MessageSocket) -> None:
            self._open.add(connection)
            try:
                await connection.serve(socket)
            finally:
                self._open.remove(connection)

        speaks = SUBPROTOCOL in words_of(request.headers, "sec-websocket-protocol")
        return HttpResponse(SOCKET.status, headers, Upgrade(converse, SUBPROTOCOL if speaks else None))
