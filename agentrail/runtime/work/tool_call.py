"""Runs tool calls, each in a task of the pool; exactly one input is posted when it ends.

After a restart of the process, a call may be due before the source of its tool has started. `LateCalls` keeps it until
then.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Container, Iterable
from typing import cast

import trio

from agentrail.core.vocabulary.effects import ProbeCall, StartCall
from agentrail.core.vocabulary.inputs import AnyInput, CallProbed, ToolRaised, ToolReturned, ToolStopped
from agentrail.errors import ToolError
from agentrail.ports.failpoints import reach
from agentrail.ports.protocol_members import has_members
from agentrail.ports.tool import Checkable, Tool, ToolContext
from agentrail.reprs import in_brackets, listed
from agentrail.runtime.shared.call_snapshots import CallSnapshots
from agentrail.runtime.shared.task_pool import Work
from agentrail.runtime.shared.threads import CallThreads, WorkerThreads
from agentrail.runtime.shared.turn_waits import TurnWork
from agentrail.runtime.shared.untrusted_calls import crash_text, traced
from agentrail.runtime.work.screening import HeldReports, Screens
from agentrail.values.events.envelope import Event
from agentrail.values.events.tools import ToolExecutionUpdate
from agentrail.values.json import JsonObject
from agentrail.values.rewinds import FileSpan
from agentrail.values.tools import Effect, NotStarted, Probed, ToolResult, Unknown, err
from agentrail.values.untrusted_content import fit_result, fit_text
from agentrail.values.untrusted_values import message_of


class LateCalls:
    """Calls that wait until a source of tools has started."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: tuple[StartCall | ProbeCall, ...] | None = None

    def expect(self) -> None:
        """Keep calls from now on: sources are starting."""
        self._waiting = ()

    def takes(self, effect: StartCall | ProbeCall) -> bool:
        """Keep *effect* if calls may wait now; return whether it was kept."""
        if self._waiting is not None:
            self._waiting = (*self._waiting, effect)
        return self._waiting is not None

    def drop(self, call_id: str) -> StartCall | ProbeCall | None:
        """Remove the waiting call of this id, which was cancelled, and return it; `None` if no such call waits."""
        waiting_effect = next((effect for effect in self._waiting or () if effect.call_id == call_id), None)
        if waiting_effect is not None:
            self._waiting = tuple(effect for effect in self._waiting or () if effect is not waiting_effect)
        return waiting_effect

    def release(self) -> tuple[StartCall | ProbeCall, ...]:
        """Keep no more calls, and return those kept so far."""
        waiting, self._waiting = self._waiting or (), None
        return waiting


log = logging.getLogger("agentrail.tool")


async def execute(tool: Tool, args: JsonObject, ctx: ToolContext) -> ToolResult:
    """Run *tool*; a `ToolError` becomes an `Err`, and a return value that is no result raises."""
    try:
        with TurnWork(ctx.session_id, tool.spec.name):
            result = cast("object", await tool.execute(args, ctx))
    except ToolError as error:
        return err(message_of(error))
    return fit_result(result)


async def probe(tool: Tool, key: str) -> Probed:
    """Ask *tool* what became of the call that ran under *key*; an answer of a wrong type raises."""
    if not has_members(tool, Checkable):
        return Unknown()
    fate = cast("object", await tool.probe(key))
    if isinstance(fate, NotStarted | Unknown):
        return fate
    result = fit_result(fate)
    if isinstance(result, Effect):
        message = "a probe returned an `Effect` where Ok, Err, NotStarted or Unknown is wanted"
        raise TypeError(message)
    return result


