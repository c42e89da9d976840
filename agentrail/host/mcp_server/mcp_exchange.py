"""`McpExchange`: one request to a host, for an ASGI app in it, whose answer is that of the host."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import trio

from agentrail.host.requests.http_messages import OWNED, Headers, HttpRequest, HttpResponse
from agentrail.runtime.shared.reply_slot import Slot

if TYPE_CHECKING:
    from agentrail.host.requests.http_messages import EndableSend

Message: TypeAlias = MutableMapping[str, object]
"""A message of ASGI, or a scope."""

AsgiApp: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]
"""An app of ASGI."""

STREAM: Final = "text/event-stream"


class McpExchange:
    """Runs an app for one request, in a task of the host: it is told when the client has gone, and then ends."""

    def __init__(self, request: HttpRequest, body: bytes, extra: Message) -> None:
        """*extra* is added to the scope."""
        self._request = request
        self._body: bytes | None = body
        self._extra = extra
        self._gone = trio.Event()
        """Set when nobody takes the answer any more."""
        self._head = Slot[tuple[int, Headers]]()
        self._send, self._pieces = trio.open_memory_channel[bytes](math.inf)  # noqa: TID251 - of one answer

    async def run(self, app: AsgiApp, wait_withdrawn: Callable[[], Awaitable[object]]) -> None:
        """Body of the task: run *app* until it has answered; *wait_withdrawn* returns when its key does not count."""
        try:
            async with trio.open_nursery() as nursery:  # noqa: TID251 - the watcher ends with the app
                nursery.start_soon(self._watch, wait_withdrawn)
                await app(self._scope(), self._receive, self._take)
                nursery.cancel_scope.cancel()
        finally:
            self._head.settle((500, ()))
            self._send.close()

    async def _watch(self, wait: Callable[[], Awaitable[object]]) -> None:
        await wait()
        self._gone.set()

    async def response(self) -> HttpResponse:
        """Wait for the head of the answer, and return the answer: a stream as it comes, anything else whole.

        Whoever writes a stream watches whether the client has gone.
        """
        try:
            async with trio.open_nursery() as nursery:  # noqa: TID251 - the watcher ends with the head
                nursery.start_soon(self._watch, self._request.wait_gone)
                status, headers = await self._head.wait()
                nursery.cancel_scope.cancel()
            if any(name == "content-type" and value.startswith(STREAM) for name, value in headers):
                return HttpResponse(status, headers, self._write, self._gone.set)
            return HttpResponse(status, headers, b"".join([piece async for piece in self._pieces]))
        except BaseException:  # cancelled, maybe as a group: else the app would write to a client that is gone
            self._gone.set()
            raise

    async def _write(self, send: EndableSend) -> bytes:
        try:
            async for piece in self._pieces:
                await send(piece)
        finally:
            self._gone.set()
        return b""

    def _scope(self) -> Message:
        request = self._request
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": request.path,
            "raw_path": request.path.encode(),
            "root_path": "",
            "query_string": request.query.encode(),
            "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers],
            "client": None,
            "server": None,
            **self._extra,
        }

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            await trio.lowlevel.checkpoint()
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _take(self, message: Message) -> None:
        await trio.lowlevel.checkpoint()
        if message["type"] == "http.response.start":
            pairs = cast("list[tuple[bytes, bytes]]", message.get("headers", []))
            headers = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in pairs]
            self._head.settle((cast("int", message["status"]), tuple(pair for pair in headers if pair[0] not in OWNED)))
        elif not self._gone.is_set():
            self._send.send_nowait(cast("bytes", message.get("body", b"")))
