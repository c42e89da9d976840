"""Print how long it takes until a subscriber hears of an abort, beside a cancel on bare Trio.

`AGENTRAIL_BENCH=small` takes fewer samples. Exits with 1 if a figure is over its limit. If the machine has changed its
speed meanwhile, the figures are printed and do not count.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from typing import Final

import trio

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.events import AgentAbort, ToolExecutionStart
from agentrail.journals import MemoryJournal
from agentrail.models import EmitChunk, FrozenObject, JsonObject, ModelRequest, Response, ToolCall
from agentrail.tools import EffectClass, Ok, ToolContext, ToolSpec, ok
from bench.load import percentile
from tests.kit import EMPTY

WARM: Final = 100
"""Samples that are taken first and not counted."""
PAUSE: Final = 0.005
"""Seconds for which a call runs before it is aborted."""
STEADY: Final = 1.05
"""How much faster or slower the machine may become between the first and the last sample."""

LIMITS: Final = {"p50 / bare": 2.0, "p99 / p50": 3.0}
"""What each ratio may be."""


class Caller:
    """A model that always calls the tool."""

    name = "scripted:caller"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer."""
        return Response((), (ToolCall("", "park", EMPTY),))


class Park:
    """A tool that runs until it is cancelled, and may run again without a person's consent."""

    spec = ToolSpec("park", "Wait.", FrozenObject({"type": "object"}), effect=EffectClass.PURE)

    async def execute(self, args: JsonObject, ctx: ToolContext) -> Ok:
        """Wait."""
        await trio.sleep_forever()
        return ok("never")


async def aborts(samples: int) -> list[float]:
    """Return the seconds from each call of `abort` to its event at the subscriber, while a tool runs."""
    taken: list[float] = []
    spec = SessionSpec(model=Caller(), tools=[Park()], repeat_pattern=1_000_000)
    async with open_supervisor(journal=MemoryJournal(keep=1)) as supervisor:
        session = await supervisor.spawn(spec)
        async with session.subscribe() as events:
            for _ in range(WARM + samples):
                await session.prompt("go on")
                async for envelope in events:
                    if type(envelope.event) is ToolExecutionStart:
                        break
                await trio.sleep(PAUSE)
                async with trio.open_nursery() as nursery:
                    began = time.perf_counter()
                    nursery.start_soon(_abort, session)
                    async for envelope in events:
                        if type(envelope.event) is AgentAbort:
                            break
                    taken.append(time.perf_counter() - began)
    return taken[WARM:]


async def _abort(session: SessionHandle) -> None:
    await session.abort()


async def cancels(samples: int) -> list[float]:
    """Return the seconds of the same on bare Trio, as one writes it: channels, a session, and a tool in its nursery.

    From the call that sends the session what it is to do, until another task hears that the tool is gone.
    """
    taken: list[float] = []
    inbox_in, inbox = trio.open_memory_channel[str](10)
    events_in, events = trio.open_memory_channel[str](10)

    async def tool() -> None:
        events_in.send_nowait("tool started")
        await trio.sleep_forever()

    async def turn() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(tool)
            async for letter in inbox:
                if letter == "abort":
                    nursery.cancel_scope.cancel()

    async def session() -> None:
        async for _ in inbox:
            await turn()
            await events_in.send("aborted")

    async def abort() -> None:
        await inbox_in.send("abort")

    async with trio.open_nursery() as whole:
        whole.start_soon(session)
        for _ in range(WARM + samples):
            await inbox_in.send("prompt")
            await events.receive()
            await trio.sleep(PAUSE)
            async with trio.open_nursery() as nursery:
                began = time.perf_counter()
                nursery.start_soon(abort)
                await events.receive()
                taken.append(time.perf_counter() - began)
        whole.cancel_scope.cancel()
    return taken[WARM:]


def calibration() -> float:
    """Return the seconds of a fixed piece of work."""

    def work() -> float:
        began = time.perf_counter()
        sum(number * number for number in range(300_000))
        return time.perf_counter() - began

    return min(work() for _ in range(20))


def main() -> int:
    """Print the table, and say whether a limit is missed."""
    samples = 1000 if os.environ.get("AGENTRAIL_BENCH", "full") == "full" else 50
    gc.collect()
    gc.freeze()
    before = calibration()
    bare, ours = trio.run(cancels, samples), trio.run(aborts, samples)
    change = calibration() / before
    steady = 1 / STEADY <= change <= STEADY
    p50, p99 = percentile(ours, 0.5), percentile(ours, 0.99)
    print(f"bare cancel: p50 {percentile(bare, 0.5):.3f} ms, p99 {percentile(bare, 0.99):.3f} ms")
    print(f"abort:       p50 {p50:.3f} ms, p99 {p99:.3f} ms")
    missed = False
    for (name, limit), found in zip(LIMITS.items(), (p50 / percentile(bare, 0.5), p99 / p50), strict=True):
        missed |= found > limit
        print(f"{name:36}{found:>10.2f}{limit:>10.1f}{'  MISSED' if found > limit else ''}")
    if not steady:
        print(f"the machine took {change:.2f} times as long for the same work after this: the figures do not count")
    return int(missed and steady)


if __name__ == "__main__":
    sys.exit(main())
