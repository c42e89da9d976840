"""The argument and the result of a handler: `HttpRequest` with its `Body`, and `HttpResponse`.

`ReceivedBody`: the body of a request as a server receives it, and the time that it may take to arrive.

`MessageSocket`: an open WebSocket as a conversation sees it: messages, whichever server carries them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Final, Protocol, TypeAlias, TypeVar

import trio
from attrs import field, frozen

from agentrail.api.limits import LEAST_RATE, HostLimits
from agentrail.api.problems import MEDIA_TYPE, Problem
from agentrail.errors import BodyTooLarge
from agentrail.host.requests.access_log import RequestNote
from agentrail.host.requests.connection_slots import ConnectionSlot
from agentrail.host.requests.refusals import BAD_BODY, LATE_BODY, SLOW_BODY, HttpRefusal


class SocketClosed(Exception):  # noqa: N818 - it is no failure of ours
    """The WebSocket is closed, by either side, or the connection is broken."""


class MessageSocket(ABC):
    """An open WebSocket, the side of the host; `opened` runs its reader."""

    @property
    @abstractmethod
    def sent(self) -> int:
        """How many bytes were sent."""

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[None]:
        """Answer the handshake, and read what the client sends until the `async with` is left."""

    @abstractmethod
    async def receive(self) -> str | bytes:
        """Return the next message; raise `SocketClosed` if none comes any more."""

    @abstractmethod
    def send_now(self, messages: Sequence[bytes]) -> bool:
        """Send texts, if all of them can be sent without waiting; return whether they were.

        Otherwise, `send` them before any others.
        """

    @abstractmethod
    async def send(self, messages: Sequence[bytes]) -> None:
        """Send texts; raise `SocketClosed` if that is not possible any more."""

    @abstractmethod
    async def ping(self) -> None:
        """Return when the client has answered a ping; raise `SocketClosed` if it cannot."""

    @abstractmethod
    async def close(self, code: int, reason: str) -> None:
        """Close the WebSocket, and wait until the client has done so; no-op if it is closed."""


Conversation: TypeAlias = Callable[[MessageSocket], Awaitable[None]]
"""Talks with the client of a WebSocket until either side ends it."""


T = TypeVar("T")

Headers: TypeAlias = tuple[tuple[str, str], ...]

NO_UPGRADE: Final = "it is no GET of HTTP/1.1 without a body, with `Connection: upgrade` and `Upgrade: websocket`"

Send: TypeAlias = Callable[[bytes], Awaitable[None]]
"""Sends a piece of a streamed answer, the first one with the head of the answer.

It is cancelled when the peer has gone, or does not read in time. One task calls it, as pieces must not be mixed.
"""


class EndableSend(Protocol):
    """Interface: a `Send` whose stream can be ended from outside."""

    async def __call__(self, data: bytes) -> None:
        """Send a piece."""
        ...

    def end(self, last: bytes = b"") -> None:
        """End the stream between two pieces, with *last* as its last one: cut within a piece, it would look broken."""
        ...


Streaming: TypeAlias = Callable[[EndableSend], Awaitable[bytes | None]]
"""Writes a streamed answer by the `Send` that it is given. It is cancelled when the peer goes away, or it is ended.

