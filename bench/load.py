"""How long an abort takes under load: from the call to the event at the subscriber."""

from __future__ import annotations

import math
import time
from contextlib import suppress

import trio
import trio.testing

from agentrail import SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.errors import MailboxFull, UnknownPrompt
from agentrail.events import AgentAbort, AgentEnd, RequestStart, ToolExecutionStart
from agentrail.journals import MemoryJournal
from agentrail.models import (
    EmitChunk,
    JsonObject,
    ModelRequest,
    Origin,
    Response,
    Text,
    TextChunk,
    ToolCall,
    UserMessage,
)
from agentrail.tools import EffectClass, Ok, ToolContext, ToolSpec, ok
from bench.rig import InstantModel

DELTAS_PER_SECOND = 50
FLOOD_PER_SECOND = 10_000
BURSTS_PER_SECOND = 3


class EndlessModel:
    """Streams until it is stopped."""

    name = "scripted:endless"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Stream."""
        chunk = TextChunk("word ")
        while True:
            await trio.sleep(1 / DELTAS_PER_SECOND)
            emit(chunk)


class OneWord:
    """Answers with one word."""

    name = "scripted:one-word"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer."""
        emit(TextChunk("yes"))
        return Response((Text("yes"),))


async def _spawn(
    supervisor: Supervisor, count: int, model: EndlessModel | OneWord | InstantModel
) -> list[SessionHandle]:
    return [await supervisor.spawn(SessionSpec(model=model, max_prompt_queue=1_000_000)) for _ in range(count)]


async def _timed_aborts(session: SessionHandle, count: int) -> list[float]:
    """Abort *session* again and again while it streams; return the seconds until its subscriber heard of each."""
    taken: list[float] = []
    async with session.subscribe(types=(AgentAbort,)) as events:
        for _ in range(count):
            await session.prompt("go on")
            await trio.sleep(0.002)
            began = time.perf_counter()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(session.abort, "measured")
                await anext(events)
                taken.append(time.perf_counter() - began)
    return taken


async def _flood(session: SessionHandle) -> None:
    """Send messages that change nothing, ten in each millisecond."""

    async def one() -> None:
        with suppress(UnknownPrompt, MailboxFull):
            await session.withdraw("nothing")

    async with trio.open_nursery() as nursery:
        while True:
            for _ in range(FLOOD_PER_SECOND // 1000):
                nursery.start_soon(one)
            await trio.sleep(0.001)


async def aborts_in_a_busy_house(sessions: int, streaming: int, aborts: int) -> list[float]:
    """Abort one session after the other while many live, many stream and one is flooded."""
    async with open_supervisor(journal=MemoryJournal(keep=1)) as supervisor, trio.open_nursery() as nursery:
        await _spawn(supervisor, sessions - streaming - 2, OneWord())
        for session in await _spawn(supervisor, streaming, EndlessModel()):
            await session.prompt("go on")
        (flooded,) = await _spawn(supervisor, 1, OneWord())
        nursery.start_soon(_flood, flooded)
        (aborted,) = await _spawn(supervisor, 1, EndlessModel())
        taken = await _timed_aborts(aborted, aborts)
        nursery.cancel_scope.cancel()
    return taken


async def aborts_beside_bursts(sessions: int, aborts: int, *, gate: bool = True) -> list[float]:
    """Abort one streaming session while all others get a prompt in the same pass, three times a second."""
    async with (
        open_supervisor(journal=MemoryJournal(keep=1), gate_width=None if gate else math.inf) as supervisor,
        trio.open_nursery() as nursery,
    ):
        crowd = await _spawn(supervisor, sessions - 1, OneWord())
        (aborted,) = await _spawn(supervisor, 1, EndlessModel())
        taken: list[float] = []
        async with aborted.subscribe(types=(AgentAbort,)) as events:
            while len(taken) < aborts:
                await aborted.prompt("go on")
                async with trio.open_nursery() as burst:
                    for session in crowd:
                        burst.start_soon(session.prompt, "go on")
                    for _ in range(2):
                        await trio.lowlevel.checkpoint()
                    began = time.perf_counter()
                    burst.start_soon(aborted.abort, "measured")
                    await anext(events)
                    taken.append(time.perf_counter() - began)
                await trio.sleep(1 / BURSTS_PER_SECOND)
        nursery.cancel_scope.cancel()
    return taken


class SlowTool:
    """A tool that takes three seconds, and can be stopped."""

    spec = ToolSpec("slow", "Takes three seconds.", effect=EffectClass.PURE)

    async def execute(self, args: JsonObject, ctx: ToolContext) -> Ok:
        """Take three seconds."""
        await trio.sleep(3)
        return ok("done")


class CallsSlowTool:
    """Calls the slow tool at each request that a prompt begins, and ends at any other."""

    name = "scripted:calls-slow"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer."""
        last = request.messages[-1]
        if isinstance(last, UserMessage) and last.origin is Origin.PROMPT:
            return Response((), (ToolCall("", "slow"),))
        return Response((Text("as you say"),))


async def steers(count: int) -> list[float]:
    """Steer while the slow tool runs; return the seconds until the next request to the model."""
    taken: list[float] = []
    async with open_supervisor(journal=MemoryJournal(keep=1)) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=CallsSlowTool(), tools=[SlowTool()]))
        async with session.subscribe(types=(RequestStart, ToolExecutionStart, AgentEnd)) as events:
            for _ in range(count):
                await session.prompt("go on")
                await anext(events)
                await anext(events)
                began = time.perf_counter()
                await session.steer("something else")
                await anext(events)
                taken.append(time.perf_counter() - began)
                await anext(events)
    return taken


def percentile(taken: list[float], part: float) -> float:
    """Return the milliseconds below which *part* of the aborts stayed."""
    ordered = sorted(taken)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1000
