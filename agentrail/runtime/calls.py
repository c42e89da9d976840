"""One call to a tool: its own task, its own cancel scope, exactly one closing input."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import cast

import trio

from agentrail.core.effects import StartCall
from agentrail.core.inputs import AnyInput, ToolRaised, ToolReturned, ToolStopped
from agentrail.errors import ToolError
from agentrail.ports.tool import Tool, ToolContext
from agentrail.runtime.border import CRASHES, described, fit_result, mended
from agentrail.values.events.envelope import Event
from agentrail.values.events.tools import ToolExecutionUpdate
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

    __slots__ = ("_ended", "_started", "_tool", "_whisper", "scope")

    def __init__(
        self,
        started: StartCall,
        tool: Tool,
        whisper: Callable[[Event], None],
        ended: Callable[[RunningCall, AnyInput], None],
    ) -> None:
        self._started = started
        self._tool = tool
        self._whisper = whisper
        self._ended = ended
        self.scope = trio.CancelScope()

    @property
    def call_id(self) -> str:
        """Which call."""
        return self._started.call_id

    @property
    def name(self) -> str:
        """Which tool."""
        return self._started.name

    @property
    def immune(self) -> bool:
        """Whether a default abort leaves it alone."""
        return self._tool.spec.immune

    def report(self, update: str) -> None:
        """Say how far the call is, as long as anybody is interested."""
        if not self.scope.cancel_called:
            self._whisper(ToolExecutionUpdate(self.call_id, mended(update)))

    async def run(self, ctx: ToolContext) -> None:
        """Run the tool and post its one closing input."""
        started = self._started
        closing: AnyInput = ToolStopped(started.call_id, started.attempt)
        try:
            if self.scope.cancel_called:  # before its first step: a tool may do much before it first waits
                return
            with self.scope:
                result = await execute(self._tool, started.args, ctx)
                closing = ToolReturned(started.call_id, started.attempt, result)
        except CRASHES as error:
            log.warning("tool `%s` raised in call %s", self.name, self.call_id, exc_info=True)
            closing = ToolRaised(started.call_id, started.attempt, described(error))
        finally:
            self._ended(self, closing)


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