If it returns bytes, they are the last piece, which is sent together with the end of the answer.
"""


@frozen
class Upgrade:
    """Content of an answer that opens a WebSocket."""

    converse: Conversation
    subprotocol: str | None
    """The one that was chosen of those that the client offers; `None` if it offers none that the host speaks."""


class Body(ABC):
    """The body of a request, which is read only if its handler asks for it."""

    __slots__ = ()

    @property
    @abstractmethod
    def length(self) -> int | None:
        """The number of bytes that the peer has announced; `None` if it sends chunks."""

    @property
    @abstractmethod
    def limit(self) -> int:
        """The most bytes that `read` takes, if it is given no limit."""

    @abstractmethod
    async def chunk(self) -> bytes:
        """Return the next bytes, of any number; no bytes at the end."""

    async def read(self, limit: int | None = None) -> bytes:
        """Return the whole body; raise `BodyTooLarge` as soon as it is known to have more than *limit* bytes."""
        most = self.limit if limit is None else limit
        if self.length is not None and self.length > most:
            raise BodyTooLarge(most)
        pieces = bytearray()
        while piece := await self.chunk():
            pieces += piece
            if len(pieces) > most:
                raise BodyTooLarge(most)
        return bytes(pieces)


class WrappedBody(Body):
    """A body that hands out what another one has: its subclasses say how."""

    __slots__ = ("_body",)

    def __init__(self, body: Body) -> None:
        self._body = body

    @property
    def length(self) -> int | None:
        """The number of bytes that the peer has announced; `None` if it sends chunks."""
        return self._body.length

    @property
    def limit(self) -> int:
        """The most bytes that `read` takes, if it is given no limit."""
        return self._body.limit


@frozen
class HttpRequest:
    """One request. HEAD is handled as GET; the connection leaves out the content of the answer."""

    method: str
    path: str
    """Decoded once. It begins with `/`, and has no empty segment, `.` or `..`, and no control character."""
    query: str
    """As it was sent, without the `?`."""
    headers: Headers
    """Names in lower case."""
    peer: str
    """The IP address of the client, as a named proxy says it, else of the peer; `unix` on a unix socket."""
    body: Body
    wait_gone: Callable[[], Awaitable[None]] = trio.sleep_forever
    """Returns when the peer has closed its side of the connection, or that is broken."""
    upgrade_problem: str = NO_UPGRADE
    """Why the request opens no WebSocket; empty if it does, so that its answer may be an `Upgrade`."""
    note: RequestNote = field(factory=RequestNote)
    """What the log is to say of it."""
    slot: ConnectionSlot = field(factory=ConnectionSlot)
    """The slot of its connection, which whoever finds out who sends the request takes for them."""
    scheme: str = "http"
    """How the client reaches the server: `http` or `https`."""

    def header(self, name: str) -> str | None:
        """Return the first header with a *name* (in lower case); `None` if there is none."""
        return first_header(self.headers, name)


def first_header(headers: Headers, name: str) -> str | None:
    """Return the first of *headers* with a *name* (in lower case); `None` if there is none."""
    for key, value in headers:
        if key == name:
            return value
    return None


def words_of(headers: Headers, name: str) -> list[str]:
    """Return the items of the headers called *name* (in lower case), split at commas and in lower case."""
    return [word.strip().lower() for key, value in headers if key == name for word in value.split(",")]


OWNED: Final = frozenset(
    {
        "connection",
        "content-length",
        "date",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers of an answer that the connection alone sets: they are about the connection, or say where the answer ends."""

WITHOUT_CONTENT: Final = frozenset({204, 304})
"""The statuses of answers that end with their head."""


def hold_nothing() -> None:
    """Do nothing: most answers hold nothing that has to be let go of."""


@frozen
class HttpResponse:
    """An answer, without the headers of `OWNED`."""

    status: int
    headers: Headers = ()
    content: bytes | Streaming | Upgrade = b""
    abandon: Callable[[], None] = hold_nothing
    """Called when nothing more is done with the answer: *content* that was never run lets go of what it holds."""


PROBLEM: Final[Headers] = (("content-type", MEDIA_TYPE), ("cache-control", "no-store"))
"""Headers of each answer that tells of a problem."""


def problem_answer(problem: Problem) -> HttpResponse:
    """Return an answer with *problem* as its content."""
    return HttpResponse(problem.status, problem.headers + PROBLEM, problem.content)


class PeerGone(Exception):  # noqa: N818 - not an error of the host
    """The peer has closed the connection, or the connection is broken: no answer can be sent."""


SOON: Final = 0.05
"""Seconds from which an answer takes long: to watch the peer costs half as much as a small request."""


