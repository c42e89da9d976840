"""An observer that loses its connection and goes on where it was, and hears of the end of the session.

It keeps the cursor of the last event that it has dealt with: two numbers, which can be stored anywhere. What it has
missed comes first when it subscribes again, from the journal if need be. Deltas are not kept for long: a `Gap` says
that some are gone, and their whole text is in `ResponseComplete`.

    heard SessionStarted PromptReceived, then the line broke
    heard Gap AgentStart RequestStart ResponseComplete AgentEnd
    the session has ended: closing time
"""

from __future__ import annotations

import trio

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.events import AgentAbort, AgentEnd, Cursor


async def observe(session: SessionHandle, cursor: Cursor | None, most: int) -> tuple[list[str], Cursor | None]:
    """Return the names of the next durable events, up to *most* or the end of a turn, and the last cursor."""
    heard: list[str] = []
    async with session.subscribe(since=cursor or 0) as events:
        async for envelope in events:
            cursor = envelope.cursor
            if envelope.n == 0:  # not a delta
                heard.append(type(envelope.event).__name__)
            if len(heard) == most or isinstance(envelope.event, AgentEnd | AgentAbort):
                break
    return heard, cursor


async def main() -> None:
    """Observe a turn in two pieces, and then the end."""
    async with open_supervisor() as supervisor, trio.open_nursery() as nursery:
        session = await supervisor.spawn(SessionSpec(model="demo"))
        async with session.monitor() as monitor:
            await session.prompt("hello", command="greeting")
            heard, cursor = await observe(session, None, 2)
            print(f"heard {' '.join(heard)}, then the line broke")
            await session.ask("hello", command="greeting")  # the same command: its reply
            heard, cursor = await observe(session, cursor, 100)
            print(f"heard {' '.join(heard)}")
            nursery.start_soon(session.stop, "closing time")
            print(f"the session has ended: {(await monitor.wait()).reason}")


trio.run(main)
