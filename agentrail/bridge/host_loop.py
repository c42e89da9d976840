"""`HostLoop`: the asyncio loop of the program, in which marked tools, services and models run, as seen from Trio.

A program that has no loop gets an `OwnLoop`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Final, Generic, Protocol, TypeVar, cast

import trio

from agentrail.bridge.waiters import Action, LoopOutbox, Post
from agentrail.errors import BridgeClosed, ToolError, UsageError
from agentrail.reprs import in_brackets

T = TypeVar("T")
R = TypeVar("R")
V = TypeVar("V")

log = logging.getLogger("agentrail.bridge")

OWN_NAME: Final = "agentrail loop"
"""Name of the thread of an `OwnLoop`."""

ENDING_SECONDS: Final = 1.0
"""Seconds that tasks have to end, once they are cancelled at the end of the loop."""


class OwnLoop:
    """An asyncio loop in a thread; both are started at the first use."""

    def __init__(self) -> None:
        self._outbox: LoopOutbox | None = None
        """The way into the loop; `None` before the first use."""
        self._thread = threading.Thread(target=self._run, name=OWN_NAME, daemon=True)
        self._closing = asyncio.Event()
        """Set, in the loop, when it is to end."""

    @in_brackets
    def __repr__(self) -> str:
        return "running" if self._thread.is_alive() else "not running"

    @property
    def is_here(self) -> bool:
        """Whether the caller is in the thread of the loop."""
        return threading.current_thread() is self._thread

    def outbox(self) -> LoopOutbox:
        """Return the way into the loop; called in the Trio thread."""
        if self._outbox is None:
            self._outbox = LoopOutbox(asyncio.new_event_loop(), _nothing)
            self._thread.start()
        return self._outbox

    def _run(self) -> None:
        """Body of the thread."""
        if self._outbox is None:
            return
        loop = self._outbox.loop
        life = loop.create_task(self._live(loop))
        # asyncio leaves the loop when a task of it raises one of these. The task has ended with it; the others go on:
        # tests/bridge/test_sync.py::test_a_task_of_a_marked_tool_that_exits_ends_nothing_else
        while not life.done():
            with suppress(SystemExit, KeyboardInterrupt):
                loop.run_until_complete(life)
        loop.close()

    async def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let tasks run until the loop is closed, and end them then."""
        await self._closing.wait()
        tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=ENDING_SECONDS)
        await loop.shutdown_asyncgens()

    def close(self) -> None:
        """End the loop and its thread; tasks that ignore their cancellation are dropped with it."""
        if self._outbox is not None:
            self._outbox.put(self._closing.set)
            self._thread.join()


def _nothing() -> None:
    """No-op: the loop is closed after the supervisor, so nobody waits any more."""


PATIENCE: Final = 10.0
"""Seconds that a caller waits for a function that takes no time, before it takes Trio for stuck."""


class CallTrio(Protocol):
    """Interface: runs an async function on Trio, for a task of an asyncio loop."""

    async def __call__(self, work: Callable[[], Awaitable[R]]) -> R:
        """Return what *work* returns."""
        ...


_HOST_LOOP: Final[trio.lowlevel.RunVar[HostLoop]] = trio.lowlevel.RunVar("agentrail-host-loop")


class HostedRun(Generic[T]):
    """One run of marked code: an asyncio task, for which a Trio task waits."""

    __slots__ = (
        "_context",
        "_error",
        "_loop",
        "_post",
        "_start",
        "_task",
        "_value",
        "ended",
        "name",
        "patience",
    )

    def __init__(
        self,
        start: Callable[[], Awaitable[T]],
        name: str,
        context: Context,
        loop: asyncio.AbstractEventLoop,
        post: Post,
    ) -> None:
        self.name: Final = name
        """What runs, in words."""
        self.ended = trio.Event()
        """Set when nothing of it runs any more."""
        # Shielded: code that was cancelled and still runs is waited for, as in `HostLoop.run`.
        self.patience = trio.CancelScope(shield=True)
        """Holds the Trio task while cancelled code ends; cancelled itself if it is left behind."""
        self._start = start
        """Returns what the asyncio task awaits."""
        self._context = context
        """Context variables of the Trio task; the asyncio task has a copy."""
        self._loop = loop
        self._post = post
        """Has an action run in the Trio thread."""
        self._task: asyncio.Task[T | None] | None = None
        self._value: T | None = None
        """What the code returned."""
        self._error: BaseException | None = None
        """What the code raised."""

    @in_brackets
    def __repr__(self) -> str:
        return f"{self.name} {'ended' if self.ended.is_set() else 'runs'}"

    # In the loop

    def begin(self) -> None:
        """Start the asyncio task."""
        self._task = self._loop.create_task(self._body(), name=f"agentrail {self.name}", context=self._context)
        self._task.add_done_callback(self._keep)

    async def _body(self) -> T | None:
        """Return what the code returns. Keep a `SystemExit`: asyncio ends the loop if a task raises one.

        On Trio it is an error of the code alone, too. A `KeyboardInterrupt` may be the user's, and ends the program.
        """
        try:
            return await self._start()
        except SystemExit as error:
            self._error = error
            return None

    def cancel(self) -> None:
        """Cancel the asyncio task. No-op if it has ended: `begin` always comes before."""
        if self._task is not None:
            self._task.cancel()

    def _keep(self, task: asyncio.Task[T | None]) -> None:
        """Keep how the task ended, and tell Trio of the end."""
        if task.cancelled():
            # Nobody on Trio asked for it, or else nobody looks at it: it is a crash of the code.
            self._error = asyncio.CancelledError(f"{self.name} was cancelled, and not by its session")
        elif self._error is None:
            self._error = task.exception()
            self._value = None if self._error is not None else task.result()
        self._task = None
        self._post(self.ended.set)

    # On Trio

    def break_off(self, error: BaseException) -> None:
        """End the run with *error*: its loop is gone."""
        if not self.ended.is_set():
            self._error = error
            self.ended.set()

    def result(self) -> T:
        """Return what the code returned, or raise what it raised."""
        error, self._error = self._error, None
        if error is None:
            return cast("T", self._value)
        try:
            raise error
        finally:
            del error  # breaks a reference cycle: its traceback holds this frame


