"""Calls an ASGI app as a server does, event by event, so that a test decides when each of them comes or is taken."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Final, cast

import trio

from agentrail.host import AsgiApp
from agentrail.host.asgi.asgi_messages import AsgiMessage
from agentrail.nurseries import open_shielded_nursery
from tests.host.hosted import KEYS

EVENTS: Final = 1000
"""The most events that wait on either side, if the test says nothing else."""


def scope_of(method: str, path: str, *, user: str | None = "ann", **more: object) -> AsgiMessage:
    """Return the scope of a request of a *user*; *more* replaces parts of it."""
    key = [] if user is None else [(b"authorization", f"Bearer {KEYS[user]}".encode())]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"), *key],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8000),
        **more,
    }


class OperationCall:
    """One call of an app: the test puts events, and takes those that come back."""

    def __init__(self, room: float) -> None:
        self._in_send, self._in_receive = trio.open_memory_channel[AsgiMessage](EVENTS)
        self._out_send, self._out_receive = trio.open_memory_channel[AsgiMessage](room)
        self.scope = trio.CancelScope()
        self.is_over = trio.Event()
        self._error: Exception | None = None

    async def run(self, app: AsgiApp, scope: AsgiMessage) -> None:
        try:
            with self.scope:
                await app(scope, self._in_receive.receive, self._out_send.send)
        except Exception as error:  # noqa: BLE001 - `rest` raises it
            self._error = error
        finally:
            self._out_send.close()
            self.is_over.set()

    def put(self, **event: object) -> None:
        """Give the app an event."""
        self._in_send.send_nowait(event)

    def put_body(self, *pieces: bytes) -> None:
        """Give the app a whole body, in pieces."""
        for piece in pieces:
            self.put(type="http.request", body=piece, more_body=True)
        self.put(type="http.request", body=b"", more_body=False)

    async def take(self) -> AsgiMessage:
        """Return the next event of the app."""
        with trio.fail_after(100):
            return await self._out_receive.receive()

    async def rest(self) -> list[AsgiMessage]:
        """Return all further events of the app; raise the exception that it has raised."""
        with trio.fail_after(100):
            events = [event async for event in self._out_receive]
        if self._error is not None:
            raise self._error
        return events

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and content of the answer."""
        start, *body = await self.rest()
        headers = cast("list[tuple[bytes, bytes]]", start["headers"])
        content = b"".join([cast("bytes", event["body"]) for event in body])
        assert [event["more_body"] for event in body] == [True] * (len(body) - 1) + [False]
        return cast("int", start["status"]), {name.decode(): value.decode() for name, value in headers}, content


@asynccontextmanager
async def called(app: AsgiApp, scope: AsgiMessage, room: float = EVENTS) -> AsyncGenerator[OperationCall]:
    """Call *app*; *room* is how many events it may send before the test takes one. Leaving it cancels the call."""
    call = OperationCall(room)
    async with open_shielded_nursery() as nursery:
        nursery.start_soon(call.run, app, scope)
        yield call


async def ask(
    app: AsgiApp, method: str, path: str, body: object = None, *, pieces: Sequence[bytes] = (), **scope: object
) -> tuple[int, dict[str, str], bytes]:
    """Make a request, and return status, headers and content of its answer."""
    async with called(app, scope_of(method, path, **scope)) as call:  # type: ignore[arg-type] # whatever a server gives
        call.put_body(*(pieces or ([json.dumps(body).encode()] if body is not None else [])))
        return await call.answer()