class RunningCall(Work):
    """A call that runs, or was cancelled and has not ended yet."""

    __slots__ = (
        "_closing",
        "_ended",
        "_files",
        "_held",
        "_session_id",
        "_snapshots",
        "_started",
        "_tool",
        "_whisper",
        "threads",
    )

    def __init__(
        self,
        session_id: str,
        started: StartCall | ProbeCall,
        tool: Tool,
        threads: WorkerThreads,
        publish_ephemeral: Callable[[Event], None],
        ended: Callable[[RunningCall, AnyInput], None],
        screens: Screens | None = None,
        snapshots: CallSnapshots | None = None,
    ) -> None:
        super().__init__()
        self._snapshots = snapshots
        # Set when both snapshots are taken; `None` if none are to be taken, or cannot be.
        self._files: FileSpan | None = None
        self._held = None if screens is None else HeldReports(screens.text, screens.reach)
        self._session_id = session_id
        self._started = started
        self._tool = tool
        self._whisper = publish_ephemeral
        self._ended = ended
        self._closing: AnyInput = ToolStopped(started.call_id, started.attempt)
        self.threads = CallThreads(threads, started.name)

    @in_brackets
    def __repr__(self) -> str:
        return listed(f"{self.name!r} {self.call_id!r}", "cancelled" if self.cancelled else "")

    @property
    def call_id(self) -> str:
        """Id of the call."""
        return self._started.call_id

    @property
    def name(self) -> str:
        """Name of the tool."""
        return self._started.name

    @property
    def label(self) -> str:
        """What the call is called in texts for people: its tool, session and id."""
        return f"{self.name} ({self._session_id}/{self.call_id})"

    @property
    def immune(self) -> bool:
        """Whether steering and a default abort leave it running."""
        return self._tool.spec.immune

    def report(self, update: str) -> None:
        """Publish progress of the call. In an abandoned thread it raises, which ends the thread."""
        if trio.lowlevel.in_trio_run():
            self._say(update)
        else:
            trio.from_thread.check_cancelled()
            trio.from_thread.run_sync(self._say, update)

    def _say(self, update: str) -> None:
        """Publish progress, or hold it back until it is screened; nothing after a cancellation."""
        if not self.cancelled:
            update = fit_text(update)
            self._tell((update,) if self._held is None else self._held.reports(update))

    def _tell(self, updates: Iterable[str]) -> None:
        """Publish *updates* as events."""
        for update in updates:
            self._whisper(ToolExecutionUpdate(self.call_id, update))

    async def run(self, ctx: ToolContext, give_deps: Callable[[], Awaitable[ToolContext]] | None = None) -> None:
        """Run the tool with *ctx*, or with what *give_deps* makes of it."""
        reach("CALL_SPAWNED")
        if not self.cancelled:  # a cancelled tool would still run until its first checkpoint
            if give_deps is not None:
                ctx = await give_deps()
            if self._snapshots is None:
                self._closing = await self._ended_well(self._started, ctx)
            else:
                await self._run_between(self._snapshots, ctx)

    async def _run_between(self, snapshots: CallSnapshots, ctx: ToolContext) -> None:
        """Run the tool between two snapshots of the files."""
        await snapshots.begin()
        try:
            self._closing = await self._ended_well(self._started, ctx)
        finally:
            # Shielded: a call that is cancelled has changed files too, and they are to come back.
            with trio.CancelScope(shield=True):
                self._files = await snapshots.end()

    async def stopped(self) -> None:
        """Wait until all threads of the cancelled call have ended."""
        await self.threads.wait_ended()

    def over(self) -> None:
        """Post one input: nothing of the call runs any more."""
        reach("CALL_ENDED")
        if self._held is not None and not self.cancelled:
            self._tell(self._held.rest())
        if self._files is not None and isinstance(self._closing, ToolReturned | ToolRaised | ToolStopped):
            self._closing = self._closing.but(files=self._files)
        self._ended(self, self._closing)
        reach("CALL_POSTED")

    async def _ended_well(self, started: StartCall | ProbeCall, ctx: ToolContext) -> AnyInput:
        """Run or probe the tool, and return the input with its result."""
        if not isinstance(started, StartCall):
            reach("PROBE")
            fate = await probe(self._tool, started.key)
            reach("PROBED")
            return CallProbed(started.call_id, started.attempt, fate)
        reach("TOOL")
        result = await execute(self._tool, started.args, ctx)
        reach("TOOL_DONE")
        return ToolReturned(started.call_id, started.attempt, result)

    def raised(self, error: BaseException) -> None:
        """Keep how a call that raised ends: an `Err` for a `ToolError`, `Unknown` for a probe, else `ToolRaised`."""
        started = self._started
        if isinstance(started, ProbeCall):
            log.warning("the probe of tool `%s` raised for call %s: %s", self.name, self.call_id, traced(error))
            self._closing = CallProbed(started.call_id, started.attempt, Unknown())
            return
        if isinstance(error, ToolError):
            self._closing = ToolReturned(started.call_id, started.attempt, err(message_of(error)))
            return
        log.warning("tool `%s` raised in call %s: %s", self.name, self.call_id, traced(error))
        self._closing = ToolRaised(
            started.call_id, started.attempt, crash_text(error, self._tool, self.name, "@aio.tool")
        )


class Calls:
    """All tool calls of a tree whose tasks have not ended, even if their session has."""

    __slots__ = ("_empty", "_running")

    def __init__(self) -> None:
        self._running: set[RunningCall] = set()
        self._empty: trio.Event | None = None

    def add(self, call: RunningCall) -> None:
        """Add a call that starts."""
        self._running.add(call)

    def remove(self, call: RunningCall) -> None:
        """Remove a call that has ended."""
        self._running.discard(call)
        if not self._running and self._empty is not None:
            self._empty.set()

    def names(self, excepted: Container[str]) -> tuple[str, ...]:
        """Return the unfinished calls as text (tool, session, call), without calls of the tools in *excepted*."""
        return tuple(sorted(call.label for call in self._running if call.name not in excepted))

    async def wait_empty(self) -> None:
        """Wait until all calls have ended."""
        if self._running:
            self._empty = trio.Event()
            await self._empty.wait()
