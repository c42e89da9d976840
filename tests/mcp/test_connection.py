"""The task that owns a client: how long it waits, and how often it asks for tools; the server is in memory."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Final

import anyio
import pytest
import trio
import trio.lowlevel
import trio.testing

from agentrail.errors import OutsideError, ToolError
from agentrail.mcp import McpServer
from agentrail.models import Json
from agentrail.tools import EffectClass, Tool
from tests.coded import coded
from tests.kit import freeze_object
from tests.mcp.rig import NO_EXTRA

connection = pytest.importorskip("agentrail.adapters.mcp.connection", reason=NO_EXTRA)
adopting = pytest.importorskip("agentrail.adapters.mcp.server_tools", reason=NO_EXTRA)
calls = pytest.importorskip("agentrail.adapters.mcp.server_calls", reason=NO_EXTRA)
types = pytest.importorskip("mcp.types", reason=NO_EXTRA)
messages = pytest.importorskip("mcp.shared.message", reason=NO_EXTRA)

START: Final = 5.0
"""Seconds that the server has to start."""

Page = dict[str, Json]


def page(*names: str, more: str | None = None) -> Page:
    """Return a page of the list of tools; *more* is where the next one begins."""
    listed: list[Json] = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    return {"tools": listed} if more is None else {"tools": listed, "nextCursor": more}


async def until(is_so: Callable[[], object]) -> None:
    """Let others run until *is_so*; the clock stands still, as tools are adopted in a thread, which takes real time."""
    while not is_so():  # noqa: ASYNC110 - see above
        await trio.lowlevel.checkpoint()


class ServerInMemory:
    """A server of an older protocol: *pages* returns a page of its list of tools, by where it begins."""

    def __init__(self, pages: Callable[[str], Page], *, silent_in: str = "", broken_calls: bool = False) -> None:
        self.listed_at: list[float] = []
        """When it was asked for a page of the list."""
        self.offered: list[list[str]] = []
        """The tools that the session was offered."""
        self._pages = pages
        self._silent_in = silent_in
        self._broken_calls = broken_calls
        self._out, self._client_in = anyio.create_memory_object_stream[object](math.inf)
        self._client_out, self._in = anyio.create_memory_object_stream[object](math.inf)

    @asynccontextmanager
    async def transport(self) -> AsyncGenerator[tuple[object, object]]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve)
            async with self._client_in, self._client_out:
                yield self._client_in, self._client_out
            nursery.cancel_scope.cancel()

    async def _serve(self) -> None:
        async with self._in, self._out:
            async for item in self._in:
                request = getattr(item, "message").model_dump(by_alias=True)  # noqa: B009 - the package may be missing
                if "id" in request:
                    await self._answer(request)

    async def _answer(self, request: dict[str, object]) -> None:
        method, params = request["method"], request.get("params")
        if method == self._silent_in:
            return
        result: object = None
        match method:
            case "initialize":
                result = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {"listChanged": True}},
                    "serverInfo": {"name": "memory", "version": "1"},
                }
            case "tools/list":
                self.listed_at.append(trio.current_time())
                result = self._pages(str(params.get("cursor") or "") if isinstance(params, dict) else "")
            case "tools/call" if self._broken_calls:
                result = {"content": "no list"}
            case _:
                await self._send(types.JSONRPCError, id=request["id"], error={"code": -32601, "message": "unknown"})
                return
        await self._send(types.JSONRPCResponse, id=request["id"], result=result)

    async def tell_change(self) -> None:
        """Tell the client that the list of tools has changed."""
        await self._send(types.JSONRPCNotification, method="notifications/tools/list_changed")

    async def _send(self, kind: Callable[..., object], **fields: object) -> None:
        await self._out.send(messages.SessionMessage(kind(jsonrpc="2.0", **fields)))

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[object]:
        """Own a client of this server, as a session does, and yield the connection."""

        async def offer(tools: Sequence[Tool], _problems: object) -> None:
            self.offered.append([tool.spec.name for tool in tools])

        kept = connection.Connection(McpServer(url="http://127.0.0.1:1", name="m", start_timeout=START), offer)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(kept.keep, self.transport())
            await until(lambda: self.offered)
            yield kept
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("method", ["initialize", "tools/list"])
async def test_a_server_that_does_not_answer_at_the_start_is_given_up(
    method: str,
    autojump_clock: object,  # noqa: ARG001 - it is Trio's
) -> None:
    server = ServerInMemory(lambda _: page("one"), silent_in=method)

    async def offer(*_: object) -> None:
        """Take no tools."""

    kept = connection.Connection(McpServer(url="http://127.0.0.1:1", name="m", start_timeout=START), offer)
    began = trio.current_time()
    with pytest.raises(OutsideError, check=coded("mcp-failed"), match="does not answer"):
        await kept.keep(server.transport())
    assert trio.current_time() - began == pytest.approx(START, abs=0.1)


async def test_a_server_that_is_there_may_be_still_for_as_long_as_it_likes(
    autojump_clock: object,  # noqa: ARG001 - it is Trio's
) -> None:
    server = ServerInMemory(lambda _: page("one"))
    async with server.kept():
        await trio.sleep(10 * (START + connection.PATIENCE))
        await server.tell_change()
        await until(lambda: len(server.offered) == 2)


async def test_all_pages_of_a_list_are_read(
    autojump_clock: object,  # noqa: ARG001 - it is Trio's
) -> None:
    pages = {"": page("one", more="2"), "2": page("two", more="3"), "3": page("three")}
    server = ServerInMemory(pages.__getitem__)
    async with server.kept():
        assert server.offered == [["m__one", "m__two", "m__three"]]


async def test_a_list_without_an_end_is_read_until_it_is_too_long(
    autojump_clock: object,  # noqa: ARG001 - it is Trio's
) -> None:
    def endless(cursor: str) -> Page:
        start = int(cursor or "0")
        return page(*(f"t{number}" for number in range(start, start + 100)), more=str(start + 100))

    server = ServerInMemory(endless)
    async with server.kept():
        assert len(server.listed_at) == adopting.MAX_TOOLS // 100 + 1


async def test_pages_in_a_circle_are_read_once(
    autojump_clock: object,  # noqa: ARG001 - it is Trio's
) -> None:
    pages = {"": page("one", more="2"), "2": page("two", more="3"), "3": page("three", more="2")}
    server = ServerInMemory(pages.__getitem__)
    async with server.kept():
        assert (server.offered, len(server.listed_at)) == ([["m__one", "m__two", "m__three"]], 3)


async def test_a_server_that_tells_of_changes_all_the_time_is_asked_now_and_then(
    autojump_clock: object,  # noqa: ARG001 - it is Trio's
) -> None:
    server = ServerInMemory(lambda _: page("one"))
    async with server.kept():
        while len(server.listed_at) < 4:
            await server.tell_change()
            await trio.sleep(connection.PAUSE / 100)
    _, *times = server.listed_at
    assert all(later >= earlier + connection.PAUSE for earlier, later in pairwise(times))


async def test_after_a_call_without_an_answer_it_is_seen_whether_the_server_is_there(
    autojump_clock: object,  # noqa: ARG001 - it is Trio's
) -> None:
    server = ServerInMemory(lambda _: page("one"), broken_calls=True)

    async def hear(*_: object) -> None:
        """Take no progress."""

    async with server.kept() as kept:
        call = calls.ServerCall("one", freeze_object({}), EffectClass.PURE, "c1", 1, hear)
        with pytest.raises(ToolError, match="gave no answer"):
            await kept.call(call)  # type: ignore[attr-defined]
        await until(lambda: len(server.listed_at) == 2)