class Relay(Generic[V]):
    """A function on Trio that code in the loop calls without waiting: the first error of it ends that code.

    An error would else be raised where Trio takes what was posted, which ends the whole run.
    """

    __slots__ = ("_error", "_function", "_host", "_scope")

    def __init__(self, function: Callable[[V], None], host: HostLoop) -> None:
        self._function = function
        """What is called, on Trio."""
        self._host = host
        """The loop in which the code runs."""
        self._scope = trio.CancelScope()
        """Holds the Trio task that waits for the code."""
        self._error: Exception | None = None
        """The first error of the function; `None` if it has raised none."""

    def __call__(self, value: V) -> None:
        """Have the function called with *value*, in order."""
        self._host.post(partial(self._take, value))

    def _take(self, value: V) -> None:
        """Call the function, unless it has raised before."""
        if self._error is None:
            try:
                self._function(value)
            except Exception as error:  # noqa: BLE001 - `over` raises it
                self._error = error
                self._scope.cancel()

    async def over(self, work: Awaitable[T]) -> T:
        """Return what the code gives that *work* waits for; cancel it when the function raises, and raise that."""
        with self._scope:
            value = await work
            if self._error is None:
                return value
        error, self._error = cast("Exception", self._error), None  # nothing but an error cancels the scope
        try:
            raise error
        finally:
            del error  # breaks a reference cycle: its traceback holds this frame


class HostLoop:
    """Runs marked code in the loop of the program, and waits for it on Trio."""

    __slots__ = ("_outbox", "_own_loop", "_post", "_runs", "call")

    def __init__(self, loop: LoopOutbox | OwnLoop, post: Post, call: CallTrio) -> None:
        self.call: Final = call
        """Runs an async function on Trio, for a caller in the loop."""
        self._own_loop = loop if isinstance(loop, OwnLoop) else None
        """The loop, if it is in a thread that is started for it and ends with the supervisor; else `None`."""
        self._outbox: Callable[[], LoopOutbox] = loop.outbox if isinstance(loop, OwnLoop) else lambda: loop
        """Returns the outbox of the loop."""
        self._post = post
        """Has an action run in the Trio thread."""
        self._runs: set[HostedRun[object]] = set()
        """What runs in the loop, or has been cancelled and has not ended."""

    @property
    def is_own_and_here(self) -> bool:
        """Whether the loop is in a thread that was started for it, and the caller is in that thread."""
        return self._own_loop is not None and self._own_loop.is_here

    def close(self) -> None:
        """End the loop and its thread, if it has one of its own."""
        if self._own_loop is not None:
            self._own_loop.close()

    def install(self) -> None:
        """Make this the host loop of the Trio run of the caller."""
        _HOST_LOOP.set(self)

    def post(self, action: Action) -> None:
        """Have *action* run in the Trio thread; no-op if that has ended."""
        self._post(action)

    def put(self, action: Action) -> None:
        """Have *action* run in the loop."""
        self._outbox().put(action)

    def call_now(self, work: Callable[[], T]) -> T:
        """Run *work*, which takes no time, in the Trio thread; block until it has returned. Trio never waits for us."""
        outcome: Future[T] = Future()
        if not self._post(partial(_settle, work, outcome)):
            raise BridgeClosed
        return outcome.result(PATIENCE)

    async def run(self, start: Callable[[], Awaitable[T]], name: str) -> T:
        """Run *start* in a task of the loop, with the context variables of the caller, and return its result.

        A cancelled caller cancels the task and waits for its end.
        """
        outbox = self._outbox()
        run = HostedRun(start, name, copy_context(), outbox.loop, self._post)
        self._runs.add(cast("HostedRun[object]", run))
        try:
            outbox.put(run.begin)
            try:
                await run.ended.wait()
            except trio.Cancelled:
                outbox.put(run.cancel)
                # Shielded: code that still runs is not over, as a Trio task is not that ignores its cancellation:
                # tests/bridge/test_marked_code.py::test_a_cancelled_tool_is_waited_for
                with run.patience:
                    await run.ended.wait()  # noqa: ASYNC102 - `give_up` ends it, as the end of a Trio task is awaited
                raise
        finally:
            self._runs.discard(cast("HostedRun[object]", run))
        return run.result()

    def lose(self) -> None:
        """End all runs: the loop is closed, so what ran there is dead."""
        for run in tuple(self._runs):
            run.break_off(ToolError(str(UsageError("loop-gone"))))

    async def give_up(self, seconds: float) -> None:
        """Leave behind what still runs in the loop in so many *seconds*, and name it in the log."""
        await trio.sleep(seconds)
        for run in tuple(self._runs):
            log.warning("%s ignores its cancellation and is left behind in its asyncio loop", run.name)
            run.patience.cancel()


def _settle(work: Callable[[], T], outcome: Future[T]) -> None:
    """Run *work*, and keep how it ended in *outcome*."""
    try:
        outcome.set_result(work())
    except Exception as error:  # noqa: BLE001 - the caller gets it
        outcome.set_exception(error)


def host_loop(what: str) -> HostLoop:
    """Return the host loop of this Trio run; raise `UsageError`, which names *what* needs it, if there is none."""
    try:
        return _HOST_LOOP.get()
    except (LookupError, RuntimeError):
        raise UsageError("no-host-loop", what) from None
