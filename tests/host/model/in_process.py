"""A host without sockets, and the requests that it gets."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar
from urllib.parse import unquote

import trio
from attrs import frozen

from agentrail.host import Authenticator, Host
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.host_server import Opened
from agentrail.host.operations.host_operations import Application
from agentrail.host.requests.exchange import AnswerWriter, StreamedAnswer
from agentrail.host.requests.http_messages import Body, Headers, HttpRequest, PeerGone, Upgrade

E = TypeVar("E", bound=BaseException)

BODY_LIMIT: Final = 1024 * 1024

Hear = Callable[[bytes], None]
"""Is given each piece of a streamed answer."""


@frozen
class DrawnRequest:
    """A request, as a client makes it."""

    method: str
    target: str
    headers: Headers = ()
    body: bytes = b""


@frozen
class Answer:
    """The answer to a request: its content is empty if it was streamed."""

    status: int
    headers: Headers
    content: bytes


class GivenBody(Body):
    """A body that is there already."""

    __slots__ = ("_content", "_length")

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._length = len(content)

    @property
    def length(self) -> int:
        return self._length

    @property
    def limit(self) -> int:
        return BODY_LIMIT

    async def chunk(self) -> bytes:
        await trio.lowlevel.checkpoint()
        content, self._content = self._content, b""
        return content


class HeardPieces(AnswerWriter):
    """Gives the pieces of a streamed answer to *hear*."""

    def __init__(self, hear: Hear) -> None:
        super().__init__()
        self._hear = hear
        self.broken: AssertionError | None = None
        """What *hear* found wrong. The host takes it for a fault of its own, and cuts the answer."""

    async def piece(self, data: bytes) -> None:
        """Give a piece."""
        await trio.lowlevel.checkpoint()
        try:
            self._hear(data)
        except AssertionError as error:
            self.broken = error
            raise

    async def break_off(self) -> None:
        """Do nothing: what was heard is cut."""


async def ask(application: Application, sent: DrawnRequest, hear: Hear) -> Answer:
    """Make a request. Pieces of a streamed answer go to *hear*, until it is over."""
    path, _, query = sent.target.partition("?")
    request = HttpRequest(sent.method, unquote(path), query, sent.headers, "127.0.0.1", GivenBody(sent.body))
    response = await application.answer(request)
    if isinstance(response.content, bytes):
        return Answer(response.status, response.headers, response.content)

    assert not isinstance(response.content, Upgrade)
    pieces = HeardPieces(hear)
    streamed = StreamedAnswer(pieces, trio.sleep_forever, DelayedTasks(), request.note)
    try:
        last = await streamed.run(response.content)
    except PeerGone:
        raise pieces.broken or AssertionError("a streamed answer failed") from None
    if last:
        hear(last)
    return Answer(response.status, response.headers, b"")


@asynccontextmanager
async def opened(host: Host, authenticator: Authenticator) -> AsyncGenerator[Opened, None]:
    """Open *host*; its requests end with this."""
    async with host.opened(authenticator) as opened_host:
        try:
            yield opened_host
        finally:
            opened_host.drain.end()


class CutAfter(trio.abc.Instrument):
    """Cancels a scope after some steps of the task that makes it: at any await of what it does."""

    def __init__(self, scope: trio.CancelScope, steps: int) -> None:
        self._scope = scope
        self._left = steps
        self._task = trio.lowlevel.current_task()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left < 0:
                self._scope.cancel()


@contextmanager
def cut_after(scope: trio.CancelScope, steps: int | None) -> Generator[None]:
    """Cancel *scope* after so many *steps* of this task, if it has not left this by then; `None`: never."""
    if steps is None:
        yield
        return
    instrument = CutAfter(scope, steps)
    trio.lowlevel.add_instrument(instrument)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(instrument)


def first_of(group: BaseExceptionGroup[BaseException], kind: type[E]) -> E:
    """Return the first error of a *kind* in *group*."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, kind)
    return error
