"""What programs on asyncio pay: `python -m bench.bridge`, each figure beside its floor in the same run.

The floor of a call is a bare `run_sync_soon` into a Trio thread and `call_soon_threadsafe` back.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

from agentrail import SessionSpec, aio, open_supervisor
from agentrail.bridge.bridge_reader import AsyncBody
from agentrail.bridge.trio_thread import TrioThread
from agentrail.events import AgentEnd
from agentrail.testing import ScriptedModel, say, stall
from bench.rig import WrittenModel, listened_session
from docs.printing.markdown import table

CALLS: Final = 2_000
EVENTS: Final = 50_000
TURNS: Final = 300
ROUNDS: Final = 7
SESSIONS: Final = 100
ABORTS: Final = 200
SECONDS: Final = 3.0

QUIET: Final = SessionSpec(model=ScriptedModel([stall()], repeat_last=True))


def flood() -> SessionSpec:
    return SessionSpec(model=ScriptedModel([say(chunks=["x"] * EVENTS)], repeat_last=True))


async def each(call: Callable[[], Awaitable[object]], count: int = CALLS) -> list[float]:
    """Return how many seconds each of so many calls took, sorted."""
    times: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        await call()
        times.append(time.perf_counter() - began)
    return sorted(times)


def figure(times: list[float], part: float = 0.5) -> str:
    """Return the part of sorted times as microseconds."""
    return f"{times[min(len(times) - 1, int(len(times) * part))] * 1e6:,.0f}"


@asynccontextmanager
async def nothing() -> AsyncIterator[trio.lowlevel.TrioToken]:
    yield trio.lowlevel.current_trio_token()


async def floor() -> list[float]:
    """Return the times of a bare round trip between the two loops."""
    body = AsyncBody(TrioThread(nothing(), 10))
    token, loop = await body.enter(), asyncio.get_running_loop()

    async def there_and_back() -> None:
        back = loop.create_future()
        token.run_sync_soon(lambda: loop.call_soon_threadsafe(back.set_result, None))
        await back

    times = await each(there_and_back)
    await body.leave(None)
    return times


async def events_of(session: aio.SessionHandle) -> float:
    """Return the seconds for each event of a turn that floods its subscriber."""
    async with session.subscribe() as events:
        began = time.perf_counter()
        await session.prompt("go")
        async for envelope in events:
            if isinstance(envelope.event, AgentEnd):
                break
        return (time.perf_counter() - began) / EVENTS


async def events_on_trio() -> float:
    """Return the same on Trio alone."""
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(flood())
        async with session.subscribe() as events:
            began = time.perf_counter()
            await session.prompt("go")
            async for envelope in events:
                if isinstance(envelope.event, AgentEnd):
                    break
            return (time.perf_counter() - began) / EVENTS


async def calls_on_trio() -> list[float]:
    async with open_supervisor() as supervisor:
        return await each((await supervisor.spawn(QUIET)).label)


async def cpu_of_turn_on_trio(turns: int) -> float:
    """Return the microseconds of CPU of a turn of 20 chunks, of a model as its user writes it, with a subscriber."""
    async with listened_session(model=WrittenModel()) as session:
        return await _cpu_of_turn(session.ask, turns)


async def cpu_of_turn(turns: int) -> float:
    """Return the same through the bridge."""
    async with aio.open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=WrittenModel(), repeat_pattern=1_000_000))
        async with session.subscribe() as events:
            listening = asyncio.create_task(_listen(events))
            cpu = await _cpu_of_turn(session.ask, turns)
            listening.cancel()
            await asyncio.wait([listening])
        return cpu


async def _cpu_of_turn(ask: Callable[[str], Awaitable[object]], turns: int) -> float:
    for _ in range(turns // 5):
        await ask("go on")
    began = time.process_time()
    for _ in range(turns):
        await ask("go on")
    return (time.process_time() - began) / turns * 1e6


async def _listen(events: aio.Subscription) -> None:
    async for _ in events:
        pass


def turns_of_both() -> tuple[float, float, float]:
    """Return the microseconds of CPU of a turn on Trio and through the bridge, and the ratio: medians, by turns."""
    pairs = [(trio.run(cpu_of_turn_on_trio, TURNS), asyncio.run(cpu_of_turn(TURNS))) for _ in range(ROUNDS)]
    on_trio, bridged = zip(*pairs, strict=True)
    ratio = statistics.median(both / alone for alone, both in pairs)
    return statistics.median(on_trio), statistics.median(bridged), ratio


async def aborts() -> list[float]:
    """Return the times of aborts while many sessions stream into the loop."""
    async with aio.open_supervisor() as supervisor:
        spec = SessionSpec(model=ScriptedModel([say(chunks=["x"] * 500, delay=0.02)], repeat_last=True))
        streaming = [asyncio.create_task(_follow(await supervisor.spawn(spec))) for _ in range(SESSIONS)]
        session, times = await supervisor.spawn(QUIET), list[float]()
        for _ in range(ABORTS):
            await session.prompt("go")
            times += await each(session.abort, 1)
        for task in streaming:
            task.cancel()
        await asyncio.gather(*streaming, return_exceptions=True)
        return sorted(times)


async def _follow(session: aio.SessionHandle) -> None:
    async with session.subscribe() as events:
        await session.prompt("go")
        async for _ in events:
            pass


async def saturated(*, trio_too: bool) -> tuple[list[float], list[float]]:
    """Return the times of calls, and the lag of the loop, while one of the loops, or both, always have work."""
    async with aio.open_supervisor() as supervisor:
        session, is_over, lags = await supervisor.spawn(flood()), False, list[float]()

        async def lag() -> None:
            while not is_over:
                began = time.perf_counter()
                await asyncio.sleep(0.001)
                lags.append(time.perf_counter() - began - 0.001)

        async def burn() -> None:
            while not is_over:  # noqa: ASYNC110 - it is to use the loop up
                await asyncio.sleep(0)

        tasks = [asyncio.create_task(work()) for work in (lag, *[burn] * 5)]
        times, until = list[float](), time.perf_counter() + SECONDS
        while time.perf_counter() < until:
            if trio_too and not session.status().turn_open:
                await session.prompt("go")
            times += await each(session.label, 1)
            await asyncio.sleep(0.01)
        is_over = True
        await asyncio.gather(*tasks)
        return sorted(times), sorted(lags)


async def on_asyncio() -> list[tuple[str, str]]:
    rows = [("bare round trip", figure(bare := await floor()))]
    async with aio.open_supervisor() as supervisor:
        session = await supervisor.spawn(QUIET)
        calls = await each(session.label)
        rows.append(("call", f"{figure(calls)} ({calls[len(calls) // 2] / bare[len(bare) // 2]:.1f} × the round trip)"))
        rows.append(("event of a flood", f"{await events_of(await supervisor.spawn(flood())) * 1e6:.0f}"))
        began, used = time.perf_counter(), time.process_time()
        await asyncio.sleep(SECONDS)
        idle = (time.process_time() - used) / (time.perf_counter() - began)
        rows.append(("CPU of an idle supervisor in a second", f"{idle * 1e6:.0f}"))
    rows.append((f"abort p99, {SESSIONS} sessions stream", figure(await aborts(), 0.99)))
    for name, trio_too in (("the loop", False), ("both loops", True)):
        times, lags = await saturated(trio_too=trio_too)
        rows.append((f"call p99, {name} saturated", figure(times, 0.99)))
        rows.append((f"longest lag, {name} saturated", figure(lags, 1.0)))
    return rows


def main() -> None:
    """Print the figures, in microseconds."""
    on_trio, bridged, ratio = turns_of_both()
    rows = [
        ("CPU of a turn of 20 chunks on Trio", f"{on_trio:.0f}"),
        ("CPU of such a turn", f"{bridged:.0f} ({ratio:.2f} × that on Trio)"),
        ("call on Trio", figure(trio.run(calls_on_trio))),
        ("event of a flood on Trio", f"{trio.run(events_on_trio) * 1e6:.0f}"),
        *asyncio.run(on_asyncio()),
    ]
    print("\n".join(table(("what", "µs"), rows)))


if __name__ == "__main__":
    main()
