"""Viewers of sessions that stream, and the longest time for which each has seen nothing."""

from __future__ import annotations

from collections.abc import Sequence

import trio
from attrs import define, field

from agentrail import RemoteSession
from agentrail.events import AgentEnd, Envelope, Gap


@define
class Viewer:
    """Prompts a session again and again until it is told to end, and sees all that happens there."""

    session: RemoteSession
    acknowledged: list[str] = field(factory=list)
    """Command ids of the prompts that were acknowledged."""
    seen: list[Envelope] = field(factory=list)
    gap: float = 0.0
    """The most seconds between two events, within turns."""
    is_over: bool = False

    async def view(self) -> None:
        async with self.session.subscribe(since=0) as events:
            await self._prompt()
            last = trio.current_time()
            async for envelope in events:
                now = trio.current_time()
                self.gap, last = max(self.gap, now - last), now
                self.seen.append(envelope)
                if isinstance(envelope.event, AgentEnd):
                    if self.is_over:
                        return
                    await self._prompt()
                    last = max(last, now)

    async def _prompt(self) -> None:
        command = f"p{len(self.acknowledged)}"
        await self.session.prompt("hi", command=command)
        self.acknowledged.append(command)

    def check(self) -> None:
        """Check that the durable events have no gap, and are there once."""
        durable = [envelope.seq for envelope in self.seen if not envelope.n and not isinstance(envelope.event, Gap)]
        assert durable == list(range(1, durable[-1] + 1))


def taken_gaps(viewers: Sequence[Viewer]) -> list[float]:
    """Return the gaps of the viewers since the last call, the longest last."""
    gaps = sorted(round(viewer.gap, 2) for viewer in viewers)
    for viewer in viewers:
        viewer.gap = 0.0
    return gaps