async def while_here(wait_gone: Callable[[], Awaitable[None]], answer: Callable[[], Awaitable[T]]) -> T:
    """Return the result of *answer*; if *wait_gone* returns before, cancel *answer* and raise `PeerGone`.

    A peer that closes only its sending side counts as gone: the two look alike. So use this only for answers that take
    long. *answer* is called a second time if it takes longer than `SOON`.
    """
    with trio.move_on_after(SOON):
        return await answer()
    answers, failures = list[T](), list[Exception]()
    async with trio.open_nursery() as nursery:  # noqa: TID251 - the watcher ends with the answer

        async def watch() -> None:
            await wait_gone()
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        try:
            answers.append(await answer())
        except Exception as error:  # noqa: BLE001 - raised below; the nursery would put it into a group
            failures.append(error)
        nursery.cancel_scope.cancel()
    if failures:
        raise failures[0]
    if not answers:
        raise PeerGone
    return answers[0]


Handler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
"""The application. An exception that it raises becomes a 500 without its words, and a line in the log."""


LINGER: Final = 1.0
"""Seconds for which the rest of a body is read after an early answer, so that its sender gets the answer."""

MAX_DROPPED: Final = 64
"""Pieces that are read and dropped in that time."""


class ReceivedBody(Body):
    """A body that arrives. One task at a time may read it, or wait until the client has gone.

    Each piece of it has a deadline, and so has all of it: what has come adds to the latter. Only the time that is spent
    reading counts, and not that in which the handler does something else.
    """

    __slots__ = ("_buffer", "_length", "_limits", "_received", "_waited")

    def __init__(self, length: int | None, limits: HostLimits, buffer: bytearray) -> None:
        self._length = length
        self._limits = limits
        self._buffer = buffer
        """What has come and was not read."""
        self._received = len(buffer)
        """Bytes that have come, as they were sent."""
        self._waited = 0.0
        """Seconds spent reading the body."""

    @property
    def length(self) -> int | None:
        """The number of bytes that the client has announced; `None` if it has not."""
        return self._length

    @property
    def limit(self) -> int:
        """The most bytes that `read` takes, if it is given no limit."""
        return self._limits.body_bytes

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether the whole body has been taken."""

    @abstractmethod
    def leave(self) -> bool:
        """Drop what has come of it, as nobody reads it any more; return whether the client may send more of it."""

    @abstractmethod
    def _take(self) -> bytes:
        """Take what has come from the buffer, and return its content, which may be empty."""

    @abstractmethod
    async def _more(self) -> bool:
        """Receive into the buffer, without a time limit; return false if the client sends no more."""

    async def chunk(self) -> bytes:
        """Return the next bytes, of any number; no bytes at the end."""
        while not self.ended:
            content = self._take()
            if content:
                await trio.lowlevel.checkpoint()  # many small chunks may have arrived already
                return content
            if not self.ended:
                await self._receive()
        return b""

    async def _receive(self) -> None:
        """Wait for the next piece; raise `HttpRefusal` if it does not come in time."""
        limits, began, byte_count = self._limits, trio.current_time(), len(self._buffer)
        seconds_left = limits.body_seconds + self._received / LEAST_RATE - self._waited
        has_more = True
        with trio.move_on_after(min(limits.body_seconds, max(seconds_left, 0))) as scope:
            has_more = await self._more()
        self._waited += trio.current_time() - began
        self._received += len(self._buffer) - byte_count
        if not has_more:
            raise HttpRefusal(BAD_BODY)
        if not scope.cancelled_caught:
            return
        if seconds_left < limits.body_seconds:
            raise HttpRefusal(SLOW_BODY, self._received, round(self._waited, 1), limits.body_seconds, LEAST_RATE)
        raise HttpRefusal(LATE_BODY, limits.body_seconds)

    async def wait_gone(self) -> None:
        """Return when the client has gone.

        What it sends meanwhile is kept up to the size of a head; beyond that nothing is read, and this never returns.
        """
        with suppress(PeerGone):
            while await self._more():
                if len(self._buffer) > self._limits.header_bytes:
                    await trio.sleep_forever()
