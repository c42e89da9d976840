"""Traces: what a session's actor does, step by step, for debugging."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import trio

from agentrail.core.vocabulary.commands import Answer, TraceSent
from agentrail.core.vocabulary.effects import AnyEffect
from agentrail.core.vocabulary.inputs import AnyInput, Arrival
from agentrail.core.vocabulary.state import State
from agentrail.errors import AlreadyLeft, AlreadyRead, NotEntered
from agentrail.hints import AsyncOnly
from agentrail.hooks.ruling import Ruling
from agentrail.reprs import in_brackets, listed
from agentrail.values.events.envelope import Envelope
from agentrail.values.events.plugins import PluginError
from agentrail.values.value import Value

if TYPE_CHECKING:
    from agentrail.core.machine.step import Step

CAPACITY: Final = 256
"""How many steps are buffered for one reader, unless it gives a `capacity`; further ones are dropped and counted."""


class TracedStep(Value, gc=True):
    """One step of a session."""

    input: AnyInput
    """The input that was handled."""
    at: int
    """When the input was handled, in milliseconds since 1970."""
    phase: str
    """Phase of the session before the step."""
    to: str
    """Phase of the session after the step."""
    effects: tuple[AnyEffect, ...]
    """Effects that the step asked for."""
    events: tuple[Envelope, ...]
    """Events that the step emitted."""
    answer: Answer | None = None
    """Answer to the caller; `None` if the input did not come from one."""
    rulings: tuple[Ruling, ...] = ()
    """Decisions of the step's hook runs in which a plugin answered something, failed, or ended or paused the run: each
    has the `hook`, and in `answers` the plugins with what they answered.
    """
    missed: int = 0
    """Number of steps dropped just before this one, because too many waited."""

    def decisions(self) -> tuple[str, ...]:
        """Return a line for each answer of a plugin, such as `before_tool: guard: block_tool: no`, in order."""
        lines: list[str] = []
        for ruling in self.rulings:
            answers = [(answer.plugin, answer.kind, answer.text or answer.name) for answer in ruling.answers]
            if ruling.by is not None and all(plugin != ruling.by for plugin, _, _ in answers) and not ruling.errors:
                answers.append((ruling.by, ruling.verdict.value, ruling.reason))
            failures = [error for error in ruling.errors if isinstance(error, PluginError)]
            answers += [(failure.plugin, "failed", failure.error) for failure in failures]
            lines += [": ".join(filter(None, (ruling.hook, *answer))) for answer in answers]
        return tuple(lines)


class ActorTrace(AsyncOnly):
    """The steps of a session from now on: `async with` it, then `async for` over it."""

    __slots__ = ("_begin", "_capacity", "_ended", "_entered", "_left", "_missed", "_steps", "_task", "_traces")

    def __init__(self, traces: Traces, begin: Callable[[], Awaitable[None]], capacity: int) -> None:
        self._traces = traces
        self._begin = begin
        self._capacity = capacity
        self._steps: deque[TracedStep] = deque()
        self._missed = 0
        self._ended = False
        self._entered = False
        self._left = False
        self._task: trio.lowlevel.Task | None = None

    @in_brackets
    def __repr__(self) -> str:
        state = "not entered" if not self._entered else "left" if self._left else "ended" if self._ended else ""
        missed = f"{self._missed} missed" if self._missed else ""
        return listed(f"{len(self._steps)} of {self._capacity} wait", missed, state)

    async def __aenter__(self) -> Self:
        """Start to receive steps."""
        self._entered = True
        self._traces.add(self)
        try:
            await self._begin()
        except BaseException:
            self._traces.remove(self)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop to receive steps."""
        self._left = True
        self._traces.remove(self)

    def offer(self, step: TracedStep) -> None:
        """Queue a step, or count it as dropped if too many wait."""
        if len(self._steps) >= self._capacity:
            self._missed += 1
            return
        self._steps.append(step.but(missed=self._missed) if self._missed else step)
        self._missed = 0
        self._wake()

    def end(self) -> None:
        """End the trace: no more steps come."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        """Wake the reader, if it waits."""
        task, self._task = self._task, None
        if task is not None:
            trio.lowlevel.reschedule(task)

    def __aiter__(self) -> Self:
        if not self._entered:
            raise NotEntered
        return self

    async def __anext__(self) -> TracedStep:
        if self._left:
            raise AlreadyLeft
        if self._task is not None:
            raise AlreadyRead
        while not self._steps:
            if self._ended:
                raise StopAsyncIteration
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._leave)
        return self._steps.popleft()

    def _leave(self, _: object) -> trio.lowlevel.Abort:
        """Forget the waiting task: called by Trio when it is cancelled."""
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED


class Traces:
    """All traces of one session."""

    __slots__ = ("_all",)

    def __init__(self) -> None:
        self._all: tuple[ActorTrace, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, trace: ActorTrace) -> None:
        """Add *trace*: it gets each step from now on."""
        self._all = (*self._all, trace)

    def remove(self, trace: ActorTrace) -> None:
        """Remove *trace*."""
        self._all = tuple(other for other in self._all if other is not trace)

    def show(self, old: State, arrival: Arrival, outcome: Step) -> None:
        """Send a step to all traces; the input that opened a trace is left out."""
        if isinstance(arrival.input, TraceSent):
            return
        phases = old.phase.value, outcome.state.phase.value
        rulings = tuple(
            ruling for ruling in outcome.rulings if ruling.answers or ruling.errors or ruling.by is not None
        )
        step = TracedStep(arrival.input, arrival.at, *phases, outcome.effects, outcome.events, outcome.answer, rulings)
        for trace in self._all:
            trace.offer(step)

    def end(self) -> None:
        """Tell all traces that no more steps come."""
        for trace in self._all:
            trace.end()
