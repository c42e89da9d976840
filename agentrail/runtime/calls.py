"""One call to a tool: its own task, its own cancel scope, exactly one closing input."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import cast

import trio

from agentrail.core.inputs import AnyInput, ToolRaised, ToolReturned, ToolStopped
from agentrail.errors import ToolError
from agentrail.ports.tool import Tool, ToolContext
from agentrail.runtime.border import CRASHES, described, fit_result, mended
from agentrail.values.json import JsonObject
from agentrail.values.tools import ToolResult, err

log = logging.getLogger("agentrail.tool")


async def execute(tool: Tool, args: JsonObject, ctx: ToolContext) -> ToolResult:
    """Run *tool*; a `ToolError` is its own `Err`, anything that is no result is a crash of the call."""
    try:
        result = cast("object", await tool.execute(args, ctx))
    except ToolError as error:
        return err(mended(str(error)))
    return fit_result(result)


class RunningCall:
    """A call that runs, or that was cancelled and has not ended yet."""

    __slots__ = ("attempt", "call_id", "immune", "name", "scope")

    def __init__(self, call_id: str, attempt: int, name: str, *, immune: bool) -> None:
        self.call_id = call_id
        self.attempt = attempt
        self.name = name
        self.immune = immune
        self.scope = trio.CancelScope()

    async def run(self, tool: Tool, args: JsonObject, ctx: ToolContext, post: Callable[[AnyInput], None]) -> None:
        """Run the tool and post its one closing input."""
        closing: AnyInput = ToolStopped(self.call_id, self.attempt)
        try:
            if self.scope.cancel_called:  # before its first step: a tool may do much before it first waits
                return
            with self.scope:
                closing = ToolReturned(self.call_id, self.attempt, await execute(tool, args, ctx))
        except CRASHES as error:
            log.warning("tool `%s` raised in call %s", self.name, self.call_id, exc_info=True)
            closing = ToolRaised(self.call_id, self.attempt, described(error))
        finally:
            post(closing)


class Calls:
    """The calls of all sessions whose tasks have not ended, also of sessions that have."""

    __slots__ = ("_empty", "_running")

    def __init__(self) -> None:
        self._running: set[RunningCall] = set()
        self._empty: trio.Event | None = None

    def add(self, call: RunningCall) -> None:
        """Remember a call that starts."""
        self._running.add(call)

    def remove(self, call: RunningCall) -> None:
        """Forget a call that has ended."""
        self._running.discard(call)
        if not self._running and self._empty is not None:
            self._empty.set()

    def names(self) -> tuple[str, ...]:
        """Return the tools whose calls have not ended."""
        return tuple(sorted(call.name for call in self._running))

    async def wait_empty(self) -> None:
        """Return when all have ended."""
        if self._running:
            self._empty = trio.Event()
            await self._empty.wait()
