"""Removes invalid tools from a server's list: the package `mcp` refuses the whole list if one breaks the protocol."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self, cast

from mcp.client._transport import ReadStream, TransportStreams
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCResponse
from mcp_types import methods
from pydantic import ValidationError

LISTING = "tools/list"

Item = SessionMessage | Exception


class Sieve:
    """A transport that wraps another one, and removes invalid tools from the lists that the server sends."""

    __slots__ = ("_inner", "_problems", "version")

    def __init__(self, inner: AbstractAsyncContextManager[TransportStreams]) -> None:
        self._inner = inner
        self._problems: list[str] = []
        self.version = ""

    async def __aenter__(self) -> TransportStreams:
        incoming, outgoing = await self._inner.__aenter__()
        return Sifted(incoming, self._sift), outgoing

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(kind, error, trace)  # noqa: ASYNC102 - the inner one handles cancellation

    def take_problems(self) -> list[str]:
        """Return the reasons for which tools were removed since this was last called."""
        problems, self._problems = self._problems, []
        return problems

    def _sift(self, item: Item) -> None:
        if not self.version or not isinstance(item, SessionMessage) or not isinstance(item.message, JSONRPCResponse):
            return
        result = cast("dict[str, object]", item.message.result)
        listed = result.get("tools")
        if isinstance(listed, list):
            result["tools"] = [tool for tool in cast("list[object]", listed) if self._is_sound(result, tool)]

    def _is_sound(self, result: dict[str, object], tool: object) -> bool:
        try:
            methods.validate_server_result(LISTING, self.version, {**result, "tools": [tool]})
        except ValidationError as error:
            named = cast("dict[str, object]", tool).get("name") if isinstance(tool, dict) else None
            first = error.errors(include_url=False, include_input=False)[0]
            path = ".".join(map(str, first["loc"][2:]))
            self._problems.append(
                f"`{str(named)[:100]}` is left out: its `{path[:100]}` breaks the protocol: {first['msg']}"
            )
            return False
        return True


class Sifted:
    """The stream of messages from a server; each message passes through `sift`, which may change it."""

    __slots__ = ("_inner", "_sift")

    def __init__(self, inner: ReadStream[Item], sift: Callable[[Item], None]) -> None:
        self._inner = inner
        self._sift = sift

    @property
    def last_context(self) -> object:
        """The context of the last message, which the package `mcp` reads from its streams."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> Item:
        """Return the next message, filtered."""
        item = await self._inner.receive()
        self._sift(item)
        return item

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        item = await anext(self._inner)
        self._sift(item)
        return item

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)  # noqa: ASYNC102 - as the inner stream does
