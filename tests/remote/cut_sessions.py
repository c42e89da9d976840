"""Sessions for clients whose connections are cut: they stream, run tools, fail, rest, and their actors crash."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random
from typing import Final

import trio

from agentrail import SessionSpec, tool
from agentrail.host import HostLimits
from agentrail.models import ModelRequest, ToolMessage, UserMessage
from agentrail.testing import ScriptedModel, call, permanent, say
from agentrail.testing.scripted import ScriptedResponse
from tests.kit import Failpoint
from tests.runtime.poison import OurBug

LIMITS: Final = HostLimits(
    drain_seconds=0.5,
    requests_per_second=1e6,
    burst=10**6,
    connections=10_000,
    connections_per_address=10_000,
    streams=10_000,
)
IDLE: Final = 0.005
"""Seconds after which a session that is idle hibernates."""

NOWHERE: Final = "nowhere"
"""A message with this word has the tool raise an error."""
SILENCE: Final = "silence"
"""A message with this word has the model raise an error."""


@tool
async def look(place: str) -> str:
    """Look at a place.

    Args:
        place: The place.
    """
    await trio.sleep(0.01)
    if place == NOWHERE:
        raise LookupError(place)
    return f"nothing at {place}"


def answered(request: ModelRequest) -> ScriptedResponse:
    """Call a tool, then say so much that a cut falls into it."""
    if isinstance(request.messages[-1], ToolMessage):
        return say("so it is " * 10, delay=0.002)
    prompt = next(message.text for message in reversed(request.messages) if isinstance(message, UserMessage))
    if SILENCE in prompt:
        return permanent(after=2)
    return say("a look ", calls=[call("look", {"place": NOWHERE if NOWHERE in prompt else "home"})])


def agent() -> SessionSpec:
    model = ScriptedModel([answered], repeat_last=True)
    return SessionSpec(model=model, tools=[look], hibernate_after=IDLE)


class Crashes:
    """Crashes the actors of sessions, in steps by chance, just before or after these are durable or seen.

    To be given to `watching`.
    """

    POINTS: Final = (Failpoint.APPEND, Failpoint.APPENDED, Failpoint.PUBLISH, Failpoint.PUBLISHED, Failpoint.ANSWER)
    CHANCE: Final = 0.02
    APART: Final = 5.5
    """Seconds between the crashes of a session: with more than three in five seconds, it would be set aside."""

    def __init__(self, draw: Random) -> None:
        self._draw = draw
        self._last = defaultdict[str, float](lambda: -self.APART)
        self.over = False
        self.seen = Counter[Failpoint]()
        """How often an actor has crashed at a point."""

    def __call__(self, point: Failpoint) -> None:
        """Crash the actor that is at *point*, now and then."""
        if self.over or point not in self.POINTS:
            return
        name, now = trio.lowlevel.current_task().name, trio.current_time()
        if not name.startswith("session ") or now < self._last[name] + self.APART or self._draw.random() > self.CHANCE:
            return
        self._last[name] = now
        self.seen[point] += 1
        raise OurBug(point.value)
